"""Figures of the training study as SVG files beside its page (the extra `plots` brings matplotlib, loaded here alone).

Contains the numbers behind the headline figure too, which need no matplotlib.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from dare_reward.errors import ConfigError
from dare_reward.files.output import whole_file
from dare_reward.segments import Floats

from ..training.arms import ALL_ARMS
from ..training.parts import PARTS
from ..training.records import parse
from .campaign_further import draw_break_even
from .dynamics import GAINS, reached
from .outcomes import FINAL, Study, curve, mean_of
from .tables import secondary

COLOURS = {"informative": "#2b7a4b", "uninformative": "#555555", "confident": "#b5442e"}
SHOWN = (*(a.name for a in ALL_ARMS.values() if a.everywhere), "gt")
PERMUTATIONS = 5000


@dataclass(frozen=True, slots=True)
class Gain:
    """One base: how well entropy tells right from wrong in it before RL, and what dare then gained on ttrl."""

    regime: str
    base: int
    auroc: float
    difference: float
    seeds: int


def gains(study: Study) -> list[Gain]:
    found = []
    for base in sorted(study.bases(), key=lambda b: (b.regime, b.base)):
        runs = [study.runs(FINAL, base.regime, a) for a in ("dare", "ttrl")]
        keys = sorted(k for k in runs[0].keys() & runs[1].keys() if k[0] == base.base)
        scores = [[r[k].final.sets["adapted"] for r in runs] for k in keys]
        values = [a.pass1 - b.pass1 for a, b in scores]
        auroc = base.evaluation.sets["adapted"].auroc
        if values and not np.isnan(auroc):
            found.append(Gain(base.regime, base.base, auroc, float(np.mean(values)), len(values)))
    return found


def rank_correlation(x: Sequence[float], y: Sequence[float], *, seed: int = 0) -> tuple[float, float]:
    """Spearman's rank correlation, mean ranks for ties, and its two-sided p by permutation (points independent)."""
    if len(x) < 3:
        return np.nan, np.nan
    first, second = _ranks(x), _ranks(y)
    if first.std() == 0 or second.std() == 0:
        return np.nan, np.nan
    found = float(np.corrcoef(first, second)[0, 1])
    rng = np.random.default_rng(seed)
    drawn = rng.permuted(np.tile(second, (PERMUTATIONS, 1)), axis=1)
    other = (drawn - second.mean()) @ (first - first.mean()) / (len(x) * first.std() * second.std())
    return found, float((np.abs(other) >= abs(found) - 1e-12).sum() + 1) / (PERMUTATIONS + 1)


def figures(study: Study) -> list[str]:
    """Names of the figures that the records allow."""
    confirm = any(r.stage == FINAL and r.complete for r in study.records.runs)
    possible = {
        "gain-auroc": len(gains(study)) > 0,
        "curves": confirm,
        "thresholds": confirm,
        "labels": any("label_accuracy" in r.steps for r in study.records.runs if r.stage == FINAL and r.complete),
        "contrasts": len(secondary(study)) > 0,
    }
    return [name for name, there in possible.items() if there]


def draw_training(folder: Path, study: Study) -> list[Path]:
    """Write the figures that the records allow, `training-NAME.svg`. ConfigError without matplotlib."""
    return [drawn(folder / f"training-{name}.svg", FIGURES[name], study) for name in figures(study)]


def draw_campaign(folder: Path, records: Sequence[Mapping[str, Any]]) -> list[Path]:
    """Write `campaign-break-even.svg` once all runs of E3 are in. ConfigError without matplotlib."""
    wanted = PARTS["e3"].ids()
    if not wanted <= {r["id"] for r in records if r["record"] == "run"}:
        return []
    study = Study(parse([r for r in records if r["record"] != "run" or r["id"] in wanted]))
    return [drawn(folder / "campaign-break-even.svg", draw_break_even, study, records)]


def drawn(path: Path, draw: Callable[..., None], *shown: Any) -> Path:
    """`draw` into an empty figure what is `shown`: the same file for the same numbers."""
    try:
        from matplotlib import rc_context  # noqa: PLC0415
        from matplotlib.figure import Figure  # noqa: PLC0415
    except ModuleNotFoundError:
        raise ConfigError("figures need matplotlib; run pip install '.[plots]' in your checkout") from None
    path.parent.mkdir(parents=True, exist_ok=True)
    with rc_context({"svg.hashsalt": "dare", "svg.fonttype": "none", "font.size": 9}):
        figure = Figure(layout="constrained")
        draw(figure, *shown)
        with whole_file(path, force=True) as part:
            figure.savefig(part, metadata={"Date": None})
    return path


def _ranks(values: Sequence[float]) -> Floats:
    """Mean ranks."""
    x = np.asarray(values, np.float64)
    return np.asarray((x[:, None] > x).sum(axis=1) + ((x[:, None] == x).sum(axis=1) - 1) / 2, np.float64)


