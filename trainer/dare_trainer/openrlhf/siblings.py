"""The members of one prompt's group inside one actor, and the results that they wait for together.

OpenRLHF runs the n samples of a prompt as n concurrent calls with one `sampling_params` object, and Ray unpickles a
fresh one for each prompt. So that object is the group's identity: equal prompts of a batch, and two jobs, stay apart.
All members enter before any of them waits for anything; after one turn of the event loop their number is final.

A member that fails takes its group along: siblings that wait get None, siblings that still generate are stopped, so
that nothing generates on for a group that is dead.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Hashable, Sequence
from contextlib import suppress
from typing import Any, Generic, TypeVar

from dare_reward.errors import DareError

logger = logging.getLogger("dare_trainer")

T = TypeVar("T")
D = TypeVar("D")
R = TypeVar("R")


class SiblingError(DareError, RuntimeError):
    """Another member of the group failed before this one was done."""


class OpenGroup(Generic[D, R]):
    """A group some of whose members still run; `results` is None where one of them failed."""

    def __init__(self, anchor: object, place: tuple[Hashable, ...]) -> None:
        self.anchor = anchor  # keeps id(anchor) from being used again while the group lives
        self.place = place
        self.members = 0
        self.delivered: dict[int, D] = {}
        self.running: set[asyncio.Future[Any]] = set()
        self.results: asyncio.Future[Sequence[R] | None] = asyncio.get_running_loop().create_future()

    def fail(self) -> None:
        """Wake the members that wait, and stop those that generate; nothing where the results are there."""
        if not self.results.done():
            self.results.set_result(None)
            for task in self.running:
                task.cancel()

    async def run(self, work: Callable[[], Awaitable[T]]) -> T:
        """What a member's `work` returns; SiblingError where it was stopped because another member failed."""
        await asyncio.sleep(0)  # until all members have entered
        if self.results.done():
            raise SiblingError("another rollout of the group failed")
        task: asyncio.Future[T] = asyncio.ensure_future(work())
        self.running.add(task)
        try:
            return await task
        except asyncio.CancelledError:
            current = asyncio.current_task()
            if self.results.done() and current is not None and not current.cancelling():
                raise SiblingError("another rollout of the group failed; this one was stopped") from None
            raise
        finally:
            self.running.discard(task)


class Siblings(Generic[D, R]):
    """The groups of one executor. `score` returns one result per delivery, in the members' order, and never fails."""

    def __init__(self, score: Callable[[Sequence[D]], Awaitable[Sequence[R]]]) -> None:
        self._score = score
        self.open: dict[tuple[Hashable, ...], OpenGroup[D, R]] = {}  # none between two steps

    def enter(self, anchor: object, *key: Hashable) -> tuple[OpenGroup[D, R], int]:
        """The group that shares the object `anchor`, and which of its members this one is; to be called before anything
        is awaited."""
        place = (id(anchor), *key)
        if place not in self.open:
            self.open[place] = OpenGroup(anchor, place)
        group = self.open[place]
        group.members += 1
        return group, group.members - 1

    def leave(self, group: OpenGroup[D, R]) -> None:
        """The end of a member's call. One that ends before the results are there takes its group along."""
        if self.open.get(group.place) is group:
            del self.open[group.place]
        group.fail()

    async def result(self, group: OpenGroup[D, R], index: int, delivery: D) -> R | None:
        """The member's result, None where a sibling failed. The last one to deliver has the group scored."""
        group.delivered[index] = delivery
        if len(group.delivered) == group.members:
            deliveries = [group.delivered[i] for i in range(group.members)]
            with suppress(SiblingError):  # of a group that has failed, whose results are None
                # Of the group, and stopped with it: scoring may generate further votes.
                found = await group.run(lambda: self._score(deliveries))
                if not group.results.done():
                    group.results.set_result(found)
                group.delivered.clear()
        results = await asyncio.shield(group.results)
        return None if results is None else results[index]


async def together(works: Sequence[Callable[[], Awaitable[T]]], *, needed: int = 0) -> list[T]:
    """What they return, in order, without those that fail; the failure of one of the first `needed` is raised.

    Nothing of them runs on after this.
    """
    tasks = [asyncio.ensure_future(work()) for work in works]
    try:
        for task in tasks[:needed]:
            await task
        found = await asyncio.gather(*tasks, return_exceptions=True)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)
    if lost := [one for one in found if isinstance(one, BaseException)]:
        logger.warning("%d of %d vote-only rollouts failed: %r", len(lost), len(tasks) - needed, lost[0])
    return [one for one in found if not isinstance(one, BaseException)]
