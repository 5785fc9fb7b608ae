"""Single figures of a run for a paper or a slide, by matplotlib."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from dare_reward.errors import RequestError
from dare_reward.numbers import CHARTS, Chart

from ..analysis.plots import new_figure, save

JSON = Mapping[str, Any]
TONES: Final = {
    "main": "#2f5f9e", "other": "#7b5aa6", "good": "#26734d", "bad": "#b3402a", "warn": "#9a6700", "quiet": "#7d8890",
}  # fmt: skip
PRUNED: Final = "#c3c9ce"
ANSWERS: Final = 12  # rows of a group
FIGURES: Final = (*(c.name for c in CHARTS), "group")


def save_figure(path: str, name: str, run: JSON, cards: Sequence[JSON], *, group: str | None, force: bool) -> str:
    """One figure of a run's view; what it shows, in words where its name does not say it.

    RequestError if its data are not there.
    """
    shown = ""
    if name == "group":
        card = _card(cards, group)
        shown = f"group {card['group_id']}"
        figure = new_figure(width=6.5, height=1.2 + 0.32 * min(len(card["support"]), ANSWERS))
        _group(figure, card)
    else:
        chart = next(c for c in CHARTS if c.name == name)
        curves = [c for c in chart.curves if any(x is not None for x in run["columns"][c.key])]
        if not curves:
            raise RequestError(f"--figure {name}: the run has no data for it", code="figure")
        figure = new_figure(width=6.5, height=3.0)
        _curves(figure.add_subplot(), chart, run)
    save(figure, path, force=force)
    return shown


def _curves(axes: Any, chart: Chart, run: JSON) -> None:
    columns = run["columns"]
    for curve in chart.curves:
        points = [(x, y) for x, y in zip(columns["step"], columns[curve.key], strict=True) if y is not None]
        if points:
            name = f"pass@{run['k']}" if curve.key == "pass@k" else curve.name
            marker = "o" if len(points) <= 30 else None
            axes.plot(
                *zip(*points, strict=True),
                label=name,
                color=TONES[curve.tone],
                marker=marker,
                markersize=3,
                linewidth=1.3,
            )
    if chart.level is not None:
        axes.axhline(chart.level, color=TONES["quiet"], linewidth=0.8, linestyle="--")
    axes.set(xlabel=run["unit"], ylabel=chart.unit, title=chart.title)
    axes.set_ylim(0, 1.02 if chart.unit == "share" else None)
    if len(chart.curves) > 1:
        axes.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0), fontsize="small")


def _card(cards: Sequence[JSON], group: str | None) -> JSON:
    found = [c for c in cards if c.get("support") and group in {None, c["group_id"]}]
    if not found:
        which = "no group has answers" if group is None else f"{group!r} is not among the groups kept for reading"
        raise RequestError(f"--figure group: {which}", code="group")
    return found[0]


def _group(figure: Any, card: JSON) -> None:
    """The paper's Figure 1: votes and probability, reward, and the entropies of the rollouts, an answer a row."""
    rows = sorted(card["support"], key=lambda row: -row["count"])[:ANSWERS]
    names = [_plain(row["answer"]) + _mark(card, row["answer"]) for row in rows]
    answers, entropies = card.get("answers") or (), card.get("mean_entropies") or ()
    shares, pay, spread = figure.subplots(1, 3, sharey=True, width_ratios=(2, 1.4, 1.8))
    for y, row in enumerate(rows):
        colour = TONES["main"] if row["kept"] else PRUNED
        shares.barh(y - 0.19, row["count"] / card["size"], 0.34, color=PRUNED if not row["kept"] else TONES["quiet"])
        shares.barh(y + 0.19, row["p_hat"] or 0.0, 0.34, color=colour)
        pay.barh(y, row["reward"] or 0.0, 0.5, color=TONES["other"] if row["kept"] else PRUNED)
        dots = [u for a, u in zip(answers, entropies, strict=False) if a == row["answer"] and u is not None]
        spread.plot(dots, [y] * len(dots), "o", color=colour, markersize=3, alpha=0.5, markeredgewidth=0)
    shares.set_yticks(range(len(rows)), names, fontfamily="monospace")
    shares.invert_yaxis()
    shares.set(xlabel="votes (grey), p-hat (blue)", xlim=(0, 1))
    pay.set(xlabel="reward")
    spread.set(xlabel="entropy (nats)")
    for axes, ticks in ((shares, 4), (pay, 3), (spread, 3)):
        axes.locator_params(axis="x", nbins=ticks)
        axes.xaxis.set_major_formatter("{x:g}")
    figure.suptitle(_plain(card["group_id"]), fontsize="medium")
    spread.set_xlim(0, 1.05 * max([u for u in entropies if u is not None], default=1.0))


def _mark(card: JSON, answer: str) -> str:
    """What stands behind a right answer, by most of its rollouts whose truth is known."""
    truth = [t for a, t in zip(card.get("answers") or (), card.get("correct") or (), strict=False) if a == answer]
    known = [t for t in truth if t is not None]
    return " (right)" if 2 * sum(known) > len(known) else ""


def _plain(answer: str) -> str:
    """One line without what matplotlib would read as mathematics, nor control characters."""
    text = "".join(c if c.isprintable() else "?" for c in answer).replace("$", r"\$")
    return text if len(text) <= 24 else text[:23] + "…"
