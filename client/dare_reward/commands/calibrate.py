"""`dare-reward calibrate FILE.jsonl` and `dare-reward preflight FILE.jsonl`: how should entropy weigh the votes?"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from dataclasses import asdict
from typing import Any

from dare_reward.analysis.calibrate import DARE, GRID, LEVEL, METHOD, VOTE, Calibration
from dare_reward.analysis.preflight import Preflight, preflight
from dare_reward.commands.tables import PAPER, Screen, add_wide, screen_of, table, wrapped
from dare_reward.errors import RequestError
from dare_reward.methods import find

from .command import add_command
from .group_lines import add_file, add_param, missing_entropies, own_params
from .labelled import finite, interval, read_labelled

__all__ = ["register", "register_preflight", "report"]

UNMEASURED = (
    "no labelled prompt can be scored: each rollout with an answer needs mean_entropy or token_entropies. Estimate "
    "them from log-probabilities with --entropy logprob, or compare methods that need none: dare-reward compare FILE "
    "--methods ttrl,empo"
)
TRIED = 32  # labelled prompts of the smallest set that the rule was tried on
WEIGHT = ("eps", "eps_scale", "u_floor")
NOTES = """Your labels decide one number, the exponent. During training no reward sees them. Label prompts of the kind
that you will train on, and sample their rollouts from the model that you will train. Calibrate again when the model has
changed."""
EXITS = "0 for an exponent, 1 for the vote or undecided, 2 if nothing could be measured."


def register(subparsers: Any) -> None:
    words = "Fit the exponent of calibrated_vote on labelled rollouts of 32 to 100 prompts."
    _register(subparsers, "calibrate", words, report)


def register_preflight(subparsers: Any) -> None:
    words = "Give one verdict from labelled rollouts: use entropy, use the vote, or undecided."
    _register(subparsers, "preflight", words, _verdict)


def _register(subparsers: Any, name: str, words: str, show: Callable[[Preflight, Screen], str]) -> None:
    examples = (
        f"dare-reward {name} rollouts.jsonl",
        f"dare-reward {name} rollouts.jsonl -p eps=0.02 -p unmarked=number",
        f"dare-reward {name} rollouts.jsonl --entropy logprob --json",
    )
    parser = add_command(subparsers, name, words, notes=NOTES, examples=examples, exits=EXITS)
    add_file(parser, "Groups with entropies and `label` or `correct`")
    add_param(parser, f"Set {', '.join(WEIGHT)} of the weight, or how answers are read. You may repeat it.")
    parser.add_argument(
        "--level", type=float, default=LEVEL, help=f"The confidence level of the intervals (default: {LEVEL:g})."
    )
    parser.add_argument("--json", action="store_true", help="Write one JSON object instead of tables.")
    parser.add_argument("--seed", type=int, default=0, help="The seed of the bootstrap (default: 0).")
    add_wide(parser)
    parser.set_defaults(run=lambda arguments: run(arguments, show))


def run(arguments: argparse.Namespace, show: Callable[[Preflight, Screen], str]) -> int:
    """`--help` says what the exit codes mean."""
    if not 0 < arguments.level < 1:
        raise RequestError("--level must be above 0 and below 1", code="level")
    weight, reading = own_params(arguments.param, [s for s in find(METHOD).specs if s.name in WEIGHT])
    data = read_labelled(arguments.file, missing=missing_entropies(arguments), reading=reading)
    found = preflight(data.groups, data.correct_R, level=arguments.level, seed=arguments.seed, **weight)
    if not found.calibration.prompts:
        raise RequestError(UNMEASURED, code="missing_entropy")
    if arguments.json:
        content = asdict(found)
        content["calibration"]["grid"] = GRID
        print(json.dumps(finite(content), indent=1))
    else:
        print(show(found, screen_of(arguments)))
    data.closing.say()
    return int(found.verdict != "use")


def _verdict(found: Preflight, on: Screen) -> str:
    c = found.calibration
    rows = [
        ["the vote", interval(asdict(c.accuracy[VOTE])), "-"],
        ["exponent 1, the weight of dare", interval(asdict(c.accuracy[DARE])), interval(asdict(c.above_vote[DARE]))],
    ]
    if c.exponent not in {0, 1}:
        at = GRID.index(c.exponent)
        rows.append([f"exponent {c.exponent:g}", interval(asdict(c.accuracy[at])), interval(asdict(c.above_vote[at]))])
    return "\n".join([_size(c), "", table(("label accuracy", "", "above the vote"), rows, on=on), "", *_end(found, on)])


def report(found: Preflight, on: Screen = PAPER) -> str:
    """Everything that `dare-reward calibrate` prints."""
    c = found.calibration
    more = "unknown" if c.more is None else "none" if not c.more else f"some {c.more}, if t grows as it should"
    measures = [
        ["exponent of greatest likelihood", f"{c.fitted:g}"],
        ["its test at 0", f"t = {c.statistic:.2f}"],
        ["exponent to use", f"{c.exponent:g}" + (" (the vote)" if not c.exponent else "")],
        ["expected flips of the label", interval(asdict(c.flips))],
        ["expected gain in label accuracy", interval(asdict(c.gain))],
        ["AUROC of entropy", interval(asdict(c.auroc))],
        ["AUROC where the vote is right", _auroc(c, "auroc_right")],
        ["AUROC where the vote is wrong", _auroc(c, "auroc_wrong")],
        ["more labels that would decide", more],
    ]
    grid = [
        [f"{b:g}", interval(asdict(own)), interval(asdict(above)) if b else "-"]
        for b, own, above in zip(GRID, c.accuracy, c.above_vote, strict=True)
    ]
    return "\n".join(
        [
            _size(c),
            "",
            table(("measure", "value"), measures, on=on),
            "",
            table(("exponent", "label accuracy", "above the vote"), grid, on=on),
            "",
            *_end(found, on),
        ]
    )


def _auroc(c: Calibration, name: str) -> str:
    found = asdict(c)[name]
    return f"{interval(found)}  ({found['prompts']} prompts)"


def _size(c: Calibration) -> str:
    return f"{c.prompts} labelled prompts, {c.mixed} of them with right and wrong answers"


def _end(found: Preflight, on: Screen) -> list[str]:
    c = found.calibration
    what = f"use with exponent {c.exponent:g}" if found.verdict == "use" else found.verdict
    few = f"{c.prompts} labelled prompts; the rule was tried with {TRIED} or more" if c.prompts < TRIED else ""
    notes = [f"warning: {text}" for text in (few, found.warning) if text]
    return [*(wrapped(line, on, indent="  ") for line in (f"verdict: {what} ({found.reason})", *notes)), "", c.params]
