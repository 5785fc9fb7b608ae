"""Statistics of paired runs, an interval for the mean difference of two arms; and of questions.

A pair is two runs from the same base with the same seed, one per arm. The unit is the difference on one prompt, nested
as bases > seeds > prompts. Bases are pretrained apart and few; seeds share their base; prompts are shared by the seeds
of a base. The mean gives every base the same weight, in it every seed, in it every prompt.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

import numpy as np
from scipy.special import stdtr, stdtrit

from dare_reward.segments import Floats, Ints

Nested = Sequence[Sequence[Floats]]  # bases > seeds > one value per prompt

RESAMPLES = 10000
FEWEST_BASES = 4  # below, a percentile bootstrap of the bases is far too narrow to decide anything
BLOCK = 1 << 22  # draws held at a time


class Ends(NamedTuple):
    """The ends of a 95 and of a 90 per cent interval; the second is that of two one-sided tests at 5 per cent."""

    low: float
    high: float
    low90: float
    high90: float

    def __neg__(self) -> Ends:
        """The ends of the opposite difference."""
        return Ends(-self.high, -self.low, -self.high90, -self.low90)

    def wider(self, other: Ends) -> Ends:
        """What covers both."""
        return Ends(*(pick(*pair) for pick, *pair in zip((min, max, min, max), self, other, strict=True)))


EVERYTHING = Ends(-np.inf, np.inf, -np.inf, np.inf)


@dataclass(frozen=True, slots=True)
class Contrast:
    """A mean difference and three intervals for it.

    bootstrap    percentiles of the hierarchical bootstrap: the one written down before the runs
    over_bases   Student's t over the means of bases
    over_pairs   Student's t over the means of pairs
    p, p_bases   two-sided p of the bootstrap and of the t over bases

    With 4 bases of 4 seeds and normal components (research/tests/test_contrasts.py) the bootstrap covers the truth in
    about 82 of 100 cases if bases alone differ, and in more than 95 if seeds or prompts do: their share counts again at
    each level above. The t over bases keeps its 95. The t over pairs does only if seeds alone differ: neither bases nor
    prompts that runs share may. So the first decides, the second says how firm that is, the third is for description.
    """

    estimate: float
    bootstrap: Ends
    over_bases: Ends
    over_pairs: Ends
    p: float
    p_bases: float
    bases: int
    pairs: int
    prompts: int

    @property
    def deciding(self) -> Ends:
        """The bootstrap; below `FEWEST_BASES` what covers it and the t over bases (a single base decides nothing)."""
        return self.bootstrap if self.bases >= FEWEST_BASES else self.bootstrap.wider(self.over_bases)

    @property
    def deciding_p(self) -> float:
        return self.p if self.bases >= FEWEST_BASES else max(self.p, self.p_bases)


def contrast(differences: Nested, *, resamples: int = RESAMPLES, seed: int = 0) -> Contrast:
    """Estimate and intervals of the mean difference. ValueError without a pair."""
    table = [np.stack(base) for base in differences if len(base)]
    if not table:
        raise ValueError("no pair of runs")
    base_means = np.array([base.mean() for base in table])
    pair_means = np.concatenate([base.mean(axis=1) for base in table])
    drawn = replicates(table, resamples=resamples, seed=seed)
    over_bases, p_bases = student(base_means)
    return Contrast(
        estimate=float(base_means.mean()),
        bootstrap=Ends(*(float(q) for q in np.quantile(drawn, [0.025, 0.975, 0.05, 0.95]))),
        over_bases=over_bases,
        over_pairs=student(pair_means)[0],
        p=_two_sided(drawn),
        p_bases=p_bases,
        bases=len(table),
        pairs=len(pair_means),
        prompts=max(base.shape[1] for base in table),
    )


def holm(p_values: Sequence[float]) -> list[float]:
    """p values adjusted for their number, max over j <= i of min(1, (m - j + 1) p_(j)) (Holm 1979), in their order."""
    out = [0.0] * len(p_values)
    largest = 0.0
    for rank, index in enumerate(sorted(range(len(p_values)), key=p_values.__getitem__)):
        largest = max(largest, min(1.0, (len(p_values) - rank) * p_values[index]))
        out[index] = largest
    return out


def within(margin: float, ends: Sequence[Ends]) -> bool:
    """Every 90% interval lies within the margin on both sides of 0."""
    return all(-margin < e.low90 and e.high90 < margin for e in ends)


def fate(kind: str, than: float, estimate: float, ends: Sequence[Ends], p: float = 0.0) -> str:
    """Of a bar: met if every interval shows it, else open if the estimate is on its side, else missed.

    within    the 90% intervals lie within `than`
    else      the 95% intervals lie above `than`, and `p`, where the plan corrects it, is below .05
    """
    if kind == "within":
        shown, near = within(than, ends), abs(estimate) < than
    else:
        shown, near = all(e.low > than for e in ends) and p < 0.05, estimate > than
    return "met" if shown else "open" if near else "missed"


def judged(bars: Sequence[dict[str, Any]], ends: Callable[[dict[str, Any]], Sequence[Ends]]) -> list[dict[str, Any]]:
    """The bars with their fates; those of kind `above` with Holm's p, over the bars of this kind of their plan."""
    out = [dict(bar) for bar in bars]
    for plan in {bar["plan"] for bar in out}:
        corrected = [bar for bar in out if (bar["plan"], bar["kind"]) == (plan, "above")]
        for bar, p in zip(corrected, holm([bar["figure"]["p"] for bar in corrected]), strict=True):
            bar["holm"] = round(p, 5)
    for bar in out:
        figure = bar["figure"]
        bar["fate"] = fate(bar["kind"], bar["than"], figure["estimate"], ends(figure), bar.get("holm", 0.0))
    return out


