"""Intervals by resampling prompts: the prompt is the unit that was drawn, its rollouts are not independent."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from ..segments import Floats

RESAMPLES = 2000
LEVEL = 0.95
BLOCK = 1 << 22  # draws held at a time


@dataclass(frozen=True, slots=True)
class Interval:
    """An estimate with the ends of its interval; NaN where nothing could be estimated. `prompts` says from how many."""

    estimate: float
    low: float
    high: float
    prompts: int


NOTHING = Interval(np.nan, np.nan, np.nan, 0)


def mean_interval(values_P: Floats, *, resamples: int = RESAMPLES, seed: int = 0) -> Interval:
    """Mean over the prompts whose value is not NaN, with a percentile bootstrap interval."""
    known = values_P[~np.isnan(values_P)]
    return ratio_interval(known, np.ones(len(known)), resamples=resamples, seed=seed)


def ratio_interval(numerator_P: Floats, weight_P: Floats, *, resamples: int = RESAMPLES, seed: int = 0) -> Interval:
    """sum(numerator)/sum(weight) over prompts, with a percentile bootstrap interval (Efron 1979).

    Resamples whose weights sum to 0 are left out.
    """
    count = len(weight_P)
    if not count or weight_P.sum() <= 0:
        return NOTHING
    few = count * resamples <= BLOCK
    parts = []
    for times_SP in _times(count, resamples, seed) if few else _draws(count, resamples, seed):
        total_S = times_SP @ weight_P
        parts.append((times_SP @ numerator_P)[total_S > 0] / total_S[total_S > 0])
    low, high = np.quantile(np.concatenate(parts), [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    return Interval(float(numerator_P.sum() / weight_P.sum()), float(low), float(high), count)


@lru_cache(maxsize=2)
def _times(count: int, resamples: int, seed: int) -> tuple[Floats, ...]:
    """`_draws`, kept: a command asks dozens of intervals of the same prompts."""
    return tuple(_draws(count, resamples, seed))


def _draws(count: int, resamples: int, seed: int) -> Iterator[Floats]:
    """How often each resample holds each prompt."""
    rng = np.random.default_rng(seed)
    chunk = max(1, BLOCK // count)
    for start in range(0, resamples, chunk):
        rows = min(chunk, resamples - start)
        drawn = rng.integers(count, size=(rows, count)) + np.arange(rows)[:, None] * count
        yield np.bincount(drawn.ravel(), minlength=rows * count).reshape(rows, count).astype(np.float64)
