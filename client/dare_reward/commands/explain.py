"""`dare-reward explain FILE`: how one group got its rewards, and which groups are worth a look."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Final

import numpy as np

from dare_reward.answers import Extraction
from dare_reward.answers.rollouts import READING, asked_of, read_answers
from dare_reward.commands.tables import group_table, number, short_answer, table, wrapped
from dare_reward.errors import RequestError, counted, printable
from dare_reward.files.reader import Reader
from dare_reward.ledger import Ledger
from dare_reward.methods import Configured, settle
from dare_reward.numbers import majority
from dare_reward.reply import GroupReply
from dare_reward.report.picks import REASONS, reasons
from dare_reward.runs.line import line
from dare_reward.scoring.request import OF_FILE
from dare_reward.scoring.score import ScoredGroups, score

from .command import add_command, add_count
from .score import in_process, score_all
from .shared_arguments import add_file, add_method, chosen_params, read_groups, warn
from .summary import ReadSummary

FLAGS: Final[Mapping[str, str]] = {
    "all_invalid": "no rollout has an answer: all rewards are 0",
    "all_pruned": "no answer reached tau; on_all_pruned says what then",
    "single_answer": "all answers agree",
    "tie": "several answers have the most votes",
    "zero_variance": "all rewards are equal: group-normalised advantages are 0",
    "low_entropy": "an answer's uncertainty is below 0.02 nats: a repetition loop looks like this",
    "u_gt_1": "an answer's uncertainty is above 1 nat, where 1 - u would be negative; u_norm says what then",
    "guessed_answer": "an answer is the last number or letter of a text that announces none (unmarked=number)",
    "same_value_apart": "answers of one value were not merged, because the group holds several units or names of it; "
    "-p units=ignore and -p names=ignore merge such answers",
    "label_conflict": "the labels of its rollouts contradict each other: it has none, and gt refuses it",
    "partial": "fewer rollouts than group_size came: the reward is estimated from these",
    "neutral": "half of group_size or fewer came: all rewards are equal",
    "missing_entropy_imputed": "missing entropies were filled with the group's mean",
    "missing_entropy_frequency": "entropies are missing: the group was scored by votes alone",
    "no_answer_label": "the rollouts without an answer won the vote",
    "no_positive": "no answer leads clearly enough for a positive label",
    "few_valid": "fewer than two rollouts are valid: all rewards are -1",
    "no_common_answer": "the two groups have no answer in common: all rewards are 0",
    "penalised": "the leading answer has too few votes: all advantages are the penalty",
    "verified_label": "the votes scatter: self-verifications chose the label",
    "no_label": "there is no label: all advantages are 0",
    "unanimous": "every rollout has one answer: fixed advantages are +1 for all that are selected",
    "positive_negatives": "so many rollouts have the leading answer that some of the least frequent do: they get +1",
    "tied_positives": "several answers lead: of the most frequent rollouts, those of another answer get -1",
    "trace_entropy": "a rollout lacks the tokens that over names: its whole trace counted",
    "missing_probability": "a rollout lacks its probability or its path: the group was scored by votes alone",
    "path_probability": "one path has two probabilities, further apart than batches differ",
    "no_path_repeats": "no path came twice, where the probability of a path has told right from wrong worse than votes",
    "fit_failed": "the fit of two components failed: nothing was pruned",
    "one_context": "sub-groups are as large as the pool: gmae is the majority vote; set group_size, or add votes",
    "no_span": "an answer does not stand in its text as it was read: none of its tokens can be masked",
    "unproved": "no verdict proves the most voted answer",
    "pseudo_reference": "no reference was sent: the probabilities are taken to be the majority answer's",
}
NOTABLE: Final = (
    "low_entropy", "u_gt_1", "guessed_answer", "same_value_apart", "label_conflict", "partial", "neutral",
    "missing_entropy_imputed",
)  # fmt: skip

Scored = tuple[Mapping[str, Any], GroupReply]


def signs(group: Mapping[str, Any], reply: GroupReply, params: Mapping[str, Any]) -> list[str]:
    """Why it is worth a look, a sentence each; none for a group as one expects it."""
    found = [REASONS[name].meaning for name in reasons(line(group, reply, params))]
    return found + [FLAGS[flag] for flag in reply.flags or () if flag in NOTABLE]


JSON = Mapping[str, Any]

TAIL = 60  # characters of a rollout's end
ASKED = 300  # characters of a prompt's start
SHOWN = 4  # answers of each suspicious group


def register(subparsers: Any) -> None:
    parser = add_command(
        subparsers,
        "explain",
        notes="It never calls a service: it runs the same estimator in this process.",
        examples=(
            "dare-reward explain rollouts.jsonl --group aime-7",
            "dare-reward explain rollouts.jsonl --group line-3 -m ttrl  # a group without an id",
            "dare-reward explain rollouts.jsonl --suspicious 5",
        ),
        exits="0 if all was read and scored, 1 if a group was refused, 2 if there is no such group.",
    )
    add_file(parser, "Groups of rollouts")
    what = parser.add_mutually_exclusive_group()
    what.add_argument("--group", metavar="ID", help="Explain this group (line-N for one without an id).")
    add_count(what, "suspicious", "Without --group, show so many groups that are most worth a look", 5)
    add_method(parser)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    params = chosen_params(arguments)
    reader = read_groups(arguments)
    if arguments.group is None:
        return _suspicious(arguments, params, reader)
    place, group = _find(reader, arguments.file, arguments.group)
    configured = settle(arguments.method, params)
    scored = score([group], params, method=arguments.method, limits=OF_FILE)
    group_reply = scored.reply.groups[0]
    reader.ledger = Ledger()  # what stands before the group does not matter
    summary = ReadSummary(reader)
    summary.add_scored(place, group, group_reply)
    _say_otherwise([(group, group_reply)])
    print("\n\n".join(_report(group, scored, configured, params)))
    return summary.end(arguments)


def _say_otherwise(scored: Sequence[Scored]) -> None:
    """Say how many groups of a run log were scored by something else than what is explained."""
    logged = ((group.get("meta") or {}, reply) for group, reply in scored)
    if others := [(m, r) for m, r in logged if m.get("config_id") not in {None, r.config_id} and r.config_id]:
        (meta, reply), count = others[0], counted(len(others), "group")
        was, this = f"{meta.get('method')} ({meta['config_id']!s:.12})", f"{reply.method} ({reply.config_id!s:.12})"
        warn(f"{was} scored {count} of the log, and you explain {this}: name the log's method with -m and -p")


def _find(reader: Reader, path: str, group_id: str) -> tuple[int, JSON]:
    read = ((place, group) for place, group in reader if not isinstance(group, RequestError))
    found = [(place, g) for place, g in read if group_id in (g["group_id"], f"{reader.unit}-{place}")]
    if not found:
        raise RequestError(f"{path} has no group {group_id!r}", code="group")
    if others := found[1:]:  # as in the next step of a run
        warn(f"{len(found)} groups have this id. For the next one: --group {reader.unit}-{others[0][0]}")
    return found[0]


# --- one group --------------------------------------------------------------------------------------------------------


def _report(group: JSON, scored: ScoredGroups, configured: Configured, params: JSON) -> Iterator[str]:
    """The parts of the text."""
    group_reply = scored.reply.groups[0]
    method, values = configured.method, configured.values
    show = partial(wrapped, indent="  ")
    paper = f"{method.paper}; {method.evidence}" if method.paper else method.evidence
    changed = ", ".join(f"{k}={v}" for k, v in values.items() if k in params)
    yield "\n".join(
        [
            show(f"method {method.name}: {method.summary} [{paper}]"),
            show(f"parameters: {changed}, the others by default" if changed else "parameters: all by default"),
            f"config_id {scored.reply.config_id[:12]}",
        ]
    )
    if group_reply.error is not None:
        yield group_table(group_reply)
        return
    read = _read(group, scored, configured)
    facts = [*map(show, _prompt(group)), *_label(group, scored)]
    yield "\n".join([group_table(group_reply), *([""] if facts else []), *facts])
    notes = [show(f"{flag}: {FLAGS.get(flag, '')}".rstrip(": ")) for flag in group_reply.flags or ()]
    if notes:
        yield "\n".join(notes)
    yield "rollouts\n" + _rollouts(group, scored, read)
    numbers = {k: v for k, v in (group_reply.diagnostics or {}).items() if isinstance(v, int | float)}
    yield show(", ".join(f"{k} {v:.4g}" for k, v in numbers.items()))


def _read(group: JSON, scored: ScoredGroups, configured: Configured) -> list[Extraction]:
    """Which answer each rollout claims, or why none."""
    reading = {k: v for k, v in configured.values.items() if k in READING}
    silent = (scored.prepared.groups.column("num_tokens") == 0).tolist()
    return read_answers(group["rollouts"], silent, **asked_of(group), **reading)


def _end(rollout: JSON) -> str:
    """The last characters of the text in one printable line."""
    text = printable(" ".join(str(rollout.get("text") or "").split()))
    return text if len(text) <= TAIL else "..." + text[3 - TAIL :]


def _prompt(group: JSON) -> list[str]:
    """What was asked, in its first characters, if the file or `--prompts` says it."""
    text = " ".join(str(group.get("prompt") or "").split())
    return [f"prompt: {text if len(text) <= ASKED else text[: ASKED - 3] + '...'}"] if text else []


def _label(group: JSON, scored: ScoredGroups) -> list[str]:
    """What the truth is, if the file says it."""
    known = scored.correct_R[~np.isnan(scored.correct_R)]
    if not len(known):
        return []
    label = f"label {short_answer(group['label'])}: " if group.get("label") is not None else ""
    right = (scored.reply.groups[0].diagnostics or {}).get("label_accuracy")
    verdict = "" if right is None else f"the pseudo-label is {'right' if right else 'wrong'}, "
    return [f"{label}{verdict}{known.sum():.0f} of {len(known)} rollouts are right"]


def _rollouts(group: JSON, scored: ScoredGroups, read: Sequence[Extraction]) -> str:
    """A row a rollout; a column that says nothing is left out."""
    reply, rollouts = scored.reply.groups[0], group["rollouts"]
    entropy_R, nothing = scored.prepared.groups.column("mean_entropy"), [None] * len(rollouts)
    results = reply.advantages if reply.rewards is None else reply.rewards
    answers = zip(reply.answers or nothing, read, strict=True)
    columns: dict[str, Sequence[str]] = {
        "rollout": [str(r.get("id", i)) for i, r in enumerate(rollouts)],
        "answer": [f"none: {e.why or None}" if a is None else short_answer(a) for a, e in answers],
        "right": ["-" if np.isnan(x) else "yes" if x else "no" for x in scored.correct_R.tolist()],
        "entropy": [number(x, 4) for x in entropy_R.tolist()],
        "advantage" if reply.rewards is None else "reward": [number(x, 6) for x in results or nothing],
        "kept": ["no" if kept is False else "yes" for kept in reply.keep or nothing],
        "end of the text": [_end(r) for r in rollouts],
    }
    known = {name: cells for name, cells in columns.items() if {*cells} - {"-", ""}}
    return table(tuple(known), list(zip(*known.values(), strict=True)))


# --- the suspicious groups -----------------------------------------------------------------------------------------


def _suspicious(arguments: argparse.Namespace, params: JSON, reader: Reader) -> int:
    summary = ReadSummary(reader)
    scored = summary.scored(score_all(summary, in_process(arguments.method, params)))
    seen = [(group, reply) for _, group, reply in scored]
    summary.say_read()
    if not seen:
        raise RequestError(f"{arguments.file}: no groups", code="empty")
    _say_otherwise(seen)
    looked = [(signs(group, reply, params), group, reply) for group, reply in seen]
    looked.sort(key=lambda one: (-len(one[0]), majority(one[2].diagnostics)))  # the weaker majority first
    for why, group, reply in looked[: arguments.suspicious]:
        if why:
            print(group_table(reply, top=SHOWN))
            facts = [*_prompt(group), *why]
            print("\n".join(wrapped(f"- {fact}", indent="  ") for fact in facts) + "\n")
    if not looked[0][0]:
        warn("no group is suspicious: in each a clear majority gave one answer")
    return summary.end(arguments)
