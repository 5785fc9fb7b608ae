"""A request that waits in a join: what ends the wait, said in HTTP."""

from __future__ import annotations

from typing import TypeVar

from fastapi import Request

from ..body import Disconnected
from ..problems import RefusalError, stopping
from .delivery.receipts import EXTENSION, ASGIReceipt
from .join import ClientSide, Gone, Held, Join, Stopped
from .rendezvous import Arrival, Full

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
        with ASGIReceipt(request) as asgi:
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
