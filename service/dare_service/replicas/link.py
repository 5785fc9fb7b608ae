"""The side of a replica: one link to each owner.

Requests are sent in batches: one call is under way, and what comes meanwhile goes with the next. If the owner is lost,
everyone who waits is answered 503 and comes back. Then it waits here for the owner that takes the place.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
from collections.abc import Awaitable, Callable
from typing import Any

from dare_reward.errors import DareError

from .owner import BEAT, SPEAK, End, ShardReply, ShardRequest

__all__ = ["LostError", "ShardLink"]

PAUSE = 0.2  # seconds until a lost owner is looked for again


class LostError(DareError):
    """The owner has died, or has forgotten this replica."""


class ShardLink:
    """Talks to one owner for as long as the replica lives. `connect` finds it, wherever it is."""

    def __init__(self, replica: str, fingerprint: str, connect: Callable[[], Awaitable[Any]]) -> None:
        self._replica = replica
        self._fingerprint = fingerprint
        self._connect = connect
        self._numbers = itertools.count(SPEAK + 1)
        self._queue: list[ShardRequest | End] = []
        self._waiting: dict[int, asyncio.Future[ShardReply]] = {}
        self._wake = asyncio.Event()
        self._token = ""
        self._tasks: list[asyncio.Task[None]] = []
        self.remote: Any = None

    def start(self) -> None:
        if not self._tasks:
            self._tasks = [asyncio.ensure_future(self._always(step)) for step in (self._speak, self._listen)]

    def stop(self) -> None:
        for task in self._tasks:
            task.cancel()

    def ask(self, scope: dict[str, Any], body: bytes) -> tuple[int, asyncio.Future[ShardReply]]:
        """The request's number, and its answer or LostError. You `end` it in any case."""
        number, answer = next(self._numbers), asyncio.get_running_loop().create_future()
        self._waiting[number] = answer
        self._queue.append(ShardRequest(number, scope, body))
        self._wake.set()
        return number, answer

    def end(self, number: int, *, delivered: bool) -> None:
        self._waiting.pop(number, None)
        self._queue.append(End(number, delivered))
        self._wake.set()

    async def _always(self, step: Callable[[Any], Awaitable[None]]) -> None:
        while True:
            try:
                if self.remote is None:
                    self.remote = await self._connect()
                await step(self.remote)
            except Exception:  # noqa: BLE001  (whatever it is, the owner cannot be talked to)
                self.remote, self._token = None, ""
                self._lose(self._sent())
                await asyncio.sleep(PAUSE)

    async def _speak(self, remote: Any) -> None:
        """One call. An owner that was lost is sent nothing until it has given its token: who comes now waits for it."""
        batch: list[ShardRequest | End] = []
        if self._token:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(BEAT):
                    await self._wake.wait()
            self._wake.clear()
            batch, self._queue = self._queue, []
        before = self._sent() - {item.number for item in batch}
        try:
            token = await remote.exchange(self._replica, self._fingerprint, batch)
        except BaseException:
            self._queue[:0] = [item for item in batch if isinstance(item, End)]
            raise
        if token != self._token:
            self._token = token
            self._lose(before)
            self._wake.set()

    def _sent(self) -> set[int]:
        return set(self._waiting) - {item.number for item in self._queue}

    async def _listen(self, remote: Any) -> None:
        for number, answer in await remote.results(self._replica):
            if number == SPEAK:
                self._wake.set()
            elif answer is not None and (waiter := self._waiting.get(number)) is not None and not waiter.done():
                waiter.set_result(answer)

    def _lose(self, numbers: set[int]) -> None:
        """Nobody answers these any more. Should the owner still have them, it is told of their end."""
        for number in numbers:
            waiter = self._waiting.get(number)
            if waiter is not None and not waiter.done():
                waiter.set_exception(LostError())
