"""Ranks, and Spearman's rank correlation."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..segments import Bools, Floats, Ints, offsets


def rank_correlation(a: Sequence[float], b: Sequence[float]) -> float | None:
    """Spearman's, ties by mean ranks; None where one side is constant."""
    x, y = mean_ranks(a), mean_ranks(b)
    x, y = x - x.mean(), y - y.mean()
    norm = float(np.sqrt((x @ x) * (y @ y)))
    return float(x @ y) / norm if norm else None


def mean_ranks(values: Sequence[float]) -> Floats:
    """1 for the least; equal values share the mean of their ranks."""
    return group_ranks(np.asarray(values, np.float64), np.zeros(len(values), np.int64), np.ones(len(values), bool))


def group_ranks(values_N: Floats, group_N: Ints, among_N: Bools) -> Floats:
    """The rank of each value in its group, among those that count: 1 for the least, ties by mean ranks; 0 elsewhere."""
    place = np.flatnonzero(among_N & ~np.isnan(values_N))
    place = place[np.lexsort((values_N[place], group_N[place]))]
    value, group = values_N[place], group_N[place]
    first = np.ones(len(place), bool)
    first[1:] = (value[1:] != value[:-1]) | (group[1:] != group[:-1])
    low = np.flatnonzero(first)
    high = np.append(low[1:], len(place))
    begin = offsets(np.bincount(group))[group]
    out = np.zeros(len(values_N))
    out[place] = ((low + high + 1) / 2)[np.cumsum(first) - 1] - begin
    return out
