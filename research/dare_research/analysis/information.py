"""Information that a reward carries about being right."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dare_reward.segments import Floats, Ints


@dataclass(frozen=True, slots=True)
class Information:
    """I(R; X) and what it is compared with.

    nats, bits    plug-in estimate sum p ln(p/(p_r p_x))
    corrected     the same minus Miller and Madow's first-order bias (r - 1)(c - 1)/(2N), in nats; may be negative
    share         I/H(R): 1 if X tells everything. R is a function of the answer Y, so I(R; Y) = H(R)
    entropy       H(R) in nats
    """

    nats: float
    bits: float
    corrected: float
    share: float
    entropy: float


def entropy(weights: Floats) -> float:
    """-sum p ln p in nats of non-negative weights, normalised."""
    p = weights[weights > 0] / weights.sum()
    return float(-(p * np.log(p)).sum())


def quantile_bins(x_N: Floats, weights_N: Floats, bins: int) -> Ints:
    """Bin of each value: cut at the interior weighted quantiles, equal values together; each value its own if few.

    A value goes into the bin in which the middle of its tied block lies.
    """
    values, place = np.unique(x_N, return_inverse=True)
    if len(values) <= bins:
        return place.astype(np.int64)
    mass = np.bincount(place, weights_N, minlength=len(values))
    middle = (np.cumsum(mass) - mass / 2) / mass.sum()
    bin_V: Ints = np.minimum((middle * bins).astype(np.int64), bins - 1)
    return bin_V[place]


def mutual_information(
    truth_N: NDArray[Any], x_N: NDArray[Any], weights_N: NDArray[Any] | None = None, *, bins: int = 24
) -> Information:
    """I(R; X) of 0/1 truth and an estimator's values; continuous values are cut into `bins` quantile bins.

    truth_N    0 or 1, shape [N]
    x_N        reward or advantage, shape [N]
    weights_N  how often each pair occurred, default once

    Raw rewards pooled over prompts are credited for knowing which prompts are easy, which group normalisation erases:
    report I(R; A) with group-normalised advantages A beside I(R; r). `bins` bounds what is seen of X from above, and
    small samples overstate it (`corrected`).
    """
    weights = np.ones(len(x_N)) if weights_N is None else np.asarray(weights_N, np.float64)
    right = (np.asarray(truth_N) > 0).astype(np.int64)
    column = quantile_bins(np.asarray(x_N, np.float64), weights, bins)
    joint = np.bincount(right * (int(column.max(initial=0)) + 1) + column, weights)
    joint = np.pad(joint, (0, 2 * (int(column.max(initial=0)) + 1) - len(joint))).reshape(2, -1)
    rows, columns, total = joint.sum(axis=1), joint.sum(axis=0), joint.sum()
    if total <= 0:
        return Information(np.nan, np.nan, np.nan, np.nan, np.nan)
    full = joint > 0
    expected = np.outer(rows, columns) / total
    nats = max(float((joint[full] * np.log(joint[full] / expected[full])).sum() / total), 0.0)
    excess = (int((rows > 0).sum()) - 1) * (int((columns > 0).sum()) - 1) / (2 * total)
    whole = entropy(rows)
    return Information(nats, nats / float(np.log(2)), nats - excess, nats / whole if whole > 0 else np.nan, whole)
