"""`research/docs/reasoning-labels.md` from what was measured of each problem: `results/reasoning-labels.json.xz`."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from ..contrasts import draws, estimate
from .pages import Figure, Page, Table, gain, percent

WEIGHTS = ("trace", "answer", "ppc", "rpc", "p_answer", "tie")
PATHS = (1.0, 2.0, 4.0, 8.0, np.inf)  # edges of groups of problems, by distinct paths of an answer
COPIED = (0.0, 0.25, 0.5, 0.75, 1.0)  # and by the share of answers that are copied
Problem = Mapping[str, Any]


def points_of(measured: Mapping[str, Sequence[Problem]]) -> dict[str, dict[str, Any]]:
    """What the tables are over, and of each of its values the means of the problems there."""
    problems = [p for name in sorted(measured) for p in measured[name]]
    whole = [p for p in problems if not p["regime"].endswith("_half")]
    half = [p for p in problems if p["regime"].endswith("_half")]
    return {
        "": {name: _point(measured[name]) for name in measured},
        "the number of steps": _split(whole, lambda p: p["regime"].partition("_")[2]),
        "distinct paths of an answer": _split(whole, lambda p: _between(PATHS, p["paths"])),
        "the share of answers that are copied": _split(half, lambda p: _between(COPIED, p["copied"])),
    }


def check(page: Page, found: Mapping[str, Mapping[str, Any]]) -> Iterator[Figure]:
    for table in page.tables():
        over = table.place[5:6].lower() + table.place[6:] if table.place.startswith("Over ") else ""
        yield from page.check(table, _row(table, found[over]))
    steps = found["the number of steps"]
    said = {f"{k} {n}": _gain(steps[k], "8", n) for k in steps for n in WEIGHTS}
    words = "; ".join(
        f"at {k} steps `answer` {{{k} answer}}, `trace` {{{k} trace}}, `ppc` {{{k} ppc}}" for k in ("2", "4", "8", "16")
    )
    yield from page.says(f"gain over the vote in points (95%): {words}.", said.__getitem__)


def _row(table: Table, points: Mapping[str, Any]) -> Callable[[dict[str, str]], dict[str, str]]:
    def row(said: dict[str, str]) -> dict[str, str]:
        point = points[said[table.head[0]]]
        if "problems" in said:
            means = {
                "problems": str(point["problems"]),
                "pass@1, %": percent(point["pass1"]),
                "tokens": f"{point['tokens']:.1f}",
                "paths of an answer": f"{point['paths']:.1f}",
                "copied, %": percent(point["copied"]),
            }
            return means | ({"AUROC, all tokens": _area(point, "64", "trace")} if "AUROC, all tokens" in said else {})
        size = said["rollouts"]
        if "vote, %" in said:
            vote = percent(_measure(point, size, "vote")[0])
            return {"vote, %": vote, **{n: _gain(point, size, n) for n in WEIGHTS}}
        return {n: _area(point, size, n) for n in WEIGHTS if n in said}

    return row


def _split(problems: Sequence[Problem], of: Callable[[Problem], str]) -> dict[str, Any]:
    names = dict.fromkeys(map(of, problems))
    return {name: _point([p for p in problems if of(p) == name]) for name in names if name}


def _between(edges: Sequence[float], value: float | None) -> str:
    """The edges that a value lies between; the last group has its upper edge too."""
    if value is None or not np.isfinite(value):
        return ""
    at = min(int(np.searchsorted(edges, value, side="right")) - 1, len(edges) - 2)
    return f"{edges[at]:g} to {edges[at + 1]:g}" if np.isfinite(edges[at + 1]) else f"{edges[at]:g} or more"


def _point(problems: Sequence[Problem]) -> dict[str, Any]:
    means = {n: round(float(np.nanmean(np.array([p[n] for p in problems], float))), 4)
             for n in ("pass1", "tokens", "paths", "copied")}  # fmt: skip
    drawn = draws([f"{p['regime']} {p['base']} {p['family']}" for p in problems])
    return {"problems": len(problems), **means, "own": problems, "drawn": drawn}


def _measure(point: Mapping[str, Any], size: str, name: str, less: str = "") -> tuple[float, float, float]:
    values = np.array([p["values"][size][name] for p in point["own"]], float)
    if less:
        values -= np.array([p["values"][size][less] for p in point["own"]], float)
    own = estimate(values, point["drawn"])
    return round(own.estimate, 5), round(own.low, 5), round(own.high, 5)


def _gain(point: Mapping[str, Any], size: str, name: str) -> str:
    middle, low, high = _measure(point, size, f"label: {name}", "vote")
    return gain(middle, (low, high))


def _area(point: Mapping[str, Any], size: str, name: str) -> str:
    middle, low, high = _measure(point, size, f"auroc: {name}")
    return re.sub("nan", "-", f"{middle:.2f} ({low:.2f} to {high:.2f})")
