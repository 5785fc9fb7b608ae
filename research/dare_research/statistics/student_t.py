"""Student's t without SciPy, for the few degrees of freedom that a handful of bases leaves."""

from __future__ import annotations

import math
from functools import lru_cache

from mpmath import mp

__all__ = ["t_cdf", "t_quantile"]

BISECTIONS = 60


@lru_cache(maxsize=1024)
def t_cdf(t: float, df: int) -> float:
    """P(T <= t) = 1 - I_x(df/2, 1/2)/2 for t >= 0, x = df/(df + t^2) (Abramowitz and Stegun 26.7.1)."""
    tail = 0.5 * float(mp.betainc(df / 2, 0.5, 0, df / (df + t * t), regularized=True))
    return 1 - tail if t >= 0 else tail


@lru_cache(maxsize=256)
def t_quantile(probability: float, df: int) -> float:
    """The t below which `probability` of the mass lies, by bisection; odd in 1/2 - probability."""
    if probability < 0.5:
        return -t_quantile(1 - probability, df)
    low, high = 0.0, 1.0
    while t_cdf(high, df) < probability and high < math.inf:
        low, high = high, 2 * high
    for _ in range(BISECTIONS):
        middle = (low + high) / 2
        low, high = (middle, high) if t_cdf(middle, df) < probability else (low, middle)
    return (low + high) / 2
