"""How large a difference must be for a study of so many bases and seeds to show it, from pilot pairs."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import stdtrit

from .contrasts import Nested

DETECTABLE = 2.8  # z(.975) + z(.8): two-sided 5 per cent, power 80 per cent


@dataclass(frozen=True, slots=True)
class Spread:
    """Variance components of the means of pairs. `between`: of bases, None from a single one; `within`: of seeds."""

    between: float | None
    within: float


def spread(differences: Nested) -> Spread | None:
    """One-way analysis of variance with unequal sizes (Searle, Casella and McCulloch 1992, 3.6), not below 0.

    within = MS_w, between = (MS_b - MS_w)/n0, n0 = (N - sum n_i^2/N)/(bases - 1). Prompts are not split off: their
    draw is part of a base's mean, since its seeds share them. None unless some base has two seeds.
    """
    means = [np.array([seed.mean() for seed in base]) for base in differences if len(base)]
    sizes = np.array([len(base) for base in means])
    if not len(sizes) or sizes.max() < 2:
        return None
    total, bases = int(sizes.sum()), len(sizes)
    within = float(sum(((base - base.mean()) ** 2).sum() for base in means) / (total - bases))
    if bases < 2:
        return Spread(None, within)
    centre = float(np.concatenate(means).mean())
    mean_square = float(sum(len(base) * (base.mean() - centre) ** 2 for base in means) / (bases - 1))
    size = (total - float((sizes**2).sum()) / total) / (bases - 1)
    return Spread(max(0.0, (mean_square - within) / size), within)


def minimum_detectable(found: Spread, *, bases: int, seeds: int, few: bool = False) -> float:
    """The difference that `bases` x `seeds` pairs show with 80 per cent power in a two-sided test at 5 per cent.

    2.8 sqrt(between/bases + within/(bases seeds)); with `few` the factor is t(.975) + t(.8) on bases - 1 degrees of
    freedom, for the test over the means of bases. An unknown variance between bases counts as 0: a lower bound.
    """
    error = np.sqrt((found.between or 0.0) / bases + found.within / (bases * seeds))
    factor = stdtrit(bases - 1, 0.975) + stdtrit(bases - 1, 0.8) if few else DETECTABLE
    return float(factor * error)
