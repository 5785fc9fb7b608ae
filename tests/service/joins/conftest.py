"""The service in process and on a socket."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from serving import Live, Local


@pytest.fixture
def asgi() -> Callable[..., Any]:
    """`async with asgi(setting=...) as (client, state)`: the application without a socket."""

    @contextlib.asynccontextmanager
    async def start(**settings: Any):
        local = Local(**settings)
        async with local.client() as client:
            yield client, local.state

    return start


@pytest.fixture
def live() -> Iterator[Callable[..., Live]]:
    """`live(setting=...)`: a running service."""
    with contextlib.ExitStack() as stack:
        yield lambda **settings: stack.enter_context(Live(**settings))
