"""Siblings: the members of one prompt's group inside one actor, and the one reward that they wait for.

OpenRLHF runs the n samples of a prompt as n concurrent `execute` calls with one `sampling_params` object, and Ray
unpickles a fresh one per call, so that object is the group's identity; two copies of a prompt in a batch stay apart.
All members start before any of them waits for anything, so after one turn of the event loop their number is final.

A group closes when each member has delivered or has left. A member that fails takes the group with it: siblings that
wait get the fallback, siblings that still generate are cancelled, so that nothing runs on after OpenRLHF was told of
the failure.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Hashable, Sequence
from typing import Any, Generic, TypeVar

from dare_reward.errors import DareError

T = TypeVar("T")
R = TypeVar("R")


class SiblingError(DareError, RuntimeError):
    """Another member of the group failed before this one was done."""


class _OpenGroup(Generic[T, R]):
    def __init__(self, anchor: object) -> None:
        self.anchor = anchor  # keeps id(anchor) from being used again while the group lives
        self.members = 0
        self.delivered: dict[int, T] = {}
        self.generating: dict[int, asyncio.Future[T]] = {}
        self.scoring: asyncio.Future[Sequence[R]] | None = None
        self.result: asyncio.Future[Sequence[R] | None] = asyncio.get_running_loop().create_future()

    @property
    def failed(self) -> bool:
        return self.result.done() and self.result.exception() is None and self.result.result() is None

    def fail(self) -> None:
        """Wake the siblings that wait, stop those that generate."""
        if not self.result.done():
            self.result.set_result(None)
        for task in self.generating.values():
            task.cancel()
        if self.scoring is not None:
            self.scoring.cancel()


class Siblings(Generic[T, R]):
    """One per actor.

    score     the closed group's deliveries, in the order in which the members started, to one result for each
    fallback  the result for a delivery whose group lost a member; must not fail
    """

    def __init__(
        self, score: Callable[[Sequence[T]], Coroutine[Any, Any, Sequence[R]]], fallback: Callable[[T], R]
    ) -> None:
        self._score = score
        self._fallback = fallback
        self._open: dict[Hashable, _OpenGroup[T, R]] = {}

    def __len__(self) -> int:
        """Groups that are open; 0 between two steps."""
        return len(self._open)

    async def run(
        self, anchor: object, key: Hashable, generate: Callable[[int], Coroutine[Any, Any, T]]
    ) -> tuple[T, R]:
        """As one member: `generate(members)` delivers, the result is what `score` gave for it."""
        identity = (id(anchor), key)
        group = self._open.setdefault(identity, _OpenGroup(anchor))
        index = group.members
        group.members += 1
        try:
            delivery = await self._deliver(group, index, generate)
            if len(group.delivered) == group.members and not group.result.done():
                self._open.pop(identity, None)
                await self._close(group)
            results = await asyncio.shield(group.result)
        except BaseException:
            self._open.pop(identity, None)
            group.fail()
            raise
        return delivery, self._fallback(delivery) if results is None else results[index]

    async def _deliver(
        self, group: _OpenGroup[T, R], index: int, generate: Callable[[int], Coroutine[Any, Any, T]]
    ) -> T:
        await asyncio.sleep(0)
        if group.failed:
            raise SiblingError("another rollout of the group failed")
        task = group.generating[index] = asyncio.ensure_future(generate(group.members))
        try:
            group.delivered[index] = await task
        except asyncio.CancelledError:
            if group.failed and not _being_cancelled():
                raise SiblingError("another rollout of the group failed; this one was stopped") from None
            raise
        finally:
            group.generating.pop(index, None)
            await _stop(task)
        return group.delivered[index]

    async def _close(self, group: _OpenGroup[T, R]) -> None:
        delivered = [group.delivered[i] for i in range(group.members)]
        # A task of its own: scoring may generate further votes, which end with the group like everything else of it.
        task = group.scoring = asyncio.ensure_future(self._score(delivered))
        try:
            results = await task
        except asyncio.CancelledError:
            if group.failed and not _being_cancelled():
                return  # a sibling left: everybody who waits has the fallback
            raise
        except Exception as error:  # noqa: BLE001  (siblings must not wait for ever, whatever it is)
            if not group.result.done():
                group.result.set_exception(error)
            return
        finally:
            await _stop(task)
        if not group.result.done():
            group.result.set_result(results)


async def together(first: Coroutine[Any, Any, T], others: Sequence[Coroutine[Any, Any, T]]) -> list[T | BaseException]:
    """All results; a failure of `first` is raised, one of the others stands in the list. Nothing runs on afterwards."""
    tasks = [asyncio.ensure_future(c) for c in (first, *others)]
    try:
        leading = await tasks[0]
        trailing = await asyncio.gather(*tasks[1:], return_exceptions=True)
    finally:
        for task in tasks:
            await _stop(task)
    return [leading, *trailing]


async def _stop(task: asyncio.Future[Any]) -> None:
    if not task.done():
        task.cancel()
        await asyncio.wait([task])


def _being_cancelled() -> bool:
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0
