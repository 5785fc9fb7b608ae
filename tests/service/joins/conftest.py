"""The service in process and on a socket."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import httpx
import pytest
from serving import Live, told

from dare_service.app import create_app
from dare_service.settings import Settings


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
def live() -> Iterator[Callable[..., Live]]:
    """`live(setting=...)`: a running service."""
    with contextlib.ExitStack() as stack:
        yield lambda **settings: stack.enter_context(Live(**settings))
