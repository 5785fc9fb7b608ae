"""Means that may be looked at after every step: is one of them other than 0 by more than chance?

Of values that are as likely x as -x, with S their sum and V the sum of their squares,

    P(some t: |S_t| >= sqrt((V_t + r) (ln((V_t + r) / r) + 2 ln(1 / a)))) <= a

(the normal mixture of exp(l S - l^2 V / 2); de la Pena, Klass and Lai 2004). Sums begin at once and again after 32, 64,
128, ... steps, so that a fall after a rise is seen. They share an error of .05.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from math import log, sqrt
from typing import Final

FIRST_AGAIN: Final = 32  # steps until sums begin anew
ERROR: Final = 0.05
PRIOR: Final = 1.0  # r: the bound is tightest where V is of its order


@dataclass(slots=True)
class BoundedSum:
    """From one beginning; `log_odds` is ln(1 / a)."""

    log_odds: float
    total: float = 0.0
    squares: float = 0.0
    count: int = 0

    def add(self, value: float) -> None:
        self.total += value
        self.squares += value * value
        self.count += 1

    @property
    def mean(self) -> float:
        return self.total / self.count

    @property
    def bound(self) -> float:
        """What |S| exceeds by chance at some time with a probability of a."""
        room = self.squares + PRIOR
        return sqrt(room * (log(room / PRIOR) + 2 * self.log_odds))

    @property
    def excess(self) -> float:
        """How far |S| lies beyond its bound, as a ratio; above 1 it is no chance."""
        return abs(self.total) / self.bound


@dataclass(slots=True, eq=False)
class Beginnings:
    """Sums of several kinds of values at once: `sums[b][kind]` from the b-th beginning."""

    kinds: int = 1
    sums: list[list[BoundedSum]] = field(default_factory=list)
    step: int | None = None  # the last one
    _steps: int = 0

    def at(self, step: int) -> bool:
        """Values of this step follow; whether it is another one than before."""
        if step == self.step:
            return False
        self.step, self._steps = step, self._steps + 1
        begun = len(self.sums)
        if not begun or self._steps > FIRST_AGAIN << (begun - 1):
            odds = log((begun + 1) * (begun + 2) * self.kinds / ERROR)
            self.sums.append([BoundedSum(odds) for _ in range(self.kinds)])
        return True

    def add(self, value: float, kind: int = 0) -> None:
        for kinds in self.sums:
            kinds[kind].add(value)
