"""What one request may cost: steps of reading answers, counted from group to group.

A step is what `algebra` counts, about five microseconds. The count is the same on every machine and whatever the cache
of answers holds.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence

from dare_reward.errors import LimitError

from .algebra.numbers import work

__all__ = ["Effort"]


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

    def check(self, loc: Sequence[str | int]) -> None:
        """After something was done for the place `loc`."""
        self.watch()
        spent = work.spent - self._begun
        if spent > self._limit:
            raise LimitError(
                f"the answers up to here take {spent} steps to read; at most {self._limit} in one request "
                "(DARE_MAX_REQUEST_STEPS): split it by group",
                loc=loc,
                code="steps",
            )
