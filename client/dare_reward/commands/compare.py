"""`dare-reward compare FILE --methods dare,ttrl`: several methods side by side on the same rollouts."""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict
from itertools import combinations
from typing import Any

import numpy as np

from dare_reward.analysis.group_size import BySize, Labeller, by_size
from dare_reward.analysis.labels import known_groups
from dare_reward.analysis.ranks import rank_correlation
from dare_reward.answers.classes import Labels
from dare_reward.answers.rollouts import ANSWER_SPECS
from dare_reward.commands.tables import PAPER, Screen, add_wide, number, screen_of, short_answer, table, wrapped
from dare_reward.errors import DareError, RequestError
from dare_reward.estimators.method import Estimate, Method
from dare_reward.files.output import text_file
from dare_reward.files.reader import Faults
from dare_reward.groups import Groups
from dare_reward.methods import find
from dare_reward.reply import GroupReply
from dare_reward.runs.log import finite
from dare_reward.scoring.diagnostics import correctness
from dare_reward.scoring.request import UNLIMITED, prepare
from dare_reward.scoring.score import pseudo_label

from .closing import Closing
from .command import add_command
from .group_lines import MISSING, add_file, add_out, add_param, chosen_params, read_groups, remedies, unscored, warn
from .mismatched_labels import MismatchedLabels
from .scoring import add_where, check_variables, score_all, scorer
from .sizes import by_rollouts, sentence

SHOWN = 20
METHODS = "dare,ttrl"
EACH = ("method", "scored", "winner", "label right", "reward right", "all equal")
PAIRS = ("pair", "rank correlation", "over groups", "other winner")
LEGEND = """winner: groups with a pseudo-label. label right: how often it is the label of your file. reward right:
rollouts whose agreement with it equals their correctness. all equal: groups whose rewards are all equal."""


