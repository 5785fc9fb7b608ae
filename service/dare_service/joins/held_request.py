"""A request that waits in a join: what ends the wait, said in HTTP."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Self, TypeVar

from fastapi import Request

from ..body import Disconnected
from ..problems import RefusalError, stopping
from ..receipts import EXTENSION
from .join import Arrival, ClientSide, Full, Gone, Held, Join, Stopped

__all__ = ["HeldError", "waited"]

R = TypeVar("R", bound="bytes")


class HeldError(RefusalError):
    """503 after the hold; `group` is the one that did not fill."""

    def __init__(self, held: Held) -> None:
        self.group = held.group
        super().__init__(503, f"{held}; come back", code="held", headers={"Retry-After": "1"})


async def waited(join: Join[R], arrival: Arrival, request: Request, *, hold: float) -> R:
    """The arrival's result, or HeldError after `hold` seconds, RefusalError at a stop, or Disconnected."""
    receipt: ClientSide | None = request.scope.get("extensions", {}).get(EXTENSION)
    try:
        if receipt is not None:
            return await join.wait(arrival, hold=hold, receipt=receipt)
        with _Disconnects(request) as asgi:
            return await join.wait(arrival, hold=hold, receipt=asgi)
    except Held as held:
        raise HeldError(held) from None
    except Full:
        detail = "the memory for waiting rollouts is full (DARE_JOIN_MEMORY); try again"
        raise RefusalError(503, detail, code="memory", headers={"Retry-After": "1"}) from None
    except Gone:
        raise Disconnected from None
    except Stopped:
        raise stopping() from None


class _Disconnects:
    """The receipt where the server gives none, as in process: a result that is handed on counts as delivered."""

    def __init__(self, request: Request) -> None:
        self._request = request
        self._task: asyncio.Task[None] | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._task is not None:
            self._task.cancel()

    def open(self) -> bool:
        return True

    def watch(self, ended: Callable[[bool], None]) -> None:
        self._task = asyncio.ensure_future(self._until_the_end())
        self._task.add_done_callback(lambda _: ended(True))

    async def _until_the_end(self) -> None:
        while (await self._request.receive())["type"] != "http.disconnect":
            pass
