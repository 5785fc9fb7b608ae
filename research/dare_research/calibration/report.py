"""The calibration's safety as Markdown, from its raw results."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from dare_reward.analysis.calibrate import GATE, PRIOR
from dare_reward.analysis.certainty import GRID
from dare_reward.commands.methods import markdown

from ..page.words import interval, percent, points
from .simulate import LOSS

JSON = Mapping[str, Any]
ALLOWED = 0.03  # of the projects of a regime may be worse than the vote
BAR_LABELS = 32
INTRO = """# Calibration: how often a fitted exponent is worse than the vote

Written by `{command}` from its raw results, [calibration.json.gz](../results/calibration.json.gz). A test renders
this page from them again.

A project labels some prompts of its policy, lets `dare-reward calibrate` choose the exponent of `calibrated_vote`,
and uses it on other prompts. Here {projects} projects a regime do so in the latent-variable model of
[simulation.md](simulation.md): 64 rollouts a prompt, {evaluated} other prompts, whose labels are compared with the
vote's. Numbers are points of label accuracy.

**The bar:** with {bar} labels, worse than the vote by more than {loss:g} points in at most {allowed:.0%} of the
projects of every regime. **It is {passed}:** the worst regime is "{worst}" with {share:.1%} (95% interval {low:.1%}
to {high:.1%}).

{evaluated} prompts cannot tell half a point from none: some of these projects are worse by the draw of the prompts
only, above all with more labels, where more of them use an exponent at all. The means say what is lost: with {bar}
labels at most {lost:.1f} points in any regime.

The rule is that of [entropy.md](../../docs/entropy.md#calibrate). The grid is {grid}. The gate (|t| >= {gate:g} with
32 labels) and the shrinkage (a standard deviation of {prior:g}) were chosen among 22 variants on {tuned} development
projects a regime, with seeds that do not occur below. A gate of 2 and a deviation of 3, the first proposal, were worse
than the vote in up to 6.3% of the development projects. That contenders and the number of right labels decide was
chosen among 16 variants on 300 other projects of 24 regimes: most of these, and others in which 65% of the prompts are
all right or all wrong, entropy sets rare answers alone apart, or a prompt has 8 rollouts. How the bars rise with the
labels follows from a bound, and was compared with three other slopes on 1,500 other projects.

**Scope:** entropies are lognormal, prompts are exchangeable, and the policy does not move. Labelled prompts of
another kind than the trained ones, or of an older policy, are not covered."""
DEVELOPMENT = 300
WAYS_INTRO = """Each cell: projects that leave the vote; change of label accuracy; projects worse by more than half a
point. A look every 8 labels uses the first exponent that it sees. Chosen labels are those of the 16 most informative of
100 prompts. The three certainties are drawn independently, each as informative as the regime says, and share one gate
of 3.32."""


LOOKS_INTRO = """Share of {looked:,} projects that have left the vote at one of their looks, one every 8 labels, where
no exponent gains anything. The bars on both t rise as sqrt(bar^2 + 2 ln(n / 32)) with n labels; beside it, the bars of
the first look for ever. **The bar:** at most 2% by 100 labels. **The most is {most:.1%}.** In the second and third
regime entropy does tell a little, though not what would change a label, so more labels show it at last."""


def calibration_page(results: JSON, *, command: str) -> str:
    """The page."""
    size, rows = results["size"], results["regimes"]
    name, share = worst(rows)
    low, high = _wilson(share, size["projects"])
    lost = -min(0.0, *(c["mean"] for r in rows for c in r["calibrated"] if c["labels"] == BAR_LABELS))
    intro = INTRO.format(
        command=command,
        projects=size["projects"],
        evaluated=size["evaluated"],
        bar=BAR_LABELS,
        loss=100 * LOSS,
        allowed=ALLOWED,
        passed="met" if share <= ALLOWED else "not met",
        worst=name,
        share=share,
        low=low,
        high=high,
        lost=100 * lost,
        grid=", ".join(f"{b:g}" for b in GRID),
        gate=GATE,
        prior=PRIOR,
        tuned=DEVELOPMENT,
    )
    counts = size["labels"]
    parts = [
        intro,
        "## Change of label accuracy, mean over projects",
        "`best` is the exponent that is best on average in the regime: what all labels of the world would give.",
        _means(rows, counts),
        "## Projects worse than the vote by more than half a point",
        _worse(rows, counts),
        "## Projects that stay at the vote",
        _stay(rows, counts),
        "## Other ways to label",
        WAYS_INTRO,
        _ways(rows),
        "## Looking again and again",
        LOOKS_INTRO.format(looked=size["looked"], most=max(own["rising"] for r in rows for own in r["looks"][:2])),
        _looks(rows),
    ]
    return "\n\n".join(parts) + "\n"


def worst(rows: Sequence[JSON], *, labels: int = BAR_LABELS) -> tuple[str, float]:
    """The regime with the greatest share of worse projects, and that share."""
    found = {r["regime"]: c["worse"] for r in rows for c in r["calibrated"] if c["labels"] == labels}
    name = max(found, key=found.__getitem__)
    return name, float(found[name])


def _means(rows: Sequence[JSON], counts: Sequence[int]) -> str:
    lines = []
    for r in rows:
        fixed = [percent(r["vote"]), *(points(r[k]["mean"]) for k in ("dare", "strongest"))]
        own = [f"{points(c['mean'])} {interval(c['low'], c['high'])}" for c in r["calibrated"]]
        lines.append([r["regime"], *fixed, *own, points(r["best"])])
    head = ("regime", "vote", "exponent 1", "exponent 4", *(f"{n} labels" for n in counts), "best")
    return markdown(head, lines)


def _worse(rows: Sequence[JSON], counts: Sequence[int]) -> str:
    lines = [
        [r["regime"], *(f"{r[k]['worse']:.1%}" for k in ("dare", "strongest"))]
        + [f"{c['worse']:.1%}" for c in r["calibrated"]]
        for r in rows
    ]
    return markdown(("regime", "exponent 1", "exponent 4", *(f"{n} labels" for n in counts)), lines)


def _stay(rows: Sequence[JSON], counts: Sequence[int]) -> str:
    lines = [[r["regime"], *(f"{c['vote']:.0%}" for c in r["calibrated"])] for r in rows]
    return markdown(("regime", *(f"{n} labels" for n in counts)), lines)


def _ways(rows: Sequence[JSON]) -> str:
    lines = [
        [r["regime"], *(f"{1 - w['vote']:.0%}; {points(w['mean'])}; {w['worse']:.1%}" for w in r["ways"])] for r in rows
    ]
    return markdown(("regime", *(w["way"] for w in rows[0]["ways"])), lines)


def _looks(rows: Sequence[JSON]) -> str:
    own = [r for r in rows if r["looks"]]
    gates = ("rising", "constant")
    head = ("regime", *(f"{gate}, by {k['labels']} labels" for gate in gates for k in own[0]["looks"]))
    return markdown(head, [[r["regime"], *(f"{k[gate]:.1%}" for gate in gates for k in r["looks"])] for r in own])


def _wilson(share: float, count: int) -> tuple[float, float]:
    """95% score interval of a share (Wilson 1927)."""
    z = 1.96
    centre = (share + z**2 / (2 * count)) / (1 + z**2 / count)
    half = z / (1 + z**2 / count) * (share * (1 - share) / count + z**2 / (4 * count**2)) ** 0.5
    return max(0.0, centre - half), centre + half
