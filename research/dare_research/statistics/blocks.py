"""A relation over few points that come in blocks: bases of several regimes that grew from one trunk are one draw."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import permutations, product
from math import factorial, prod

import numpy as np

from dare_reward.analysis.auroc import group_ranks
from dare_reward.segments import Floats

MOST = 100_000  # arrangements or resamples that are enumerated
ROUNDING = 1e-9


def blocked_p(x: Sequence[float], y: Sequence[float], blocks: Sequence[int]) -> float:
    """Two-sided exact p of Spearman's rank correlation: y is permuted inside each block only.

    With b blocks of k points it cannot be below 1/(k!)^b. NaN for more than MOST arrangements, or without any spread.
    """
    first, second, block = mean_ranks(x), mean_ranks(y), np.asarray(blocks)
    places = [np.flatnonzero(block == b).tolist() for b in np.unique(block)]
    if prod(factorial(len(p)) for p in places) > MOST or len(first) < 2 or not first.std() * second.std():
        return np.nan
    centred = first - first.mean()
    observed = abs(float(second @ centred))
    found = [_covariance(centred, second, places, orders) for orders in product(*(permutations(p) for p in places))]
    return float(np.mean([abs(f) >= observed - ROUNDING for f in found]))


def mean_ranks(values: Sequence[float]) -> Floats:
    """1 for the least; equal values share the mean of their ranks."""
    return group_ranks(np.asarray(values, np.float64), np.zeros(len(values), np.int64), np.ones(len(values), bool))


def _covariance(
    centred: Floats, values: Floats, places: Sequence[Sequence[int]], orders: Sequence[Sequence[int]]
) -> float:
    """With the values of each place taken in another order."""
    return sum(float(centred[list(p)] @ values[list(o)]) for p, o in zip(places, orders, strict=True))


def break_even(x: Sequence[float], y: Sequence[float], blocks: Sequence[int]) -> tuple[float, float, float]:
    """Where the least-squares line of y on x crosses 0, with a 95% interval of a bootstrap over blocks.

    The bootstrap is exact: every draw of the blocks with replacement. NaN where the line is flat, or for many blocks.
    """
    first, second, block = np.asarray(x, float), np.asarray(y, float), np.asarray(blocks)
    names = np.unique(block)
    estimate = _crossing(first, second)
    if len(names) < 2 or len(names) ** len(names) > MOST:
        return estimate, np.nan, np.nan
    drawn = []
    for choice in product(names, repeat=len(names)):
        at = np.concatenate([np.flatnonzero(block == b) for b in choice])
        drawn.append(_crossing(first[at], second[at]))
    known = [d for d in drawn if not np.isnan(d)]
    low, high = np.quantile(known, [0.025, 0.975]) if known else (np.nan, np.nan)
    return estimate, float(low), float(high)


def _crossing(x: Floats, y: Floats) -> float:
    if len(x) < 2 or x.std() == 0:
        return np.nan
    slope, intercept = np.polyfit(x, y, 1)
    return float(-intercept / slope) if slope else np.nan
