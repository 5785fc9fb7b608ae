"""What labelled prompts show when they come back: whether accuracy fell or rose, and what was sharpened, learnt, lost.

Steps see different prompts, so their means differ by chance. Of a prompt whose accuracy stays, the difference between
two visits is as likely positive as negative. For each lag L = 1, 2, ..., 32 the visits of a prompt are paired, the j-th
with the (j + L)-th in blocks of 2 L, each in one pair, and a lag's differences are summed over prompts. Of values that
are as likely x as -x, with S their sum and V the sum of their squares,

    P(some t: |S_t| >= sqrt((V_t + r) (ln((V_t + r) / r) + 2 ln(1 / a)))) <= a

(the normal mixture of exp(l S - l^2 V / 2); de la Pena, Klass and Lai 2004), so one may look after every step. Sums
begin at once and again after 32, 64, 128, ... steps, so that a fall after a rise is seen. They share an error of .05.
"""

from __future__ import annotations

from array import array
from collections import OrderedDict
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from ..analysis.learnt import Learnt, Visit, learnt
from ..segments import Floats

FIRST_AGAIN: Final = 32  # steps until sums begin anew
ERROR: Final = 0.05
PRIOR: Final = 1.0  # r: the bound is tightest where V is of its order
LAGS: Final = (1, 2, 4, 8, 16, 32)
NEEDED: Final = 16  # prompts that were seen twice, before anything is said
PROMPTS: Final = 1 << 14  # that are remembered


@dataclass(frozen=True, slots=True)
class Change:
    """By how much later visits are more often right than earlier ones, over `pairs`.

    sure    it is no chance
    since   the step after which that was so, and stayed so
    """

    mean: float
    pairs: int
    sure: bool
    since: int | None = None


@dataclass(slots=True, eq=False)
class _History:
    """Of a prompt: its first and its last visit, and the accuracy of the last ones."""

    first: tuple[float, float]
    last: tuple[float, float] = (0.0, 0.0)
    visits: int = 0
    accuracies: array[float] = field(default_factory=lambda: array("d"))


@dataclass(slots=True, eq=False)
class Visits:
    """The labelled visits of prompts. A visit: the share of its rollouts that are right, and of its votes."""

    again: int = 0  # prompts that were seen twice
    sums: Floats = field(default_factory=lambda: np.zeros((0, len(LAGS), 3)))  # S, V, pairs, by beginning and lag
    _step: int | None = None  # the last one
    _steps: int = 0
    _seen: OrderedDict[int, _History] = field(default_factory=OrderedDict)
    _sign: int = 0  # of the change after the last whole step, 0 where it may be chance
    _since: int | None = None  # the step since when it has this sign

    def add(self, prompt: int, step: int, accuracy: float, vote: float) -> None:
        """Take a visit."""
        if step != self._step:
            self._begin(step)
        own = self._seen.pop(prompt, None) or _History((accuracy, vote))
        number, values = own.visits, own.accuracies
        for kind, lag in enumerate(LAGS):
            if number % (2 * lag) >= lag:
                change = accuracy - values[-lag]
                self.sums[:, kind] += change, change * change, 1.0
        self.again += number == 1
        values.append(accuracy)
        own.visits, own.accuracies, own.last = number + 1, values[-LAGS[-1] :], (accuracy, vote)
        self._seen[prompt] = own
        if len(self._seen) > PROMPTS:
            self._seen.popitem(last=False)

    def _begin(self, step: int) -> None:
        """Keep what is known after the steps before, and begin sums anew where it is time."""
        change = self.change
        self._sign, self._since = (_sign(change.mean), change.since) if change and change.sure else (0, None)
        self._step, self._steps, begun = step, self._steps + 1, len(self.sums)
        if not begun or self._steps > FIRST_AGAIN << (begun - 1):
            self.sums = np.concatenate([self.sums, np.zeros((1, len(LAGS), 3))])

    @property
    def change(self) -> Change | None:
        """The surest fall if there is one, else the surest change; None before NEEDED prompts were seen twice."""
        if self.again < NEEDED:
            return None
        begun = np.arange(1, len(self.sums) + 1)[:, None]
        log_odds = np.log(begun * (begun + 1) * len(LAGS) / ERROR)  # ln(1 / a)
        total, squares, pairs = self.sums.transpose(2, 0, 1)
        room = squares + PRIOR
        excess = np.abs(total) / np.sqrt(room * (np.log(room / PRIOR) + 2 * log_odds))
        falls = (total < 0) & (excess > 1)
        surest = np.argmax(np.where(falls if falls.any() else pairs > 0, excess, -1.0))
        mean, count = float(total.flat[surest] / pairs.flat[surest]), int(pairs.flat[surest])
        if excess.flat[surest] <= 1:
            return Change(mean, count, sure=False)
        since = self._since if _sign(mean) == self._sign else self._step
        return Change(mean, count, sure=True, since=since)

    @property
    def learnt(self) -> Learnt | None:
        """From the first to the last visit of the prompts that were seen twice; None if there are none."""
        again = [own for own in self._seen.values() if own.visits > 1]
        if not again:
            return None
        first, last = (np.array(rows).T for rows in zip(*((own.first, own.last) for own in again), strict=True))
        return learnt(Visit(*first), Visit(*last), once=len(self._seen) - len(again))


def _sign(value: float) -> int:
    return 1 if value > 0 else -1
