"""`dare-reward calibrate FILE.jsonl` and `dare-reward preflight FILE.jsonl`: what should weigh the votes?"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from math import isfinite, isnan
from typing import Any, NoReturn

import numpy as np

from dare_reward.analysis.bootstrap import Interval
from dare_reward.analysis.calibrate import LEVEL, Calibration
from dare_reward.analysis.certainty import ENTROPY, GRID, KNOWN
from dare_reward.analysis.kinds import LIKELY, Kinds
from dare_reward.analysis.power import Power
from dare_reward.analysis.preflight import Preflight, agreement, preflight, row_of
from dare_reward.commands.tables import (
    PAPER,
    Screen,
    add_wide,
    counted,
    number,
    screen_of,
    short_answer,
    table,
    wrapped,
)
from dare_reward.errors import RequestError
from dare_reward.methods import find
from dare_reward.report.lines import is_run, run_lines
from dare_reward.runs.drift import Window, fits, last_window
from dare_reward.runs.log import finite

from .command import add_command, add_seed
from .group_lines import add_file, add_param, missing_entropies, own_params, read_labels, warn
from .labelled import Labelled, interval, read_labelled, refuse_repeats
from .sizes import by_rollouts, sentence

UNMEASURED = (
    "no labelled prompt can be scored: each rollout with an answer needs mean_entropy or token_entropies. Estimate "
    "them from log-probabilities with --entropy logprob, or compare methods that need none: dare-reward compare FILE "
    "--methods ttrl,empo"
)
UNKNOWN = (
    "no group says of every rollout whether it is right. Add a `label` to each group, or `correct` to each rollout"
)
WEIGHT = ("eps", "eps_scale", "u_floor")
NOTES = """Your labels decide the line that you train with. During training no reward sees them. Label prompts of the
kind that you will train on, and sample their rollouts from the model that you will train. Calibrate again when the
model has changed: of a run log with labels, the last steps with enough groups say whether the exponent in use still
fits."""
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
        "--by", metavar="FIELD", help="A line for each kind of prompts: a field of each group, or a key of its `meta`."
    )
    parser.add_argument(
        "--chosen",
        action="store_true",
        help="The labelled prompts were chosen by `dare-reward label --for calibrate`: 16 are enough.",
    )
    parser.add_argument(
        "--exponent", type=float, metavar="B", help="With a run log: the exponent in use (default: that of the log)."
    )
    add_wide(parser)
    parser.set_defaults(run=lambda arguments: run(arguments, show))


def run(arguments: argparse.Namespace, show: Callable[[Preflight, Screen], str]) -> int:
    """`--help` says what the exit codes mean."""
    if not 0 < arguments.level < 1:
        raise RequestError("--level must be above 0 and below 1", code="level")
    weight, reading = own_params(arguments.param, [s for s in find(ENTROPY.method).specs if s.name in WEIGHT])
    if is_run(arguments.file):
        return _of_run(arguments, show, weight, reading)
    if arguments.exponent is not None:
        raise RequestError(f"--exponent applies only to a run log, and {arguments.file} is not one", code="parameter")
    data = read_labelled(
        arguments.file,
        missing=missing_entropies(arguments),
        labels=read_labels(arguments),
        reading=reading,
        by=arguments.by,
        unlabelled=True,
    )
    if np.isnan(data.correct_R).all():
        _unlabelled(data, weight, arguments)
    refuse_repeats(data)
    found = preflight(
        data.groups,
        data.correct_R,
        level=arguments.level,
        seed=arguments.seed,
        reading=reading,
        chosen=arguments.chosen,
        kind_P=data.kinds if arguments.by else None,
        **weight,
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


def _unlabelled(data: Labelled, weight: Mapping[str, Any], arguments: argparse.Namespace) -> NoReturn:
    """What can be said without labels, and that there are none."""
    rows = agreement(data.groups, weight=weight, seed=arguments.seed)
    on = screen_of(arguments)
    if arguments.json:
        print(json.dumps({"rollouts": asdict(rows)}, indent=1))
    elif rows.prompts:
        print("\n".join([*(wrapped(line, on, indent="  ") for line in sentence(rows)), "", by_rollouts(rows, on)]))
    raise RequestError(f"{data.file}: no group has a label or `correct` flags. Add a `label` to each.", code="label")


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
    if arguments.entropy != "exact" or arguments.labels is not None:
        raise RequestError(
            f"{path} is a run log, which holds entropies and labels as they came: leave out --entropy and --labels",
            code="parameter",
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
    """Everything that `dare-reward preflight` prints."""
    return "\n".join([*first_lines(found, on), "", by_rollouts(found.rollouts, on), *_kinds(found, on), *_last(found)])


def report(found: Preflight, on: Screen = PAPER) -> str:
    """Everything that `dare-reward calibrate` prints."""
    c = found.calibration
    exponents = next(k.exponents for k in KNOWN if k.name == c.certainty)
    grid = [
        [f"{b:g}", interval(asdict(own)), interval(asdict(above)) if b else "-"]
        for b, own, above in zip(GRID, c.accuracy, c.above_vote, strict=True)
        if b in exponents
    ]
    head = (f"exponent of {c.certainty}", "label accuracy", "above the vote")
    return "\n".join(
        [
            *first_lines(found, on),
            "",
            by_rollouts(found.rollouts, on),
            "",
            _measures(found.calibrations, on),
            "",
            table(head, grid, on=on),
            *_kinds(found, on),
            *_last(found),
        ]
    )


def first_lines(found: Preflight, on: Screen) -> list[str]:
    """The verdict, what to know of it, and what these labels could show."""
    c = found.calibration
    left = f"; {c.left_out} left out: {c.certainty} is missing" if c.left_out else ""
    lines = [
        f"verdict: {_what(found)} ({found.reason})",
        *(f"warning: {text}" for text in found.warnings),
        *sentence(found.rollouts, row_of(c.certainty, c.exponent) if c.exponent else ""),
        f"{counted(c.prompts, 'labelled prompt')}, {c.mixed} with right and wrong answers{left}",
        *_power(c, found.power),
    ]
    return [wrapped(line, on, indent="  ") for line in lines]


def _what(found: Preflight) -> str:
    c = found.calibration
    if found.verdict == "use":
        return f"use {c.certainty} with exponent {c.exponent:g}{_fewer(found)}"
    if found.verdict == "informative":
        return f"{c.certainty} is informative, but changes no label: vote"
    return found.verdict


def _fewer(found: Preflight) -> str:
    """With how many rollouts the line labels as well as the vote with all of them."""
    c, sizes = found.calibration, found.rollouts
    row = next((r for r in sizes.rows if r.name == row_of(c.certainty, c.exponent)), None)
    enough = sizes.reaches(row, sizes.rows[0].share[-1]) if row and sizes.sizes else None
    return (
        f", {enough} rollouts for what the vote labels with {sizes.sizes[-1]}"
        if enough and enough < sizes.sizes[-1]
        else ""
    )


def _power(c: Calibration, power: Power) -> list[str]:
    if not c.mixed or not (c.enough or power.more):
        return []
    if isnan(power.share):
        return [f"on these prompts no exponent gives {c.certainty} an AUROC of {power.auroc:g}"]
    own = (
        f"with these {counted(c.prompts, 'label')}, {c.mixed} of them mixed, an AUROC of {power.auroc:g} "
        f"(votes alone give {power.votes:.2f}) would have passed the test in {100 * power.tested:.0f}% "
        f'and led to "use" in {100 * power.share:.0f}%'
    )
    if power.more:
        return [f"{own}; with {power.more} chosen labels more (dare-reward label) in {100 * power.with_more:.0f}%"]
    return [own]


def _measures(calibrations: Sequence[Calibration], on: Screen) -> str:
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
        ("expected flips of the label", lambda c: interval(asdict(c.flips))),
        ("expected gain in label accuracy", lambda c: interval(asdict(c.gain))),
    ]
    head = ("measure", *(c.certainty for c in calibrations))
    return table(head, [[name, *(cell(c) for c in calibrations)] for name, cell in rows], on=on)


def _share(found: Interval, note: str) -> str:
    return "-" if isnan(found.estimate) else f"{interval(asdict(found))}  ({note})"


def _kinds(found: Preflight, on: Screen) -> list[str]:
    return [] if found.kinds is None else ["", *_by_kind(found.kinds, on)]


def _by_kind(kinds: Kinds, on: Screen) -> list[str]:
    reference = f"permuted kinds: {kinds.permuted[0]:.2f}, 95% below {kinds.permuted[1]:.2f}; p = {kinds.p:.3f}"
    words = "kinds differ: send each its line" if kinds.differ else "no evidence that kinds differ: one line for all"
    rows = [
        [short_answer(k.name), str(k.prompts), str(k.mixed), number(k.statistic, 2), f"{k.exponent:g}", k.params]
        for k in kinds.kinds
    ]
    return [
        wrapped(f"{words} (Q = {kinds.q:.2f}; {reference}; {LIKELY:g} needed)", on, indent="  "),
        table(("kind", "labels", "mixed", "t", "exponent", "params"), rows, on=on),
    ]


def _last(found: Preflight) -> list[str]:
    """The line, last, so that `tail -1` reads it."""
    return ["", found.calibration.params]
