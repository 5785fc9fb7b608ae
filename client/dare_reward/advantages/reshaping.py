"""What follows an advantage: entropy-based reshaping (ETTRL, arXiv:2508.11356)."""

from __future__ import annotations

import numpy as np

from ..segments import Bools, Floats, Ints, owners


def ear(
    advantages_R: Floats,
    mean_entropy_R: Floats,
    sizes_P: Ints,
    *,
    trained_R: Bools | None = None,
    floor: float | None = 0.0,
) -> Floats:
    """A'_i = Y_i A_i, Y_i = 2 - H_i/H_mean, over the trained rollouts of a group; Y = 1 where H_mean is 0.

    The paper's Y is negative above twice the mean, and turns the advantage around: `floor` bounds it from below, None
    takes it literally. Groups that lack an entropy get NaN.
    """
    group_R = owners(sizes_P)
    counted_R = np.ones(len(group_R), bool) if trained_R is None else trained_R
    number_P = np.bincount(group_R, counted_R, minlength=len(sizes_P))
    total_P = np.bincount(group_R, np.where(counted_R, mean_entropy_R, 0.0), minlength=len(sizes_P))
    mean_R = (total_P / np.maximum(number_P, 1))[group_R]
    known_R = np.isnan(mean_R) | (mean_R > 0)
    factor_R = 2 - np.divide(mean_entropy_R, mean_R, out=np.ones(len(group_R)), where=known_R)
    if floor is not None:
        factor_R = np.maximum(factor_R, floor)
    out: Floats = advantages_R * factor_R
    return out
