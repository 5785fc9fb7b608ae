"""Spearman's rank correlation."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..segments import Floats

__all__ = ["mean_ranks", "rank_correlation"]


def rank_correlation(a: Sequence[float], b: Sequence[float]) -> float | None:
    """Spearman's, ties by mean ranks; None where one side is constant."""
    x, y = mean_ranks(a), mean_ranks(b)
    x, y = x - x.mean(), y - y.mean()
    norm = float(np.sqrt((x @ x) * (y @ y)))
    return float(x @ y) / norm if norm else None


def mean_ranks(values: Sequence[float]) -> Floats:
    """1 for the least; equal values share the mean of their ranks."""
    _, place, count = np.unique(np.asarray(values, np.float64), return_inverse=True, return_counts=True)
    ranks: Floats = (np.cumsum(count) - (count - 1) / 2)[place]
    return ranks
