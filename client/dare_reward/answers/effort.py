"""What one request may cost: steps of reading answers and of methods that compute much, counted from group to group.

A step is what `algebra` counts, about five microseconds. The count is the same on every machine and whatever the caches
hold.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence

from dare_reward.errors import LimitError

from .algebra.numbers import work


def _nothing() -> None:
    """Nobody watches."""


class Effort:
    """The work of one request, which is done in the thread that makes this.

    limit   steps; more is a LimitError
    watch   called now and then; raises where nobody waits for the result any more
    """

    def __init__(self, limit: int = sys.maxsize, watch: Callable[[], None] = _nothing) -> None:
        self._limit = limit
        self._begun = work.spent
        self.watch = watch

    def spend(self, steps: int, loc: Sequence[str | int]) -> None:
        """Before something is done for the place `loc` that takes so many steps."""
        work.spent += steps
        self.check(loc)

    def check(self, loc: Sequence[str | int]) -> None:
        """After something was done for the place `loc`."""
        self.watch()
        spent = work.spent - self._begun
        if spent > self._limit:
            raise LimitError(
                f"the request takes {spent} steps up to here; at most {self._limit} in one request: split it by group",
                loc=loc,
                code="steps",
            )
