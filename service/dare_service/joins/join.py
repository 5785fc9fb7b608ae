"""Waiting for one's siblings: asyncio around `rendezvous.py`, still without HTTP.

    join = Join(score, stale=30, keep=900, observer=observer)
    result = await join.wait(arrival, hold=170, receipt=receipt)

`score` gets a closed group and returns one result per slot; it runs once per group. The receipt tells how the client
fares, also after the result was returned: only a result that has arrived is delivered. The clock is the event loop's,
or the one that is given.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence, Sized
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

from dare_reward.errors import DareError

from .rendezvous import Arrival, JoiningGroup, Reason, Rendezvous, Slot

R = TypeVar("R", bound=Sized)

PAUSE = 1.0  # seconds between a client's tries


class Held(DareError):  # noqa: N818  (an outcome of waiting)
    """The group did not fill, or was not scored, while the request was held; the rollout keeps its place."""

    def __init__(self, group: JoiningGroup) -> None:
        self.group = group
        waits = "" if len(group.slots) < group.size else ", and their rewards are not ready"
        super().__init__(f"{len(group.slots)} of {group.size} rollouts have arrived{waits}")


class Gone(DareError):  # noqa: N818
    """The client went away; the rollout keeps its place for a while."""


class Stopped(DareError):  # noqa: N818
    """The service stops."""


class ClientSide(Protocol):
    """The client's side of one request."""

    def open(self) -> bool:
        """False: the client has closed its connection, whether or not anybody was told."""

    def watch(self, ended: Callable[[bool], None]) -> None:
        """Call `ended` once, when it is known how the request ended: with evidence that the client has a reply?"""


class Observer(Protocol):
    """What the join tells of itself."""

    def closed(self, group: JoiningGroup) -> None:
        """A group closed; `group.reason` says why, `group.fate` where its rewards come from."""

    def scored(self, group: JoiningGroup, seconds: float) -> None:
        """Its results are there, that long after it closed."""

    def expired(self, groups: int) -> None:
        """Groups were dropped because all of their clients stayed away."""


@dataclass(frozen=True, slots=True)
class Scored(Generic[R]):
    """results: one per slot; middle: what a sibling gets that comes too late, if there is such a thing."""

    results: Sequence[R]
    middle: R | None = None


