"""A request that waits in a join: what ends the wait, said in HTTP."""

from __future__ import annotations

from typing import TypeVar

from fastapi import Request

from ..auth import stopping
from ..body import Disconnected
from ..problems import RefusalError
from .join import Arrival, Gone, Held, Join, Stopped

__all__ = ["waited"]

R = TypeVar("R")


async def waited(join: Join[R], arrival: Arrival, request: Request, *, hold: float) -> R:
    """The arrival's result, or RefusalError 503 after `hold` seconds and at a stop, or Disconnected."""
    try:
        return await join.wait(arrival, hold=hold, gone=_disconnect(request))
    except Held as held:
        raise RefusalError(503, f"{held}; come back", code="held", headers={"Retry-After": "1"}) from held
    except Gone:
        raise Disconnected from None
    except Stopped:
        raise stopping() from None


async def _disconnect(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass
