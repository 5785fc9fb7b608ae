"""The receipt of a request: evidence that its reply arrived, as a server gives it.

ASGI says that a reply was written, not that it arrived. A server that can tell more (`uvicorn_connection.py`) leaves a
receipt in each request's scope, under `extensions[EXTENSION]`. Evidence of delivery is that after the reply

* the client closed the connection in order, and its kernel has acknowledged every byte: one that closes with bytes
  unread, or before they arrive, resets the connection or acknowledges nothing;
* or the next request came on the same connection;
* or the connection was idle until the service closed it, with every byte acknowledged.

A proxy that has read the reply looks like a client that has it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Self

from fastapi import Request

EXTENSION = "dare.receipt"


class ASGIReceipt:
    """What ASGI alone tells, as in process: a result that is handed on counts as delivered."""

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