def replicates(table: Sequence[Floats], *, resamples: int = RESAMPLES, seed: int = 0) -> Floats:
    """Means of the hierarchical bootstrap (Davison and Hinkley 1997, 3.8): bases, in them seeds, in them prompts.

    All with replacement; `table` has [seeds, prompts] of each base. The runs of a base answer the same prompts, which
    are drawn together: what is a prompt's own does not average out over runs that share it, and to draw it for each
    anew would make the interval too narrow.
    """
    rng = np.random.default_rng(seed)
    chunk = max(1, BLOCK // max(base.shape[1] for base in table))
    parts = [_draw(table, min(chunk, resamples - start), rng) for start in range(0, resamples, chunk)]
    return np.concatenate(parts)


def _draw(table: Sequence[Floats], count: int, rng: np.random.Generator) -> Floats:
    chosen = rng.integers(len(table), size=(count, len(table)))
    total = np.zeros(count)
    for slot in range(len(table)):
        for number, base_SP in enumerate(table):
            at = np.flatnonzero(chosen[:, slot] == number)
            total[at] += _base_means(base_SP, len(at), rng)
    return total / len(table)


def _base_means(base_SP: Floats, count: int, rng: np.random.Generator) -> Floats:
    """`count` resampled means of a base."""
    seeds, prompts = base_SP.shape
    chosen = rng.integers(seeds, size=(count, seeds))
    means_RS = _weights(count, prompts, rng) @ base_SP.T
    return np.asarray(np.take_along_axis(means_RS, chosen, axis=1).mean(axis=1))


def _weights(count: int, prompts: int, rng: np.random.Generator) -> Floats:
    """Shares of the prompts in `count` draws with replacement, [R, P]."""
    drawn = rng.integers(prompts, size=(count, prompts)) + np.arange(count)[:, None] * prompts
    weights: Floats = np.bincount(drawn.ravel(), minlength=count * prompts) / prompts
    return weights.reshape(count, prompts)


def _two_sided(drawn: Floats) -> float:
    """Twice the smaller share of replicates beyond 0, never below what their number can show."""
    level = drawn.round(12)  # machines differ in the last digits of a sum, and with them in the sign of a 0
    beyond = min(int((level <= 0).sum()), int((level >= 0).sum()))
    return min(1.0, 2 * (beyond + 1) / (len(drawn) + 1))


def student(means: Floats) -> tuple[Ends, float]:
    """Intervals and two-sided p of a mean; everything and 1 from fewer than two values."""
    count = len(means)
    if count < 2:
        return EVERYTHING, 1.0
    middle, error = float(means.mean()), float(means.std(ddof=1) / np.sqrt(count))
    wide, narrow = (float(stdtrit(count - 1, q)) * error for q in (0.975, 0.95))
    p = 2 * float(stdtr(count - 1, -abs(middle) / error)) if error > 0 else float(middle == 0)
    return Ends(middle - wide, middle + wide, middle - narrow, middle + narrow), p


# --- means over questions, whose draws stay within families ----------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Resampled:
    """A mean over questions, its 95 and 90 per cent interval, and the two-sided p of its difference from 0."""

    estimate: float
    low: float
    high: float
    low90: float
    high90: float
    p: float
    questions: int

    def record(self) -> dict[str, Any]:
        return {name: round(v, 5) if np.isfinite(v) else None for name, v in asdict(self).items()}


def draws(families: Sequence[str]) -> Ints:
    """How often each question is in each draw, with replacement, as many of each family as there are. Shape [D, Q]."""
    rng, names = np.random.default_rng(0), np.asarray(families)
    out = np.zeros((RESAMPLES, len(names)), np.int64)
    for family in sorted(set(families)):
        at = np.flatnonzero(names == family)
        out[:, at] = rng.multinomial(len(at), np.full(len(at), 1 / len(at)), size=RESAMPLES)
    return out


def estimate(values_Q: Floats, drawn_DQ: Ints) -> Resampled:
    """Of the mean of the values that are numbers."""
    known = np.isfinite(values_Q)
    if not known.any():
        return Resampled(np.nan, np.nan, np.nan, np.nan, np.nan, 1.0, 0)
    counts = drawn_DQ[:, known]
    with np.errstate(invalid="ignore"):
        means = (counts @ values_Q[known]) / counts.sum(axis=1)
    means = means[np.isfinite(means)]
    low, high, low90, high90 = (float(q) for q in np.quantile(means, [0.025, 0.975, 0.05, 0.95]))
    return Resampled(float(values_Q[known].mean()), low, high, low90, high90, _two_sided(means), int(known.sum()))
