"""Figures by matplotlib, and those of an analysis."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from dare_reward.analysis.auroc import group_auroc
from dare_reward.errors import ConfigError, RequestError
from dare_reward.files.output import check_free, whole_file
from dare_reward.groups import Groups
from dare_reward.segments import Floats

Numbers = Mapping[str, Any]
RIGHT, WRONG = "#26734d", "#b3402a"
# The formats, with what keeps the time out of a file.
UNDATED: Mapping[str, Mapping[str, Any]] = {".png": {}, ".svg": {"Date": None}, ".pdf": {"CreationDate": None}}

FIGURES = ("accuracy", "direction", "information", "entropy", "auroc")


def prepare_figures(folder: Path, *, force: bool = False) -> None:
    """Make the folder. ConfigError if you may not write there, RequestError if a figure is there without `force`."""
    folder.mkdir(parents=True, exist_ok=True)
    if not os.access(folder, os.W_OK):
        raise ConfigError(f"{folder}: you may not write there")
    for name in FIGURES:
        check_free(folder / f"{name}.png", force=force)


def draw(folder: Path, numbers: Numbers, groups: Groups, correct_R: Floats, *, force: bool = False) -> list[Path]:
    """Write the figures that the data allow and return their paths. Errors are those of `prepare_figures`."""
    prepare_figures(folder, force=force)
    entropy_R = groups.column("mean_entropy")
    usable_R = groups.valid_R & ~np.isnan(entropy_R) & ~np.isnan(correct_R)
    auroc_P = group_auroc(groups, entropy_R, correct_R)
    figures: dict[str, tuple[bool, Callable[[Any], None]]] = {
        "accuracy": (bool(numbers["accuracy"]["pass"]), lambda axes: _accuracy(axes, numbers["accuracy"])),
        "direction": (_any_gain(numbers), lambda axes: _direction(axes, numbers["methods"])),
        "information": (_any_gain(numbers), lambda axes: _information(axes, numbers["methods"])),
        "entropy": (bool(usable_R.any()), lambda axes: _entropy(axes, entropy_R[usable_R], correct_R[usable_R] > 0)),
        "auroc": (bool((~np.isnan(auroc_P)).any()), lambda axes: _auroc(axes, auroc_P[~np.isnan(auroc_P)])),
    }
    written = []
    for name, (possible, plot) in figures.items():
        if possible:
            figure = new_figure()
            plot(figure.add_subplot())
            save(figure, folder / f"{name}.png", force=force)
            written.append(folder / f"{name}.png")
    return written


def new_figure(*, width: float = 6.0, height: float = 4.0) -> Any:
    """An empty figure, in inches."""
    from matplotlib.figure import Figure  # noqa: PLC0415  the command line loads this module and draws rarely

    return Figure(figsize=(width, height), layout="constrained")


def save(figure: Any, path: str | Path, *, force: bool = False) -> None:
    """Write the figure in the format of the suffix: the same bytes for the same data. RequestError for another one."""
    from matplotlib import rc_context  # noqa: PLC0415

    suffix = Path(path).suffix.lower()
    if suffix not in UNDATED:
        raise RequestError(f"{path}: a figure ends in {', '.join(UNDATED)}", code="file")
    for axes in figure.axes:
        axes.spines[["top", "right"]].set_visible(False)
        axes.grid(visible=True, axis="both", color="#e1e4e8", linewidth=0.6)
        axes.set_axisbelow(True)
        axes.title.set_fontsize("medium")
        if axes.get_legend() is not None:
            axes.get_legend().set_frame_on(False)
    with whole_file(path, force=force) as part, rc_context({"svg.fonttype": "none", "svg.hashsalt": "dare-reward"}):
        figure.savefig(part, dpi=200, metadata=UNDATED[suffix])


def _any_gain(numbers: Numbers) -> bool:
    return any(m["scored"] for m in numbers["methods"].values())


def _accuracy(axes: Any, accuracy: Numbers) -> None:
    for name, label in (("pass", "pass@k"), ("majority", "maj@k")):
        ks = np.array([int(k) for k in accuracy[name]])
        rows = np.array([[v["estimate"], v["low"], v["high"]] for v in accuracy[name].values()])
        axes.plot(ks, rows[:, 0], marker="o", label=label)
        axes.fill_between(ks, rows[:, 1], rows[:, 2], alpha=0.2)
    axes.set_xscale("log", base=2)
    axes.set(xlabel="k", ylabel="accuracy", ylim=(0, 1.02), title="95% intervals over prompts")
    axes.legend()


def _direction(axes: Any, methods: Numbers) -> None:
    rows = {n: m["direction_gain"] for n, m in methods.items() if m["scored"]}
    place = np.arange(len(rows))
    middle = np.array([g["estimate"] for g in rows.values()])
    ends = np.array([[g["estimate"] - g["low"], g["high"] - g["estimate"]] for g in rows.values()]).T
    axes.errorbar(middle, place, xerr=np.maximum(ends, 0), fmt="o", capsize=4)
    axes.set_yticks(place, list(rows))
    axes.invert_yaxis()
    axes.axvline(0, color="grey", linewidth=1)
    axes.set(xlabel="first-order gain of accuracy per unit step", title="95% intervals over prompts")


def _information(axes: Any, methods: Numbers) -> None:
    rows = {n: m for n, m in methods.items() if m["scored"]}
    place = np.arange(len(rows))
    raw = [m["information"]["bits"] if "information" in m else 0.0 for m in rows.values()]
    axes.barh(place + 0.2, raw, 0.4, label="I(R; r), rewards")
    axes.barh(
        place - 0.2, [m["information_advantage"]["bits"] for m in rows.values()], 0.4, label="I(R; A), advantages"
    )
    axes.set_yticks(place, list(rows))
    axes.invert_yaxis()
    axes.set(xlabel="bits")
    axes.legend()


def _entropy(axes: Any, entropy: Floats, right: Any) -> None:
    edges = np.linspace(0, float(np.quantile(entropy, 0.99)) + 1e-9, 40)
    for at, label, colour in ((right, "right", RIGHT), (~right, "wrong", WRONG)):
        if at.any():
            axes.hist(entropy[at], edges, weights=np.full(at.sum(), 1 / at.sum()), alpha=0.5, label=label, color=colour)
    axes.set(
        xlabel="mean token entropy of a rollout (nats)", ylabel="share of these rollouts", title="all prompts pooled"
    )
    axes.legend()


def _auroc(axes: Any, auroc: Floats) -> None:
    axes.hist(auroc, np.linspace(0, 1, 21))
    axes.axvline(0.5, color="grey", linewidth=1)
    axes.axvline(float(auroc.mean()), color=WRONG, linewidth=1.5, label=f"mean {auroc.mean():.2f}")
    axes.set(xlabel="P(a right rollout has the lower entropy), one prompt", ylabel="prompts")
    axes.legend()
