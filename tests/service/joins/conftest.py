"""The service in process and on a socket."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Coroutine, Iterator
from typing import Any

import httpx
import pytest
from serving import Live, told

from dare_service.app import create_app
from dare_service.settings import Settings

LOGS = "dare_service"


@pytest.fixture
def asgi() -> Callable[..., Any]:
    """`async with asgi(setting=...) as (client, state)`: the application without a socket."""

    @contextlib.asynccontextmanager
    async def start(**settings: Any):
        app = create_app(Settings(**{"page": "off", "join_runs": "any", **settings}))
        app.state.dare.openrlhf.join.began = float("-inf")  # the service has been up for a while
        async with httpx.AsyncClient(transport=httpx.ASGITransport(told(app)), base_url="http://test") as client:
            yield client, app.state.dare

    return start


@pytest.fixture
def until() -> Callable[[Callable[[], bool]], Coroutine[Any, Any, None]]:
    """`await until(condition)`, however long a busy machine takes."""

    async def wait(condition: Callable[[], bool]) -> None:
        async with asyncio.timeout(120):
            while not condition():  # noqa: ASYNC110  the condition is not ours to signal
                await asyncio.sleep(0.005)

    return wait


@pytest.fixture
def live() -> Iterator[Callable[..., Live]]:
    """`live(setting=...)`: a running service."""
    with contextlib.ExitStack() as stack:
        yield lambda **settings: stack.enter_context(Live(**settings))
