"""Waiting for one's siblings: asyncio around `rendezvous.py`, still without HTTP.

    join = Join(score, stale=30, keep=120)
    result = await join.wait(arrival, hold=170, gone=future)

`score` gets a closed group and returns one result per slot; it runs once per group. The clock is the event loop's, or
the one that is given.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Generic, Protocol, TypeVar

from dare_reward.errors import DareError

from .rendezvous import Arrival, Conflict, Group, Reason, Rendezvous, Slot

__all__ = ["Arrival", "Conflict", "Gone", "Group", "Held", "Join", "Observer", "Slot", "Stopped"]

R = TypeVar("R")


class Held(DareError):  # noqa: N818  (an outcome of waiting)
    """The group did not fill while the request was held; the rollout keeps its place."""

    def __init__(self, group: Group) -> None:
        self.group = group
        super().__init__(f"{len(group.slots)} of {group.size} rollouts have arrived")


class Gone(DareError):  # noqa: N818
    """The client went away; the rollout keeps its place for a while."""


class Stopped(DareError):  # noqa: N818
    """The service stops."""


class Observer(Protocol):
    """What the join tells of itself."""

    def closed(self, group: Group) -> None:
        """A group closed; `group.reason` says why."""

    def scored(self, group: Group, seconds: float) -> None:
        """Its results are there, that long after it closed."""

    def expired(self, groups: int) -> None:
        """Groups were dropped because all of their clients stayed away."""


class Join(Generic[R]):
    """Requests wait here until their group is scored."""

    def __init__(
        self,
        score: Callable[[Group], Awaitable[Sequence[R]]],
        *,
        stale: float,
        keep: float,
        observer: Observer,
        clock: Callable[[], float] = time.monotonic,
        tick: float = 0.5,
    ) -> None:
        self._score = score
        self._observer = observer
        self._clock = clock
        self._tick = tick
        self._timer: asyncio.TimerHandle | None = None
        self._scoring: dict[Group, asyncio.Task[None]] = {}
        self._stopped = False
        self.groups = Rendezvous(stale=stale, keep=keep)
        self.waiting = 0

    async def wait(self, arrival: Arrival, *, hold: float, gone: Awaitable[Any]) -> R:
        """The arrival's result.

        hold   seconds to wait; then Held, unless this is the client's last try: then its group closes as it is
        gone   done when the client is
        Raises Conflict, Held, Gone or Stopped, and what `score` raises.
        """
        left = asyncio.ensure_future(gone)
        try:
            return await self._wait(arrival, hold, left)
        finally:
            left.cancel()

    async def _wait(self, arrival: Arrival, hold: float, left: asyncio.Future[Any]) -> R:
        if self._stopped:
            raise Stopped
        group, slot = self.groups.arrive(arrival, self._clock())
        promise = self._watch(group)
        self.waiting += 1
        delivered = False
        try:
            await asyncio.wait((promise, left), timeout=hold, return_when=asyncio.FIRST_COMPLETED)
            if not promise.done() and not left.done() and _last_try(slot):
                self._close(group, "patience")
                await asyncio.wait((promise, left), return_when=asyncio.FIRST_COMPLETED)
            if left.done():
                raise Gone
            if not promise.done():
                raise Held(group)
            results = promise.result()
            delivered = True
            return results[group.slots.index(slot)]
        finally:
            self.waiting -= 1
            self.groups.leave(group, slot, self._clock(), delivered=delivered)

    def stop(self) -> None:
        """Everyone who waits is told at once, and nobody is let in. What is being scored is finished."""
        self._stopped = True
        for group in self.groups:
            if group.reason is None and not group.promise.done():
                _fail(group.promise, Stopped())
        if self._timer is not None:
            self._timer.cancel()

    def _watch(self, group: Group) -> asyncio.Future[Sequence[R]]:
        """The group's promise; scoring begins if it is full."""
        loop = asyncio.get_running_loop()
        if group.promise is None:
            group.promise = loop.create_future()
        if group.reason is not None and not group.promise.done():
            self._begin(group)
        if self._timer is None:
            self._timer = loop.call_later(self._tick, self._sweep)
        promise: asyncio.Future[Sequence[R]] = group.promise
        return promise

    def _close(self, group: Group, reason: Reason) -> None:
        if group.reason is None:
            self.groups.close(group, reason, self._clock())
            self._begin(group)

    def _begin(self, group: Group) -> None:
        if group not in self._scoring:
            self._scoring[group] = asyncio.ensure_future(self._settle(group))

    async def _settle(self, group: Group) -> None:
        self._observer.closed(group)
        try:
            results = await self._score(group)
        except Exception as error:  # noqa: BLE001  (it is the waiters' error, each of them gets it)
            self.groups.drop(group)
            _fail(group.promise, error)
        else:
            group.promise.set_result(results)
            self._observer.scored(group, self._clock() - group.closed_at)
        finally:
            del self._scoring[group]

    def _sweep(self) -> None:
        now = self._clock()
        if gone := self.groups.sweep(now):
            self._observer.expired(gone)
        for group in self.groups.due(now):
            self._close(group, "deadline")
        idle = not self.waiting and next(iter(self.groups), None) is None
        self._timer = None if idle else asyncio.get_running_loop().call_later(self._tick, self._sweep)


def _last_try(slot: Slot) -> bool:
    patience = slot.arrival.patience
    return patience is not None and slot.tries >= patience


def _fail(promise: asyncio.Future[Any], error: Exception) -> None:
    promise.set_exception(error)
    promise.exception()  # retrieved: it may be that nobody is left to see it
