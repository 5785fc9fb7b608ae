"""Whether accuracy fell or rose, by the earlier visits of the same prompts.

Steps see different prompts, so their means differ by chance. Of a prompt whose accuracy stays, the difference between
two visits is as likely positive as negative. For each lag L = 1, 2, ..., 32 the visits of a prompt are paired, the j-th
with the (j + L)-th in blocks of 2 L, each in one pair. With S the sum of the differences of all prompts and V that of
their squares, for independent symmetric differences,

    P(some t: |S_t| >= sqrt((V_t + r) (ln((V_t + r) / r) + 2 ln(1 / a)))) <= a

(the normal mixture of exp(l S - l^2 V / 2); de la Pena, Klass and Lai 2004). So one may look after every step. Sums
begin at once and again after 32, 64, 128, ... steps, so that a fall after a rise is seen; lags and beginnings
share an error of .05.
"""

from __future__ import annotations

from array import array
from collections import OrderedDict
from dataclasses import dataclass, field
from math import log, sqrt
from typing import Final

LAGS: Final = (1, 2, 4, 8, 16, 32)
FIRST_AGAIN: Final = 32  # steps until sums begin anew
ERROR: Final = 0.05
PRIOR: Final = 1.0  # r: the bound is tightest where V is of its order
NEEDED: Final = 16  # prompts that were seen twice, before anything is said
PROMPTS: Final = 1 << 14  # that are remembered


@dataclass(frozen=True, slots=True)
class Change:
    """By how much later visits are more often right than earlier ones, over `pairs`; `sure` where it is no chance."""

    mean: float
    pairs: int
    sure: bool


@dataclass(slots=True)
class _Sums:
    """Of one lag from one beginning; `log_odds` is ln(1 / a)."""

    log_odds: float
    total: float = 0.0
    squares: float = 0.0
    pairs: int = 0

    def add(self, difference: float) -> None:
        self.total += difference
        self.squares += difference * difference
        self.pairs += 1

    @property
    def excess(self) -> float:
        """How far |S| lies beyond its bound, as a ratio; above 1 it is no chance."""
        room = self.squares + PRIOR
        return abs(self.total) / sqrt(room * (log(room / PRIOR) + 2 * self.log_odds))


@dataclass(slots=True, eq=False)
class Visits:
    """The labelled visits of a run's prompts."""

    again: int = 0  # prompts that were seen twice
    _seen: OrderedDict[int, tuple[int, array[float]]] = field(default_factory=OrderedDict)
    _sums: list[list[_Sums]] = field(default_factory=list)  # of each beginning, a lag each
    _steps: int = 0
    _last: int | None = None

    def add(self, prompt: int, step: int, accuracy: float) -> None:
        """A visit: the share of its rollouts that are right."""
        if step != self._last:
            self._last, self._steps = step, self._steps + 1
            begun = len(self._sums)
            if not begun or self._steps > FIRST_AGAIN << (begun - 1):
                odds = log((begun + 1) * (begun + 2) * len(LAGS) / ERROR)
                self._sums.append([_Sums(odds) for _ in LAGS])
        number, values = self._seen.pop(prompt, (0, array("d")))
        for place, lag in enumerate(LAGS):
            if number % (2 * lag) >= lag:
                difference = accuracy - values[-lag]
                for sums in self._sums:
                    sums[place].add(difference)
        self.again += number == 1
        values.append(accuracy)
        self._seen[prompt] = number + 1, values[-LAGS[-1] :]
        if len(self._seen) > PROMPTS:
            self._seen.popitem(last=False)

    @property
    def change(self) -> Change | None:
        """The surest fall if there is one, else the surest change; None before NEEDED prompts were seen twice."""
        if self.again < NEEDED:
            return None
        every = [sums for own in self._sums for sums in own if sums.pairs]
        falls = [sums for sums in every if sums.total < 0 and sums.excess > 1]
        surest = max(falls or every, key=lambda sums: sums.excess)
        return Change(surest.total / surest.pairs, surest.pairs, surest.excess > 1)