class Join(Generic[R]):
    """Requests wait here until their group is scored."""

    def __init__(
        self,
        score: Callable[[JoiningGroup], Awaitable[Scored[R]]],
        *,
        stale: float,
        keep: float,
        observer: Observer,
        memory: float = float("inf"),
        clock: Callable[[], float] = time.monotonic,
        tick: float = 0.5,
    ) -> None:
        self._score = score
        self._observer = observer
        self._clock = clock
        self._tick = tick
        self._timer: asyncio.TimerHandle | None = None
        self._scoring: dict[JoiningGroup, asyncio.Task[None]] = {}
        self._stopped = False
        self.groups = Rendezvous(stale=stale, keep=keep, memory=memory)
        self.waiting = 0
        self.began = clock()

    async def wait(self, arrival: Arrival, *, hold: float, receipt: ClientSide) -> R:
        """The arrival's result.

        hold   seconds to wait; then Held, unless the client may have no try left: then its group closes as it is
        Raises Conflict, Full, Held, Gone or Stopped, and what `score` raises.
        """
        if self._stopped:
            raise Stopped
        if not receipt.open():  # the client has given up, and its next try brings the vote
            raise Gone
        attempt = _Attempt(self.groups, *self.groups.arrive(arrival, self._clock()), self._clock)
        promise = self._watch(attempt.group)
        receipt.watch(attempt.end)
        self.waiting += 1
        try:
            result = await self._result(attempt, promise, hold)
        except BaseException:
            attempt.end(delivered=False)
            raise
        finally:
            self.waiting -= 1
        return result

    async def _result(self, attempt: _Attempt, promise: asyncio.Future[Sequence[R]], hold: float) -> R:
        group = attempt.group
        await attempt.until(promise, hold)
        waits = not promise.done() and not attempt.ended
        if waits and (self._last_try(attempt) or self.groups.leftover(group)):
            self._close(group, "patience")
            await attempt.until(promise)
        if attempt.ended:
            raise Gone
        if not promise.done():
            raise Held(group)
        results = promise.result()
        attempt.answered = True
        return results[group.slots.index(attempt.slot)]

    def _last_try(self, attempt: _Attempt) -> bool:
        """Who came in the first seconds has tries behind it that another process saw."""
        patience = attempt.slot.arrival.patience
        if patience is None:
            return False
        return attempt.slot.tries >= patience or attempt.slot.arrived < self.began + patience * PAUSE

    def stop(self) -> None:
        """Everyone who waits is told at once, and nobody is let in. What is being scored is finished."""
        self._stopped = True
        for group in self.groups:
            if group.reason is None and not group.promise.done():
                _fail(group.promise, Stopped())
        if self._timer is not None:
            self._timer.cancel()

    def _watch(self, group: JoiningGroup) -> asyncio.Future[Sequence[R]]:
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

    def _close(self, group: JoiningGroup, reason: Reason) -> None:
        if group.reason is None:
            self.groups.close(group, reason, self._clock())
            self._begin(group)

    def _begin(self, group: JoiningGroup) -> None:
        if group not in self._scoring:
            self._scoring[group] = asyncio.ensure_future(self._settle(group))

    async def _settle(self, group: JoiningGroup) -> None:
        self._observer.closed(group)
        try:
            scored = await self._scored(group)
        except Exception as error:  # noqa: BLE001  (it is the waiters' error, each of them gets it)
            self.groups.drop(group)
            _fail(group.promise, error)
        else:
            self.groups.keep_results(group, scored.results, scored.middle)
            group.promise.set_result(scored.results)
            self._observer.scored(group, self._clock() - group.closed_at)
        finally:
            del self._scoring[group]

    async def _scored(self, group: JoiningGroup) -> Scored[R]:
        """By `score`, or what an earlier group of the same key says."""
        if group.fate == "scored":
            return await self._score(group)
        recalled = self.groups.recalled(group)
        if None not in recalled:
            return Scored(recalled)
        neutral = (await self._score(group)).results
        return Scored([neutral[i] if found is None else found for i, found in enumerate(recalled)])

    def _sweep(self) -> None:
        swept = self.groups.sweep(self._clock())
        if swept.expired:
            self._observer.expired(swept.expired)
        for group in swept.due:
            self._close(group, "deadline")
        idle = not self.waiting and not self.groups
        self._timer = None if idle else asyncio.get_running_loop().call_later(self._tick, self._sweep)


class _Attempt:
    """One request on its slot, from its arrival until it is known how it ended."""

    __slots__ = ("_clock", "_groups", "_turn", "answered", "ended", "group", "slot")

    def __init__(self, groups: Rendezvous, group: JoiningGroup, slot: Slot, clock: Callable[[], float]) -> None:
        self._groups = groups
        self._clock = clock
        self._turn: asyncio.Future[None] | None = None
        self.group = group
        self.slot = slot
        self.answered = False
        self.ended = False

    async def until(self, promise: asyncio.Future[Sequence[R]], hold: float | None = None) -> None:
        """Wait until the promise is kept, the request has ended or `hold` seconds are over.

        As `asyncio.wait` would, at a third of its cost: every rollout waits here.
        """
        if promise.done() or self.ended:
            return
        loop = asyncio.get_running_loop()
        self._turn = loop.create_future()
        promise.add_done_callback(self._wake)
        timer = None if hold is None else loop.call_later(hold, self._wake)
        try:
            await self._turn
        finally:
            if timer is not None:
                timer.cancel()
            promise.remove_done_callback(self._wake)

    def _wake(self, _: object = None) -> None:
        if self._turn is not None and not self._turn.done():
            self._turn.set_result(None)

    def end(self, delivered: bool) -> None:
        """The first call counts. At once, not when the waiter wakes: the client's next try may be in the same turn."""
        if self.ended:
            return
        self.ended = True
        self._groups.leave(self.group, self.slot, self._clock(), delivered=delivered and self.answered)
        self._wake()


def _fail(promise: asyncio.Future[object], error: Exception) -> None:
    promise.set_exception(error)
    promise.exception()  # retrieved: it may be that nobody is left to see it
