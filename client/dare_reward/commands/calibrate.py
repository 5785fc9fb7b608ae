"""`dare-reward calibrate FILE`: from labelled rollouts, whether to weigh the votes by entropy, and by which line."""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from functools import partial
from math import isnan
from types import MappingProxyType
from typing import Any

import numpy as np

from dare_reward.analysis.bootstrap import Interval, mean_interval
from dare_reward.analysis.calibrate import DEFAULTS, Calibration
from dare_reward.analysis.certainty import ENTROPY
from dare_reward.analysis.group_size import BySize, Labeller, by_size
from dare_reward.analysis.passk import majority_at_k, pass_at_k_interval, powers
from dare_reward.analysis.shown import percent
from dare_reward.analysis.truth import known_groups
from dare_reward.analysis.verdict import Verdict
from dare_reward.answers.rollouts import ANSWER_SPECS
from dare_reward.commands.tables import number, table, wrapped
from dare_reward.errors import RequestError, counted
from dare_reward.estimators.method import Estimate, Method
from dare_reward.groups import Groups
from dare_reward.methods import find
from dare_reward.runs.log import finite
from dare_reward.scoring.score import pseudo_label
from dare_reward.segments import Bools

from .command import add_command, add_seed
from .labelled import Labelled, interval, judged, judged_by, read_labelled, refuse_repeats
from .shared_arguments import add_file, add_param, bar, parsed_params, read_groups

UNMEASURED = (
    "no labelled prompt can be scored: each rollout with an answer needs mean_entropy or token_entropies. Estimate "
    "them from log-probabilities with --entropy logprob, or compare methods that need none with --methods "
    "ttrl,empo"
)
UNKNOWN = (
    "no group says of every rollout whether it is right. Add a `label` to each group, or `correct` to each rollout"
)
NOTES = """Your labels decide the line that you train with. During training no reward sees them. Label prompts of the
kind that you will train on, and sample their rollouts from the model that you will train. Calibrate again when the
model has changed: a run log is a file like any other."""
EXITS = """0 for an exponent, 1 for the vote or undecided, 3 for either if groups were refused, 2 if nothing could be
measured."""


def register(subparsers: Any) -> None:
    examples = (
        "dare-reward calibrate rollouts.jsonl",
        "dare-reward calibrate rollouts.jsonl --methods dare,scrl,empo",
        "dare-reward calibrate rollouts.jsonl -p eps=0.02 -p unmarked=number",
        "dare-reward calibrate rollouts.jsonl --entropy logprob --json",
        "dare-reward calibrate runs/exp1",
    )
    parser = add_command(subparsers, "calibrate", notes=NOTES, examples=examples, exits=EXITS)
    add_file(parser, "A run log, or groups with entropies and `label` or `correct`,")
    add_param(parser, "Set eps, eps_scale or u_floor of the weight, or how to read answers.")
    parser.add_argument("--json", action="store_true", help="Write one JSON object instead of tables.")
    add_seed(parser, "The seed of the bootstrap")
    parser.add_argument(
        "--methods", default="", metavar="A,B,...", help="Show the label accuracy of these methods too."
    )
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """`--help` says what the exit codes mean."""
    own = [s for s in find(ENTROPY.method).specs if s.name in DEFAULTS]
    options = judged_by(parsed_params(arguments.param, [*own, *ANSWER_SPECS]))
    chosen = _label_makers(arguments.methods)
    data = read_labelled(read_groups(arguments), reading=options["reading"])
    methods = _by_method(data, chosen, options, arguments.seed)
    refuse_repeats(data)
    found = judged(data, seed=arguments.seed, **options)
    if not found.calibration.prompts:
        if methods is not None and not arguments.json:
            print(table(*methods.table(), right=True))
        why = (UNMEASURED, "missing_entropy") if found.calibration.left_out else (UNKNOWN, "label")
        raise RequestError(why[0], code=why[1])
    if arguments.json:
        print(_json(found, methods=methods and asdict(methods), accuracy=accuracy(data, arguments.seed)))
    else:
        print(report(found, methods=methods, accuracy=accuracy(data, arguments.seed)))
    data.summary.say()
    if found.calibration.left_out:
        data.summary.move("refused", f"{found.calibration.certainty} is missing", found.calibration.left_out)
    return data.summary.exit_code(int(found.use != "line"), refused=3)


def _label_makers(names: str) -> list[Method]:
    """The methods of --methods. RequestError for one that labels no part of a group."""
    chosen = [find(name.strip()) for name in names.split(",") if name.strip()]
    for method in chosen:
        if method.steps or "label" in method.inputs:
            raise RequestError(f"--methods {method.name}: it names no label of fewer rollouts", code="method")
    return chosen


