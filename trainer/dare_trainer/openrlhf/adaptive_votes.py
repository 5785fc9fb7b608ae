"""Votes in waves: after the trained rollouts, more votes only while those so far do not suffice (docs/stopping.md).

The decision is made in this process: no request, so nothing on the way to the service can change how many votes a group
has. Whatever fails here costs generation, never a label: the group then gets all of its votes.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass
from typing import Any

from dare_reward.votes import Waves, votes_suffice

from .rollout_reader import ReadRollout
from .settings import GroupSettings
from .siblings import stop

logger = logging.getLogger("dare_trainer")

Group = Any  # as `POST /v1/reward` takes it
One = Callable[[], Coroutine[Any, Any, ReadRollout]]


@dataclass(frozen=True, slots=True)
class Spent:
    """Votes that were not asked for, and the risk that was taken with that."""

    saved: int = 0
    risk: float = 0.0


class AdaptiveVotes:
    """How this run asks for votes."""

    def __init__(self, settings: GroupSettings, waves: Waves) -> None:
        self._settings = settings
        self._waves = waves

    async def complete(
        self, first: Sequence[ReadRollout], ones: Sequence[One], group_of: Callable[[Sequence[ReadRollout]], Group]
    ) -> tuple[list[ReadRollout], Spent]:
        """The rollouts of a group with its votes. `first` are the trained ones, `ones` generate one more each."""
        votes, asked = list(first), len(first)
        while asked < self._waves.votes:
            more, risk = await self._wanted(group_of(votes))
            if not more:
                return votes, Spent(self._waves.votes - asked, risk)
            more = min(more, self._waves.votes - asked)
            wave = await self._wave([ones[(asked + i) % len(ones)]() for i in range(more)])
            votes, asked = [*votes, *wave], asked + more
        return votes, Spent()

    async def _wanted(self, group: Group) -> tuple[int, float]:
        """Votes of the next wave, and the risk of doing without."""
        options: dict[str, Any] = {"method": self._settings.method, "waves": self._waves}
        try:
            wanted = await asyncio.to_thread(votes_suffice, group, self._settings.params, **options)
        except Exception:
            logger.exception("group %s: how many votes it needs cannot be told; it gets all", group.get("group_id"))
            return self._waves.votes, 0.0
        return wanted.more, wanted.risk

    async def _wave(self, wave: Sequence[Coroutine[Any, Any, ReadRollout]]) -> list[ReadRollout]:
        """The rollouts of one wave, in the order in which they were begun. Nothing runs on afterwards."""
        tasks = [asyncio.ensure_future(one) for one in wave]
        try:
            await asyncio.wait(tasks)
        finally:
            for task in tasks:
                await stop(task)
        lost = [task.exception() for task in tasks if task.exception() is not None]
        if lost:
            logger.warning("%d of %d vote-only rollouts failed: %r", len(lost), len(tasks), lost[0])
        return [task.result() for task in tasks if task.exception() is None]
