"""`dare-reward calibrate FILE.jsonl` and `dare-reward preflight FILE.jsonl`: how should entropy weigh the votes?"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from dataclasses import asdict
from typing import Any

from dare_reward.analysis.calibrate import DARE, GRID, LEVEL, METHOD, VOTE, Calibration
from dare_reward.analysis.preflight import Preflight, preflight
from dare_reward.commands.tables import table
from dare_reward.errors import RequestError
from dare_reward.methods import find

from .labelled import finite, interval, read_labelled

__all__ = ["register", "register_preflight", "report"]

WEIGHT = ("eps", "eps_scale", "u_floor")
EPILOG = """Labels end here: training sees one number, and the reward stays a function of answers and entropies. Label
prompts of the kind that you will train on, with rollouts of the policy that you will train; calibrate again when the
policy has moved. Exit codes: 0 use, 1 the vote or undecided, 2 nothing could be measured."""


def register(subparsers: Any) -> None:
    words = "fit the exponent of calibrated_vote on labelled rollouts (16 to 100 prompts)"
    _register(subparsers, "calibrate", words, report)


def register_preflight(subparsers: Any) -> None:
    words = "one verdict from labelled rollouts: use entropy, or the vote, or undecided"
    _register(subparsers, "preflight", words, _verdict)


def _register(subparsers: Any, name: str, words: str, show: Callable[[Preflight], str]) -> None:
    parser: argparse.ArgumentParser = subparsers.add_parser(name, help=words, description=words, epilog=EPILOG)
    parser.add_argument("file", help="groups with `label` or `correct` and entropies, one a line; - for standard input")
    parser.add_argument(
        "-p",
        "--param",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help=f"of the weight: {', '.join(WEIGHT)}; may be repeated",
    )
    parser.add_argument("--level", type=float, default=LEVEL, help=f"of the intervals (default {LEVEL:g})")
    parser.add_argument("--json", action="store_true", help="one JSON object instead of tables")
    parser.add_argument("--seed", type=int, default=0, help="of the bootstrap")
    parser.set_defaults(run=lambda arguments: run(arguments, show))


def run(arguments: argparse.Namespace, show: Callable[[Preflight], str]) -> int:
    """See EPILOG for the exit codes."""
    if not 0 < arguments.level < 1:
        raise RequestError("--level must be above 0 and below 1", code="level")
    weight = _weight(arguments.param)
    data = read_labelled(arguments.file)
    found = preflight(data.groups, data.correct_R, level=arguments.level, seed=arguments.seed, **weight)
    if not found.calibration.prompts:
        print("no labelled prompt can be scored: each rollout with an answer needs mean_entropy or token_entropies")
        return 2
    if arguments.json:
        content = asdict(found)
        content["calibration"]["grid"] = GRID
        print(json.dumps(finite(content), indent=1))
    else:
        print(show(found))
    return int(found.verdict != "use")


def _weight(given: list[str]) -> dict[str, Any]:
    """The `--param` values by the declarations of the method."""
    known = {s.name: s for s in find(METHOD).specs if s.name in WEIGHT}
    out = {}
    for text in given:
        name, equals, value = text.partition("=")
        if not equals or name not in known:
            raise RequestError(f"--param {name}: write NAME=VALUE with one of {', '.join(WEIGHT)}", code="parameter")
        out[name] = known[name].parse(value)
    return out


def _verdict(found: Preflight) -> str:
    c = found.calibration
    rows = [
        ["the vote", interval(asdict(c.accuracy[VOTE])), "-"],
        ["exponent 1, the weight of dare", interval(asdict(c.accuracy[DARE])), interval(asdict(c.above_vote[DARE]))],
    ]
    if c.exponent not in {0, 1}:
        at = GRID.index(c.exponent)
        rows.append([f"exponent {c.exponent:g}", interval(asdict(c.accuracy[at])), interval(asdict(c.above_vote[at]))])
    return "\n".join([_size(c), "", table(("label accuracy", "", "above the vote"), rows), "", *_end(found)])


def report(found: Preflight) -> str:
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
            table(("measure", "value"), measures),
            "",
            table(("exponent", "label accuracy", "above the vote"), grid),
            "",
            *_end(found),
        ]
    )


def _auroc(c: Calibration, name: str) -> str:
    found = asdict(c)[name]
    return f"{interval(found)}  ({found['prompts']} prompts)"


def _size(c: Calibration) -> str:
    return f"{c.prompts} labelled prompts, {c.mixed} of them with right and wrong answers"


def _end(found: Preflight) -> list[str]:
    c = found.calibration
    what = f"use with exponent {c.exponent:g}" if found.verdict == "use" else found.verdict
    notes = [f"warning: {found.warning}"] if found.warning else []
    return [f"verdict: {what} ({found.reason})", *notes, "", c.params]