def _by_method(data: Labelled, chosen: Sequence[Method], weight: Mapping[str, Any], seed: int) -> BySize | None:
    """Label accuracy of each method by group size, dealt as in the verdict's table. `weight`: parameters of those that
    have them."""
    if not chosen:
        return None
    if data.groups.views:
        raise RequestError("--methods: groups with a second one are labelled whole", code="method")
    usable_P = known_groups(data.groups, data.correct_R) & (data.groups.support_P > 0)
    makers: dict[str, Labeller] = {}
    for method in chosen:
        own: dict[str, Any] = {s.name: weight[s.name] for s in method.specs if s.name in weight}
        estimate: Callable[[Groups], Estimate] = partial(method, **own)
        usable_P[list(estimate(data.groups).errors)] = False
        makers[method.name] = partial(_labels, estimate)
    return by_size(data.groups, data.correct_R, makers, usable_P=usable_P, seed=seed)


def _labels(estimate: Callable[[Groups], Estimate], part: Groups) -> Bools:
    return pseudo_label(part, estimate(part))


def accuracy(data: Labelled, seed: int) -> dict[str, dict[int, Any]]:
    """pass@k and maj@k of the file's labelled prompts, for k = 1, 2, 4, ... rollouts."""
    known_P = known_groups(data.groups, data.correct_R)
    n_P = data.groups.sizes_P[known_P]
    c_P = data.groups.sum_rollouts(np.nan_to_num(data.correct_R))[known_P].astype(np.int64)
    ks = powers(int(n_P.min()))
    each = bar(ks, "size", ks.__len__)
    majority = {k: mean_interval(majority_at_k(data.groups, data.correct_R, k), seed=seed) for k in each}
    return {
        "pass@k": {k: asdict(pass_at_k_interval(n_P, c_P, k, seed=seed)) for k in ks},
        "maj@k, ties by chance": {k: asdict(v) for k, v in majority.items()},
    }


def _json(found: Verdict, **more: Any) -> str:
    content = {"shown": asdict(found.shown()), **asdict(found), **more}
    for one in (content["calibration"], *content["calibrations"]):
        del one["exponents_of_others"]
    return json.dumps(finite(content), indent=1)


def report(
    found: Verdict, *, methods: BySize | None = None, accuracy: Mapping[str, Mapping[int, Any]] = MappingProxyType({})
) -> str:
    """Everything that `dare-reward calibrate` prints."""
    shown = found.shown()
    counted_in = "all labelled prompts" if found.calibration.left_out else "prompts"
    parts = [
        "\n".join([wrapped(line, indent="  ") for line in (shown.headline, shown.why)]),
        "\n".join([wrapped(f"- {line}", indent="  ") for line in shown.notes]),
        table(shown.head, shown.rows, right=True),
        *([] if methods is None else [table(*methods.table(), right=True)]),
        *([of_k(accuracy, of=counted_in)] if accuracy else []),
        _measures(found.calibrations),
        shown.line,  # last, so that `tail -1` reads it
    ]
    return "\n\n".join(parts)


def of_k(accuracy: Mapping[str, Mapping[int, Any]], *, of: str = "prompts") -> str:
    """A row for each of `accuracy`. of: whose it is, where entropies are not needed and other tables have fewer."""
    ks = next(iter(accuracy.values()))
    rows = [[name, *(percent(values[k]["estimate"]) for k in ks)] for name, values in accuracy.items()]
    return table((f"% of {of}, by k rollouts", *map(str, ks)), rows, right=True)


def _measures(calibrations: Sequence[Calibration]) -> str:
    """What each certainty is worth, a column each."""
    rows: list[tuple[str, Callable[[Calibration], str]]] = [
        ("AUROC", lambda c: interval(asdict(c.auroc))),
        ("AUROC among equally long answers", lambda c: _share(c.equally_long, f"{100 * c.pairs:.0f}% of pairs")),
        ("AUROC where the vote is right", lambda c: _share(c.auroc_right, counted(c.auroc_right.prompts, "prompt"))),
        ("AUROC where the vote is wrong", lambda c: _share(c.auroc_wrong, counted(c.auroc_wrong.prompts, "prompt"))),
        (f"t of all answers ({calibrations[0].gate:.3g} needed)", lambda c: number(c.statistic, 2)),
        (f"t of those that could win ({calibrations[0].rival_gate:.3g} needed)", lambda c: number(c.contended, 2)),
        ("likeliest exponent", lambda c: f"{c.fitted:g}"),
        ("exponent to use", lambda c: f"{c.exponent:g}" + (" (the vote)" if not c.exponent else "")),
    ]
    head = ("measure", *(c.certainty for c in calibrations))
    return table(head, [[name, *(cell(c) for c in calibrations)] for name, cell in rows])


def _share(found: Interval, note: str) -> str:
    return "-" if isnan(found.estimate) else f"{interval(asdict(found))}  ({note})"