def _gain_auroc(figure: Any, study: Study) -> None:
    figure.set_size_inches(6, 4)
    axes = figure.add_subplot()
    found = gains(study)
    for regime in dict.fromkeys(g.regime for g in found):
        own = [g for g in found if g.regime == regime]
        place = [g.auroc for g in own], [100 * g.difference for g in own]
        axes.scatter(*place, s=[10 * g.seeds + 10 for g in own], label=regime, color=COLOURS.get(regime))
    axes.axhline(0, color="grey", linewidth=1)
    axes.axvline(0.5, color="grey", linewidth=1)
    axes.set(xlabel="within-group AUROC of entropy, base", ylabel="dare - ttrl, points of pass@1")
    axes.set_title("one point a base, its size the number of seeds")
    axes.legend()


def _panels(figure: Any, study: Study, plot: Callable[[Any, str, str], None], **labels: str) -> None:
    """A panel per regime, a line per arm."""
    regimes = study.regimes(FINAL)
    figure.set_size_inches(3.6 * len(regimes) + 1.2, 3.4)
    panels = figure.subplots(1, len(regimes), sharex=True, sharey=True, squeeze=False)[0]
    for axes, regime in zip(panels, regimes, strict=True):
        for arm in [a for a in study.arms(FINAL, regime) if a in SHOWN]:
            plot(axes, regime, arm)
        axes.set(title=regime, xlabel=labels["xlabel"])
    panels[0].set_ylabel(labels["ylabel"])
    lines = {line.get_label(): line for axes in panels for line in axes.get_lines()}
    arms = [a for a in SHOWN if a in lines]
    figure.legend([lines[a] for a in arms], arms, loc="outside right upper", fontsize=7)


def _line(axes: Any, arm: str, x: Sequence[float], y: Sequence[float] | Floats) -> None:
    axes.plot(x, y, marker="o", markersize=3, linewidth=1.2, label=arm, color=f"C{SHOWN.index(arm)}")


def _curves(figure: Any, study: Study) -> None:
    def plot(axes: Any, regime: str, arm: str) -> None:
        values: dict[int, list[float]] = {}
        runs = study.runs(FINAL, regime, arm).values()
        for r in runs:
            for step, value in curve(r, study.base(regime, r.base)):
                values.setdefault(step, []).append(100 * value)
        steps = sorted(s for s, v in values.items() if len(v) == len(runs))
        _line(axes, arm, steps, [mean_of(values[s]) for s in steps])

    _panels(figure, study, plot, xlabel="step", ylabel="pass@1, adapted, per cent")


def _thresholds(figure: Any, study: Study) -> None:
    """The paper's figure on convergence: thresholds against the median step; none where less than half get there."""

    def plot(axes: Any, regime: str, arm: str) -> None:
        runs = study.runs(FINAL, regime, arm).values()
        steps = [reached(r, b) for r in runs if (b := study.base(regime, r.base))]
        if steps:
            table = np.array([[np.inf if s is None else s for s in row] for row in steps])
            middle = np.sort(table, axis=0)[(len(table) - 1) // 2]
            _line(axes, arm, [100 * g for g in GAINS], np.where(np.isinf(middle), np.nan, middle))

    _panels(figure, study, plot, xlabel="gain over the base, points", ylabel="median step")


def _labels(figure: Any, study: Study) -> None:
    def plot(axes: Any, regime: str, arm: str) -> None:
        found = [
            r.steps["label_accuracy"] for r in study.runs(FINAL, regime, arm).values() if "label_accuracy" in r.steps
        ]
        size = min((len(v) for v in found), default=0)
        if size:
            smooth = [mean_of(x for v in found for x in v[max(0, i - 7) : i + 1]) for i in range(size)]
            axes.plot(range(1, size + 1), smooth, linewidth=1.2, label=arm, color=f"C{SHOWN.index(arm)}")

    _panels(figure, study, plot, xlabel="step (mean of the last 8)", ylabel="share of right labels")


def _contrasts(figure: Any, study: Study) -> None:
    rows = secondary(study)
    figure.set_size_inches(7, 0.22 * len(rows) + 1)
    axes = figure.add_subplot()
    for place, s in enumerate(rows):
        ends = s.found.bootstrap
        line = [100 * ends.low, 100 * ends.high]
        axes.plot(line, [place, place], color=COLOURS.get(s.regime), linewidth=1.5)
        axes.plot([100 * s.found.estimate], [place], "o", color=COLOURS.get(s.regime), markersize=4)
    axes.set_yticks(range(len(rows)), [f"{s.regime}: {s.arm} - {s.rival}" for s in rows], fontsize=7)
    axes.invert_yaxis()
    axes.axvline(0, color="grey", linewidth=1)
    axes.set(xlabel="points of pass@1, 95% bootstrap, not corrected")


FIGURES: dict[str, Callable[[Any, Study], None]] = {
    "gain-auroc": _gain_auroc,
    "curves": _curves,
    "thresholds": _thresholds,
    "labels": _labels,
    "contrasts": _contrasts,
}
