"""Reward services that misbehave."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Iterator
from typing import Any

from serving import answering
from stack_samples import INFO, replied


@contextlib.contextmanager
def forged(change: Callable[[dict[str, Any]], Any] = lambda reply: reply) -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """A service whose replies go through `change`; yields its address and the bodies it got."""
    bodies: list[dict[str, Any]] = []

    def reply(handler: Any, content: bytes) -> tuple[int, bytes]:
        if handler.command == "GET":
            return 200, json.dumps(INFO).encode()
        bodies.append(json.loads(content))
        return 200, replied(bodies[-1], handler.headers["x-request-id"], change)

    with answering(reply) as url:
        yield url, bodies


def short(reply: dict[str, Any]) -> dict[str, Any]:
    """One reward too few."""
    reply["groups"][0]["rewards"].pop()
    return reply
