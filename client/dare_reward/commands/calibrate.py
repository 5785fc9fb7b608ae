"""`dare-reward calibrate FILE.jsonl` and `dare-reward preflight FILE.jsonl`: how should entropy weigh the votes?"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict
from math import isfinite, isnan
from typing import Any

from dare_reward.analysis.calibrate import DARE, GRID, LEVEL, METHOD, MINIMUM, TRIED, VOTE, WORTH, Calibration
from dare_reward.analysis.preflight import Preflight, preflight
from dare_reward.commands.tables import PAPER, Screen, add_wide, counted, screen_of, short_answer, table, wrapped
from dare_reward.errors import RequestError
from dare_reward.methods import find
from dare_reward.report.lines import is_run, run_lines
from dare_reward.runs.drift import Window, fits, last_window

from .command import add_command, add_seed
from .group_lines import add_file, add_param, missing_entropies, own_params, warn
from .labelled import finite, interval, read_labelled, refuse_repeats

__all__ = ["register", "register_preflight", "report"]

UNMEASURED = (
    "no labelled prompt can be scored: each rollout with an answer needs mean_entropy or token_entropies. Estimate "
    "them from log-probabilities with --entropy logprob, or compare methods that need none: dare-reward compare FILE "
    "--methods ttrl,empo"
)
UNKNOWN = (
    "no group says of every rollout whether it is right. Add a `label` to each group, or `correct` to each rollout"
)
WEIGHT = ("eps", "eps_scale", "u_floor")
NOTES = """Your labels decide one number, the exponent. During training no reward sees them. Label prompts of the kind
that you will train on, and sample their rollouts from the model that you will train. Calibrate again when the model has
changed: of a run log with labels, the last steps that hold enough groups say whether the exponent in use still fits."""
EXITS = """0 for an exponent, 1 for the vote or undecided, 2 if nothing could be measured. With a run log: 0 if the
exponent in use still fits, 1 if it does not or the labels cannot tell."""


def register(subparsers: Any) -> None:
    _register(subparsers, "calibrate", report)


def register_preflight(subparsers: Any) -> None:
    _register(subparsers, "preflight", _verdict)


def _register(subparsers: Any, name: str, show: Callable[[Preflight, Screen], str]) -> None:
    examples = (
        f"dare-reward {name} rollouts.jsonl",
        f"dare-reward {name} rollouts.jsonl -p eps=0.02 -p unmarked=number",
        f"dare-reward {name} rollouts.jsonl --entropy logprob --json",
        f"dare-reward {name} runs/exp1",
    )
    parser = add_command(subparsers, name, notes=NOTES, examples=examples, exits=EXITS)
    add_file(parser, "A run log, or groups with entropies and `label` or `correct`,")
    add_param(parser, "Set eps, eps_scale or u_floor of the weight, or how to read answers. You may repeat it.")
    parser.add_argument(
        "--level", type=float, default=LEVEL, help=f"The confidence level of the intervals (default: {LEVEL:g})."
    )
    parser.add_argument("--json", action="store_true", help="Write one JSON object instead of tables.")
    add_seed(parser, "The seed of the bootstrap")
    parser.add_argument(
        "--exponent", type=float, metavar="B", help="With a run log: the exponent in use (default: that of the log)."
    )
    add_wide(parser)
    parser.set_defaults(run=lambda arguments: run(arguments, show))


def run(arguments: argparse.Namespace, show: Callable[[Preflight, Screen], str]) -> int:
    """`--help` says what the exit codes mean."""
    if not 0 < arguments.level < 1:
        raise RequestError("--level must be above 0 and below 1", code="level")
    weight, reading = own_params(arguments.param, [s for s in find(METHOD).specs if s.name in WEIGHT])
    if is_run(arguments.file):
        return _of_run(arguments, show, weight, reading)
    if arguments.exponent is not None:
        raise RequestError(f"--exponent applies only to a run log, and {arguments.file} is not one", code="parameter")
    data = read_labelled(arguments.file, missing=missing_entropies(arguments), reading=reading)
    refuse_repeats(data)
    found = preflight(
        data.groups, data.correct_R, level=arguments.level, seed=arguments.seed, reading=reading, **weight
    )
    if not found.calibration.prompts:
        why = (UNMEASURED, "missing_entropy") if found.calibration.left_out else (UNKNOWN, "label")
        raise RequestError(why[0], code=why[1])
    if arguments.json:
        print(_json(found))
    else:
        print(show(found, screen_of(arguments)))
    data.closing.say()
    return int(found.verdict != "use")


def _json(found: Preflight, **more: Any) -> str:
    content = {**asdict(found), **more}
    content["calibration"]["grid"] = GRID
    return json.dumps(finite(content), indent=1)


def _of_run(
    arguments: argparse.Namespace,
    show: Callable[[Preflight, Screen], str],
    weight: Mapping[str, Any],
    reading: Mapping[str, Any],
) -> int:
    """A run log holds answers and mean entropies, so there is nothing to read or to estimate."""
    path, on = arguments.file, screen_of(arguments)
    if arguments.entropy != "exact":
        raise RequestError(
            f"{path} is a run log, which holds entropies as they were read: leave out --entropy", code="parameter"
        )
    if arguments.exponent is not None and not isfinite(arguments.exponent):
        raise RequestError("--exponent must be a finite number", code="parameter")
    lines = _of_one_run(run_lines(path, warn), path)
    window = last_window(lines, scoring=reading, level=arguments.level, seed=arguments.seed, **weight)
    if window is None:
        raise RequestError(
            f"{path}: no group of the run log has a label. Send `label` with each group; it changes no reward.",
            code="label",
        )
    if not window.found.calibration.prompts:
        raise RequestError(
            f"{path}: no labelled group of {window.name} has the entropies of its answers. Send mean_entropy or "
            "token_entropies with each rollout.",
            code="missing_entropy",
        )
    in_use = window.exponent if arguments.exponent is None else arguments.exponent
    still, sentence = (None, _unknown(window)) if in_use is None else fits(in_use, window)
    if arguments.json:
        print(_json(window.found, steps=window.steps, exponent=in_use, fits=still, reason=sentence))
    else:
        again = f"{counted(window.repeated, 'group')} left out: the prompt has a later group in {window.name}."
        told = [again] if window.repeated else []
        print("\n".join([*(wrapped(line, on, indent="  ") for line in (*told, sentence)), "", show(window.found, on)]))
    return int(still is not True)


def _of_one_run(lines: Iterable[Mapping[str, Any]], path: str) -> Iterator[Mapping[str, Any]]:
    first: list[Any] = []
    for line in lines:
        first = first or [line.get("run")]
        if line.get("run") != first[0]:
            names = " and ".join(short_answer(str(name)) for name in (first[0], line.get("run")))
            raise RequestError(f"{path} holds several runs ({names}); name the folder of one", code="file")
        yield line


def _unknown(window: Window) -> str:
    """Why no exponent is compared."""
    if len(window.exponents) < 2:
        return (
            "The command cannot tell from the log which exponent was in use, so it compares nothing. Give it with "
            "--exponent B."
        )
    names = " and ".join("another" if b is None else f"{b:g}" for b in window.exponents)
    return (
        f"Several exponents ({names}) were in use at the end of {window.name}, and one calibration cannot judge them. "
        "Write the lines of each kind of prompts into a file, and calibrate that."
    )


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
    measures = [
        ["exponent of greatest likelihood", f"{c.fitted:g}"],
        ["its test at 0", "-" if isnan(c.statistic) else f"t = {c.statistic:.2f}"],
        ["exponent to use", f"{c.exponent:g}" + (" (the vote)" if not c.exponent else "")],
        ["expected flips of the label", interval(asdict(c.flips))],
        ["expected gain in label accuracy", interval(asdict(c.gain))],
        ["AUROC of entropy", interval(asdict(c.auroc))],
        ["AUROC where the vote is right", _auroc(c, "auroc_right")],
        ["AUROC where the vote is wrong", _auroc(c, "auroc_wrong")],
        *([["more labels that would decide", _more(c)]] if found.verdict == "undecided" else []),
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


def _more(c: Calibration) -> str:
    """How many labels the verdict waits for, as far as one can say."""
    if c.more is not None and c.prompts + c.more <= WORTH:
        return f"some {c.more}, if t grows as it should"
    return f"at least {MINIMUM - c.mixed}" if c.mixed < MINIMUM else f"up to {WORTH} in all"


def _auroc(c: Calibration, name: str) -> str:
    found = asdict(c)[name]
    return f"{interval(found)}  ({counted(found['prompts'], 'prompt')})"


def _size(c: Calibration) -> str:
    left = f"; {c.left_out} left out: an entropy is missing" if c.left_out else ""
    return f"{counted(c.prompts, 'labelled prompt')}, {c.mixed} with right and wrong answers{left}"


def _end(found: Preflight, on: Screen) -> list[str]:
    c = found.calibration
    what = f"use with exponent {c.exponent:g}" if found.verdict == "use" else found.verdict
    few = f"{counted(c.prompts, 'labelled prompt')}; the rule was tried with {TRIED} or more"
    notes = [f"warning: {text}" for text in ([few] if c.prompts < TRIED else []) + list(found.warnings)]
    return [*(wrapped(line, on, indent="  ") for line in (f"verdict: {what} ({found.reason})", *notes)), "", c.params]
