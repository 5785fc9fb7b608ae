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

from dare_reward.methods import find
from dare_reward.votes import Waves, label_is_certain, votes_suffice

from .config import AgentConfig
from .rollout_reader import ReadRollout

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

    def __init__(self, config: AgentConfig, waves: Waves) -> None:
        self._config = config
        self._params = config.every_param
        self._waves = waves
        self._abort = config.abort == "settled" and find(config.method).ballots is not None

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
            wave = await self._wave([ones[(asked + i) % len(ones)]() for i in range(more)], votes, group_of)
            votes, asked = [*votes, *wave], asked + more
        return votes, Spent()

    async def _wanted(self, group: Group) -> tuple[int, float]:
        """Votes of the next wave, and the risk of doing without."""
        waves = self._waves
        try:
            options: dict[str, Any] = {"method": self._config.method, "waves": waves}
            wanted = await asyncio.to_thread(votes_suffice, group, self._params, **options)
        except Exception:
            logger.exception("group %s: how many votes it needs cannot be told; it gets all", group.get("group_id"))
            return waves.votes, 0.0
        return wanted.more, wanted.risk

    async def _wave(
        self,
        wave: Sequence[Coroutine[Any, Any, ReadRollout]],
        votes: Sequence[ReadRollout],
        group_of: Callable[[Sequence[ReadRollout]], Group],
    ) -> list[ReadRollout]:
        """The rollouts of one wave, in the order in which they were begun. Nothing runs on afterwards."""
        tasks = [asyncio.ensure_future(one) for one in wave]
        try:
            if self._abort:
                await self._until_certain(tasks, votes, group_of)
            else:
                await asyncio.wait(tasks)
        finally:
            running = [task for task in tasks if not task.done()]
            for task in running:
                task.cancel()
            if running:
                await asyncio.wait(running)
        lost = [task.exception() for task in tasks if not task.cancelled() and task.exception() is not None]
        if lost:
            logger.warning("%d of %d vote-only rollouts failed: %r", len(lost), len(tasks), lost[0])
        return [task.result() for task in tasks if not task.cancelled() and task.exception() is None]

    async def _until_certain(
        self,
        tasks: Sequence[asyncio.Future[ReadRollout]],
        votes: Sequence[ReadRollout],
        group_of: Callable[[Sequence[ReadRollout]], Group],
    ) -> None:
        """Until all are done, or no outcome of the votes to come can change the label."""
        waiting: set[asyncio.Future[ReadRollout]] = set(tasks)
        while waiting:
            _, waiting = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
            done = [t.result() for t in tasks if t.done() and not t.cancelled() and t.exception() is None]
            if waiting and await self._certain(group_of([*votes, *done])):
                return

    async def _certain(self, group: Group) -> bool:
        options: dict[str, Any] = {"method": self._config.method, "votes": self._waves.votes}
        try:
            return await asyncio.to_thread(label_is_certain, group, self._params, **options)
        except Exception:
            logger.exception("group %s: its wave is not cut short", group.get("group_id"))
            return False
