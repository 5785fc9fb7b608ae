"""Whether accuracy fell or rose, by the earlier visits of the same prompts.

Steps see different prompts, so their means differ by chance. Of a prompt whose accuracy stays, the difference between
two visits is as likely positive as negative. For each lag L = 1, 2, ..., 32 the visits of a prompt are paired, the j-th
with the (j + L)-th in blocks of 2 L, each in one pair. A lag's differences are summed over prompts (`anytime`).
"""

from __future__ import annotations

from array import array
from collections import OrderedDict
from dataclasses import dataclass, field
from typing import Final

from .anytime import Beginnings

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
class Visits:
    """The labelled visits of a run's prompts."""

    again: int = 0  # prompts that were seen twice
    sums: Beginnings = field(default_factory=lambda: Beginnings(len(LAGS)))
    _seen: OrderedDict[int, tuple[int, array[float]]] = field(default_factory=OrderedDict)
    _sign: int = 0  # of the change after the last whole step, 0 where it may be chance
    _since: int | None = None  # the step since when it has this sign

    def add(self, prompt: int, step: int, accuracy: float) -> None:
        """A visit: the share of its rollouts that are right."""
        before = self.sums.step
        if before is not None and step != before:
            change = self.change
            self._sign, self._since = (_sign(change.mean), change.since) if change and change.sure else (0, None)
        self.sums.at(step)
        number, values = self._seen.pop(prompt, (0, array("d")))
        for kind, lag in enumerate(LAGS):
            if number % (2 * lag) >= lag:
                self.sums.add(accuracy - values[-lag], kind)
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
        every = [sums for kinds in self.sums.sums for sums in kinds if sums.count]
        falls = [sums for sums in every if sums.total < 0 and sums.excess > 1]
        surest = max(falls or every, key=lambda sums: sums.excess)
        if surest.excess <= 1:
            return Change(surest.mean, surest.count, sure=False)
        since = self._since if _sign(surest.mean) == self._sign else self.sums.step
        return Change(surest.mean, surest.count, sure=True, since=since)


def _sign(value: float) -> int:
    return 1 if value > 0 else -1
