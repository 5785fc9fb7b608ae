"""Intervals by resampling prompts: the prompt is the unit that was drawn, its rollouts are not independent."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..segments import Floats

RESAMPLES = 2000
BLOCK = 1 << 22  # draws held at a time


@dataclass(frozen=True, slots=True)
class Interval:
    """An estimate with the ends of its interval; NaN where nothing could be estimated. `prompts` says from how many."""

    estimate: float
    low: float
    high: float
    prompts: int


NOTHING = Interval(np.nan, np.nan, np.nan, 0)


def mean_interval(values_P: Floats, *, level: float = 0.95, resamples: int = RESAMPLES, seed: int = 0) -> Interval:
    """Mean over the prompts whose value is not NaN, with a percentile bootstrap interval."""
    known = values_P[~np.isnan(values_P)]
    return ratio_interval(known, np.ones(len(known)), level=level, resamples=resamples, seed=seed)


def ratio_interval(
    numerator_P: Floats, weight_P: Floats, *, level: float = 0.95, resamples: int = RESAMPLES, seed: int = 0
) -> Interval:
    """sum(numerator)/sum(weight) over prompts, with a percentile bootstrap interval (Efron 1979).

    Resamples whose weights sum to 0 are left out.
    """
    count = len(weight_P)
    if not count or weight_P.sum() <= 0:
        return NOTHING
    rng = np.random.default_rng(seed)
    chunk = max(1, BLOCK // count)
    parts = []
    for start in range(0, resamples, chunk):
        drawn = rng.integers(count, size=(min(chunk, resamples - start), count))
        total = weight_P[drawn].sum(axis=1)
        parts.append(numerator_P[drawn].sum(axis=1)[total > 0] / total[total > 0])
    low, high = np.quantile(np.concatenate(parts), [(1 - level) / 2, (1 + level) / 2])
    return Interval(float(numerator_P.sum() / weight_P.sum()), float(low), float(high), count)
