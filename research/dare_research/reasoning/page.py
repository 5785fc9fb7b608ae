"""The page of the reasoning bases' labels and its figure, from the measured problems alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ..page.figures import drawn
from ..page.words import number, percent, table
from ..real_model.page import area, gain
from .labels import UNCERTAINTIES, WEIGHTS, MeasuredProblem, curves, point

OVER = {
    "steps": "the number of steps",
    "paths": "distinct paths of an answer",
    "copied": "the share of answers that are copied",
}
MEANS = {"pass1": "pass@1, %", "tokens": "tokens", "paths": "paths of an answer", "copied": "copied, %"}
SHOWN = "8"  # rollouts of the figure
Curve = Mapping[str, Any]


def bases(problems: Sequence[MeasuredProblem], missing: Sequence[str]) -> str:
    """One line for each base: whether it can be used, and what its rollouts look like."""
    own: dict[str, list[MeasuredProblem]] = {}
    for p in problems:
        own.setdefault(f"{p.regime}-{p.base}", []).append(p)
    found = {name: point(part) for name, part in sorted(own.items())}
    largest = {name: list(p["sizes"].values())[-1]["auroc: trace"] for name, p in found.items()}
    rows = [[name, *means(p), area(largest[name])] for name, p in found.items()]
    rows += [[name, "not sampled yet", *("-" for _ in range(len(MEANS) + 1))] for name in missing]
    return table(["base", "problems", *MEANS.values(), "AUROC, all tokens"], rows)


def headline(steps: Curve) -> str:
    """What the certainties of the issue's claim gain with few rollouts, at each number of steps."""
    said = [
        f"at {at} steps "
        + ", ".join(f"`{name}` {gain(p['sizes'][SHOWN][f'gain: {name}'])}" for name in ("answer", "trace", "ppc"))
        for at, p in steps.items()
    ]
    where = f"Right labels of {SHOWN} rollouts where the box copies the answer, gain over the vote in points (95%)"
    return f"{where}: {'; '.join(said)}."


def means(p: Mapping[str, Any]) -> list[str]:
    return [str(p["problems"]), *(percent(p[n]) if n in {"pass1", "copied"} else number(p[n], ".1f") for n in MEANS)]


def curve_tables(over: str, curve: Curve) -> list[str]:
    """Its problems, then the AUROC and the gain of each weight at every size of group."""
    areas, gains, heads = [], [], [[at, *means(p)] for at, p in curve.items()]
    for at, p in curve.items():
        for size, found in p["sizes"].items():
            areas.append([at, size, *(area(found[f"auroc: {n}"]) for n in UNCERTAINTIES)])
            gains.append([at, size, percent(found["vote"]["estimate"]), *(gain(found[f"gain: {n}"]) for n in WEIGHTS)])
    return [
        f"## Over {OVER[over]}", "", table([OVER[over], "problems", *MEANS.values()], heads),
        "", "AUROC within problems:", "", table(["", "rollouts", *UNCERTAINTIES], areas),
        "", "Right labels, gain over the vote in points:", "", table(["", "rollouts", "vote, %", *WEIGHTS], gains), "",
    ]  # fmt: skip


def page(problems: Sequence[MeasuredProblem], missing: Sequence[str]) -> str:
    """research/docs/reasoning-labels.md."""
    found = curves(problems)
    lines = ["# E9: which labels certainty gives where the answer ends a chain of steps", "", headline(found["steps"])]
    lines += ["", INTRODUCTION, bases(problems, missing), "", f"![{SHOWN} rollouts](reasoning-labels.svg)", ""]
    for over, curve in found.items():
        if curve:
            lines += curve_tables(over, curve)
    return "\n".join(lines).rstrip("\n") + "\n"


def draw(folder: Path, problems: Sequence[MeasuredProblem]) -> Path:
    return drawn(folder / "reasoning-labels.svg", _panels, {k: c for k, c in curves(problems).items() if c})


def _panels(figure: Any, found: Mapping[str, Curve]) -> None:
    """AUROC above, gain below; a column for each curve."""
    figure.set_size_inches(3.8 * len(found), 5.6)
    panels = figure.subplots(2, len(found), squeeze=False)
    for column, (over, curve) in zip(panels.T, found.items(), strict=True):
        for axes, kind, names, scale in zip(column, ("auroc", "gain"), (UNCERTAINTIES, WEIGHTS), (1, 100), strict=True):
            for place, name in enumerate(names):
                rows = [p["sizes"][SHOWN][f"{kind}: {name}"] for p in curve.values()]
                low, value, high = (
                    np.array([np.nan if r[end] is None else scale * r[end] for r in rows])
                    for end in ("low", "estimate", "high")
                )
                at = np.arange(len(rows)) + 0.06 * (place - len(names) / 2)
                axes.errorbar(at, value, [value - low, high - value], marker="o", ms=3, lw=1, label=name)
            axes.axhline(0.5 if kind == "auroc" else 0, color="grey", lw=0.6)
            axes.set_xticks(range(len(curve)), list(curve))
            axes.set_xlim(-0.5, len(curve) - 0.5)
        column[1].set_xlabel(OVER[over])
    panels[0, 0].set_ylabel("AUROC within problems")
    panels[1, 0].set_ylabel("gain over the vote, points")
    figure.legend(*panels[1, 0].get_legend_handles_labels(), loc="outside lower center", ncols=6, frameon=False)


INTRODUCTION = """\
[E9's plan](campaign-e9.md) asks for curves here and sets no bar. A problem is a letter and k moves, `Kc47>`. A step is
a move and where it leads, and the box copies the last step's letter: `4g;7d;\\boxed{d}`. Hard facts, misconceptions and
separators are made as in E1's `informative` regime, with one hard fact in a problem on average, whatever k is. In
`reasoning_8_half` a solution may leave its last step to the box. The step decides how many do, from none to all.

Each base gives 64 rollouts at temperature 1 of each of the 128 problems that the runs adapt to. Weights have the
plan's names. AUROC is that of the mean entropy of all tokens (`trace`, and so `tie`) and of the answer's (`answer`),
and of minus the log-probability: summed (`ppc`), its mean (`rpc`), summed over the answer's tokens (`p_answer`). Paths
of an answer are distinct token sequences for each distinct answer of a problem. Intervals are 95%, over problems
within bases and families. They say nothing of other bases: these learned the same hard facts.
`python research/scripts/reasoning_labels.py` samples the bases in `research/bases` and makes this page.

That `trace` and `ppc` gain is no finding: here separators tell by construction. The findings are how much of that the
answer's own tokens keep, and how weights change along the curves.
"""
