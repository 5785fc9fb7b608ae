"""Means over questions with percentile intervals, drawn within families, as the plan fixed them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from dare_reward.segments import Floats, Ints

DRAWS = 10_000


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

    def record(self, digits: int = 5) -> dict[str, Any]:
        return {
            k: None if isinstance(v, float) and not np.isfinite(v) else round(v, digits)
            for k, v in asdict(self).items()
        }


def draws(families: Sequence[str], *, count: int = DRAWS, seed: int = 0) -> Ints:
    """How often each question is in each draw, with replacement, as many of each family as there are. Shape [D, Q]."""
    rng, names = np.random.default_rng(seed), np.asarray(families)
    out = np.zeros((count, len(names)), np.int64)
    for family in sorted(set(families)):
        at = np.flatnonzero(names == family)
        out[:, at] = rng.multinomial(len(at), np.full(len(at), 1 / len(at)), size=count)
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
    level = means.round(12)
    beyond = min(int((level <= 0).sum()), int((level >= 0).sum()))
    p = min(1.0, 2 * (beyond + 1) / (len(means) + 1))
    return Resampled(float(values_Q[known].mean()), low, high, low90, high90, p, int(known.sum()))