def register(subparsers: Any) -> None:
    parser = add_command(
        subparsers,
        "compare",
        examples=(
            "dare-reward compare rollouts.jsonl",
            "dare-reward compare rollouts.jsonl --methods dare,majority,scrl",
            "dare-reward compare rollouts.jsonl --methods dare,ttrl -p missing_entropy=frequency",
        ),
        exits="0 if every method scored every group, 1 if some did not, 2 if nothing was done.",
    )
    add_file(parser, "Groups of rollouts")
    parser.add_argument(
        "--methods", default=METHODS, metavar="A,B,...", help=f"The methods, separated by commas (default: {METHODS})."
    )
    add_where(parser)
    add_param(parser, "Set a parameter of the methods that have it. You may repeat it.")
    add_out(parser)
    parser.add_argument("--json", action="store_true", help="Write one JSON object instead of tables.")
    add_wide(parser)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Every method on every group; what cannot be read is left out for all. `--help` says what the codes mean."""
    names = list(dict.fromkeys(n.strip() for n in arguments.methods.split(",") if n.strip()))
    if not names:
        raise RequestError(f"--methods names none: write it like {METHODS}", code="method")
    params = chosen_params(arguments, methods=names)
    check_variables()
    closing = Closing()
    with ExitStack() as stack:
        scorers = {m: scorer(arguments, m, values, stack) for m, values in params.items()}
        reader = read_groups(arguments)
        source, faults = list(reader), Faults(reader.unit, warn)
        found = {m: [reply for _, _, reply in score_all(source, ask)] for m, ask in scorers.items()}
        good = _readable(source, found, faults, closing)
        faults.say()
        reader.say(warn)
        if not good:
            raise RequestError(f"{arguments.file}: nothing could be scored", code="empty")
        groups = [group for i in good if not isinstance(group := source[i][1], RequestError)]
        results = {m: [replies[i] for i in good] for m, replies in found.items()}
        labels = [g.get("label") for g in groups]
        _check_labels(groups, next(iter(results.values())))
        rollouts = _by_rollouts(groups, params)
        on = PAPER if arguments.out else screen_of(arguments)
        if arguments.json:
            text = json.dumps(finite({**summary(results), "rollouts": rollouts and asdict(rollouts)}), indent=1)
        else:
            text = comparison(results, labels, on=on)
            text += "" if rollouts is None else _in_words(rollouts, on)
        if arguments.out:
            target = text_file(arguments.out, force=arguments.force)
            stack.enter_context(target).write(text + "\n")
        else:
            print(text)
    closing.say()
    lacking = _say_unscored(results, groups)
    if lacking:
        warn(*remedies(arguments.words, lacking, candidates=reader.notes.candidates))
    return int(len(faults) > 0 or any(g.error for replies in results.values() for g in replies))


def _check_labels(groups: Sequence[Mapping[str, Any]], replies: Sequence[GroupReply]) -> None:
    """A warning if no label equals any answer."""
    mismatch = MismatchedLabels()
    for group, reply in zip(groups, replies, strict=True):
        right = bool((reply.diagnostics or {}).get("ground_truth_ratio"))
        mismatch.add(f"group {reply.group_id}", group.get("label"), reply.answers or (), right=right)
    if mismatch.sentence:
        warn(f"WARNING: {mismatch.sentence}")


def _by_rollouts(groups: Sequence[Mapping[str, Any]], params: Mapping[str, Mapping[str, Any]]) -> BySize | None:
    """Right labels of each method by group size, or labels that agree with those of all rollouts; in this process.

    None where a method can have no smaller groups: of second groups, of labels, or with a fit for each group.
    """
    reading = {s.name for s in ANSWER_SPECS}
    first = next(iter(params.values()))
    prepared = prepare(groups, params={k: v for k, v in first.items() if k in reading}, limits=UNLIMITED)
    chosen = {m: find(m) for m in params}
    if prepared.groups.views or any(m.steps or "label" in m.inputs for m in chosen.values()):
        return None
    correct_R = correctness(prepared)
    usable_P = prepared.groups.support_P > 0
    for name, method in chosen.items():
        usable_P[list(_run(method, params[name], prepared.groups).errors)] = False
    known_P = usable_P & known_groups(prepared.groups, correct_R)
    truth = bool(known_P.any())

    def labeller(name: str) -> Labeller:
        return lambda part: pseudo_label(part, _run(chosen[name], params[name], part))

    usable_P = known_P if truth else usable_P
    sizes = by_size(prepared.groups, correct_R if truth else None, {m: labeller(m) for m in params}, usable_P=usable_P)
    return sizes if len(sizes.sizes) > 1 else None


def _run(method: Method, params: Mapping[str, Any], groups: Groups) -> Estimate:
    names = {s.name for s in method.specs}
    return method(groups, **{k: v for k, v in params.items() if k in names})


def _in_words(sizes: BySize, on: Screen) -> str:
    lines = [wrapped(line, on) for line in sentence(sizes)]
    return "\n\n" + "\n\n".join([*lines, by_rollouts(sizes, on)])


def _readable(
    source: Sequence[tuple[int, Any]], scored: Mapping[str, Sequence[Any]], faults: Faults, closing: Closing
) -> list[int]:
    """The places that every method could read."""
    good = []
    for i, (place, group) in enumerate(source):
        replies = [own[i] for own in scored.values()]
        wrong = next((x for x in (group, *replies) if isinstance(x, DareError)), None)
        if wrong is None:
            good.append(i)
            closing.add_scored(group, next((r for r in replies if r.valid is not None), replies[0]))
        else:
            faults.add(place, wrong)
            closing.miss(group)
    return good


def _say_unscored(
    results: Mapping[str, Sequence[GroupReply]], groups: Sequence[Mapping[str, Any]]
) -> list[Mapping[str, Any]]:
    """A line for each method that could not score everything; the groups that lack entropies."""
    lacking = []
    for method, replies in results.items():
        errors = [(g, r.error) for g, r in zip(groups, replies, strict=True) if r.error is not None]
        if errors:
            first = unscored(errors[0][1])
            warn(f"{method} could not score {len(errors)} of {len(replies)} groups; the first one: {first}")
            lacking += [g for g, error in errors if error.code == MISSING]
    return lacking


def summary(results: Mapping[str, Sequence[GroupReply]]) -> dict[str, Any]:
    """What the tables say, as numbers."""
    return {
        "methods": {method: _each(groups) for method, groups in results.items()},
        "pairs": [{"methods": [a, b], **_pair(results[a], results[b])} for a, b in combinations(results, 2)],
        "winners": [
            {"group_id": groups[0].group_id, **{m: g.pseudo_label for m, g in zip(results, groups, strict=True)}}
            for groups in zip(*results.values(), strict=True)
        ],
    }


def comparison(
    results: Mapping[str, Sequence[GroupReply]], labels: Sequence[Labels | None] = (), *, on: Screen = PAPER
) -> str:
    """The methods one by one, in pairs, and the groups on whose pseudo-label they disagree."""
    numbers = summary(results)
    rows = [
        [
            method,
            f"{m['scored']}/{m['groups']}",
            str(m["winners"]),
            number(m["label_accuracy"], 4),
            number(m["reward_accuracy"], 4),
            str(m["zero_variance"]),
        ]
        for method, m in numbers["methods"].items()
    ]
    pairs = [
        [", ".join(p["methods"]), number(p["rank_correlation"], 4), str(p["groups"]), f"{p['differ']}/{p['both']}"]
        for p in numbers["pairs"]
    ]
    parts = [table(EACH, rows, right=True, on=on), wrapped(" ".join(LEGEND.split()), on)]
    if pairs:
        parts += [table(PAIRS, pairs, right=True, on=on), _disagreements(results, labels, on)]
    return "\n\n".join(parts)


def _values(group: GroupReply) -> list[float]:
    """Rewards, or advantages of the rollouts that have one, with 0 for the rest."""
    values: Sequence[float | None] = (group.rewards if group.rewards is not None else group.advantages) or ()
    return [v or 0.0 for v in values]


def _each(groups: Sequence[GroupReply]) -> dict[str, Any]:
    scored = [g for g in groups if g.error is None]
    return {
        "groups": len(groups),
        "scored": len(scored),
        "winners": sum(g.pseudo_label is not None for g in scored),
        "label_accuracy": _mean(scored, "label_accuracy"),
        "reward_accuracy": _mean(scored, "reward_accuracy"),
        "zero_variance": sum("zero_variance" in (g.flags or ()) for g in scored),
    }


def _mean(groups: Sequence[GroupReply], name: str) -> float | None:
    answered = (g for g in groups if any(g.valid or ()))  # where nobody answers, nothing is right or wrong
    values = [float(g.diagnostics[name]) for g in answered if g.diagnostics and name in g.diagnostics]
    return float(np.mean(values)) if values else None


def _pair(a: Sequence[GroupReply], b: Sequence[GroupReply]) -> dict[str, Any]:
    both = [(x, y) for x, y in zip(a, b, strict=True) if x.error is None and y.error is None]
    known = [r for x, y in both if (r := rank_correlation(_values(x), _values(y))) is not None]
    return {
        "rank_correlation": float(np.mean(known)) if known else None,
        "groups": len(known),
        "differ": sum(x.pseudo_label != y.pseudo_label for x, y in both),
        "both": len(both),
    }


def _disagreements(results: Mapping[str, Sequence[GroupReply]], labels: Sequence[Labels | None], on: Screen) -> str:
    rows: list[list[str]] = []
    for p, groups in enumerate(zip(*results.values(), strict=True)):
        winners = [_winner(g) for g in groups]
        if len(set(winners)) > 1:
            label = labels[p] if p < len(labels) else None
            rows.append([groups[0].group_id, *winners, *([short_answer(label or "")] if any(labels) else [])])
    if not rows:
        return "The methods agree on every pseudo-label."
    more = f"\n({len(rows) - SHOWN} more)" if len(rows) > SHOWN else ""
    head = ("group", *results, *(["label"] if any(labels) else []))
    return "They disagree on\n" + table(head, rows[:SHOWN], on=on) + more


def _winner(group: GroupReply) -> str:
    if group.error is not None:
        return f"({group.error.code})"
    if group.pseudo_label is None:
        return "(none)"
    right = (group.diagnostics or {}).get("label_accuracy")
    mark = "" if right is None else " (right)" if right else " (wrong)"
    return short_answer(group.pseudo_label) + mark
