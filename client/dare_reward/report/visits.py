"""What labelled prompts show when they come back: each prompt's first visit beside its last one.

Steps see different prompts, so their means differ by chance; a prompt is compared with itself. A change is sure where
it is more than SURE of its standard errors: a page looks after every step, and of so many looks some pass 2 by chance.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, field
from math import sqrt
from typing import Final

import numpy as np

from ..analysis.bootstrap import Interval
from ..analysis.learnt import Learnt, Visit, learnt

SURE: Final = 4
NEEDED: Final = 16  # prompts that were seen twice, before anything is said
PROMPTS: Final = 1 << 14  # that are remembered
ROUNDING: Final = 1e-9

Seen = tuple[float, float]  # at a visit, the share of a prompt's rollouts that were right, and of its votes


@dataclass(frozen=True, slots=True)
class Change:
    """From the first to the last visits of prompts: the mean, with the 95% interval that one look would have.

    sign    0 where it may be chance
    since   the step after which it was sure, and stayed so
    """

    gain: Interval
    sign: int
    since: int | None


@dataclass(slots=True, eq=False)
class Visits:
    """The labelled visits of prompts."""

    again: int = 0  # prompts that were seen twice
    _sum: float = 0.0  # of their changes, and of the squares of these
    _squares: float = 0.0
    _seen: OrderedDict[int, tuple[Seen, Seen | None]] = field(default_factory=OrderedDict)  # the first and the last one
    _step: int | None = None  # the last one
    _before: Change | None = None  # after the last whole step

    def add(self, prompt: int, step: int, seen: Seen) -> None:
        """Take a visit."""
        if step != self._step:
            self._before, self._step = self.change, step
        if (first := self._forget(prompt)) is not None:
            self.again += 1
            self._sum += seen[0] - first[0]
            self._squares += (seen[0] - first[0]) ** 2
        self._seen[prompt] = (seen, None) if first is None else (first, seen)
        if len(self._seen) > PROMPTS:
            self._forget(next(iter(self._seen)))

    def _forget(self, prompt: int) -> Seen | None:
        """Leave a prompt out; its first visit, if there was one."""
        first, last = self._seen.pop(prompt, (None, None))
        if first is not None and last is not None:
            self.again -= 1
            self._sum -= last[0] - first[0]
            self._squares -= (last[0] - first[0]) ** 2
        return first

    @property
    def change(self) -> Change | None:
        """None before NEEDED prompts were seen twice."""
        if self.again < NEEDED:
            return None
        mean = self._sum / self.again
        error = sqrt(max(self._squares / self.again - mean**2, 0.0) / (self.again - 1))
        sign = 0 if abs(mean) <= max(SURE * error, ROUNDING) else 1 if mean > 0 else -1
        before = self._before if self._before and self._before.sign == sign else None
        since = (before.since if before else self._step) if sign else None
        return Change(Interval(mean, mean - 1.96 * error, mean + 1.96 * error, self.again), sign, since)

    @property
    def learnt(self) -> Learnt | None:
        """From the first to the last visit of the prompts that were seen twice; None if there are none."""
        again = [own for own in self._seen.values() if own[1] is not None]
        if not again:
            return None
        first, last = np.array(again).transpose(1, 2, 0)
        return learnt(Visit(*first), Visit(*last), once=len(self._seen) - len(again))
