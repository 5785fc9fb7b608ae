"""What `dare-reward calibrate` and `preflight` print of a run log: a calibration for each window of its steps."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from math import isnan
from typing import Any

from dare_reward.analysis.calibrate import GRID, VOTE
from dare_reward.errors import RequestError
from dare_reward.report.lines import run_lines
from dare_reward.runs.drift import Window, fits, windows

from .group_lines import warn
from .labelled import finite, interval
from .tables import Screen, counted, short_answer, table, wrapped

__all__ = ["print_drift"]

JSON = Mapping[str, Any]
SHOWN = 12  # windows of the table; --json has all
UNKNOWN = (
    "The command cannot tell from the log which exponent was in use, so it compares nothing. Give it with --exponent B."
)


def print_drift(path: str, *, exponent: float | None, as_json: bool, on: Screen, **options: Any) -> int:
    """0 if the exponent in use still fits, else 1.

    exponent   the one in use (default: the one that scored the log)
    options    those of `windows`
    """
    counts = {"groups": 0}
    found = list(windows(_of_one_run(run_lines(path), path, counts), **options))
    if not found:
        raise RequestError(
            f"{path}: no group of the run log has a label. Send `label` with each group; it changes no reward.",
            code="label",
        )
    left_out = sum(w.found.calibration.left_out for w in found)
    if not any(w.found.calibration.prompts for w in found):
        raise RequestError(
            f"{path}: no labelled group of the run log has the entropies of its answers. Send mean_entropy or "
            "token_entropies with each rollout.",
            code="missing_entropy",
        )
    in_use = found[-1].exponent if exponent is None else exponent
    still, words = (None, _unknown(found[-1])) if in_use is None else fits(in_use, found)
    repeated = sum(w.repeated for w in found)
    if as_json:
        own = [{"steps": w.steps, **asdict(w.found)} for w in found]
        content = {"grid": GRID, "exponent": in_use, "fits": still, "reason": words, "windows": own}
        print(json.dumps(finite(content), indent=1))
    else:
        told = [f"{counted(left_out, 'labelled group')} left out: an entropy is missing."] if left_out else []
        if repeated:
            told.append(f"{counted(repeated, 'group')} left out: the prompt has a later group in the same window.")
        prose = [wrapped(text, on, indent="  ") for text in (*told, words)]
        line = [] if still is not False else ["", found[-1].found.calibration.params]
        print("\n".join([_table(found, on), "", _ends(found, in_use, on), "", *prose, *line]))
    warn(f"{counted(counts['groups'], 'group')} of {path} read, {counted(len(found), 'window')}")
    return int(still is not True)


def _unknown(last: Window) -> str:
    """Why no exponent is compared."""
    if len(last.exponents) < 2:
        return UNKNOWN
    names = " and ".join("another" if b is None else f"{b:g}" for b in last.exponents)
    return (
        f"Several exponents ({names}) were in use at the end of {last.name}, and one calibration cannot judge them. "
        "Write the lines of each kind of prompts into a file, and calibrate that."
    )


def _of_one_run(lines: Iterable[JSON], path: str, counts: dict[str, int]) -> Iterator[JSON]:
    run = None
    for line in lines:
        counts["groups"] += 1
        if counts["groups"] == 1:
            run = line.get("run")
        elif line.get("run") != run:
            names = " and ".join(short_answer(str(name)) for name in (run, line.get("run")))
            raise RequestError(f"{path} holds several runs ({names}); name the folder of one", code="file")
        yield line


def _table(found: Sequence[Window], on: Screen) -> str:
    """Every window, or as many as fit: the first, the last, and others at equal distances."""
    count = min(SHOWN, len(found))
    shown = [found[round(i * (len(found) - 1) / max(count - 1, 1))] for i in range(count)]
    rows = []
    for w in shown:
        c = w.found.calibration
        counts, measured = (str(c.prompts), str(c.mixed)), interval(asdict(c.auroc))
        rows.append([w.name, *counts, _t(c.statistic), f"{c.exponent:g}", w.found.verdict, measured])
    text = table(("window", "prompts", "mixed", "t", "exponent", "verdict", "AUROC"), rows, on=on)
    left = len(found) - len(shown)
    return f"{text}\n({counted(left, 'more window')}; --json has all)" if left else text


def _ends(found: Sequence[Window], exponent: float | None, on: Screen) -> str:
    """The first window beside the last."""
    ends = [found[0], found[-1]] if len(found) > 1 else [found[0]]
    all_c = [w.found.calibration for w in ends]
    rows = [
        ["prompts with right and wrong answers", *(str(c.mixed) for c in all_c)],
        ["exponent to use", *(f"{c.exponent:g}" for c in all_c)],
        ["its test at 0 (t)", *(_t(c.statistic) for c in all_c)],
        ["AUROC of entropy", *(interval(asdict(c.auroc)) for c in all_c)],
        ["AUROC where the vote is wrong", *(interval(asdict(c.auroc_wrong)) for c in all_c)],
        ["label accuracy of the vote", *(interval(asdict(c.accuracy[VOTE])) for c in all_c)],
    ]
    if exponent in GRID and exponent:
        at = GRID.index(exponent)
        rows.append([f"exponent {exponent:g} above the vote", *(interval(asdict(c.above_vote[at])) for c in all_c)])
    return table(("measure", *(w.name for w in ends)), rows, on=on)


def _t(statistic: float) -> str:
    return "-" if isnan(statistic) else f"{statistic:.2f}"
