"""Virtual time, and the service in process and on a socket."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import threading
import time
from collections.abc import Callable, Coroutine, Iterator
from typing import Any, Self

import httpx
import pytest
import uvicorn
from virtual_time import VirtualLoop

from dare_service.app import State, create_app
from dare_service.settings import Settings
from dare_service.uvicorn_connection import Connection

LOGS = "dare_service"


@pytest.fixture
def virtual() -> Callable[[Coroutine[Any, Any, Any]], Any]:
    """Run a coroutine in virtual time."""

    def run(main: Coroutine[Any, Any, Any]) -> Any:
        with asyncio.Runner(loop_factory=VirtualLoop) as runner:
            return runner.run(main)

    return run


@pytest.fixture
def asgi() -> Callable[..., Any]:
    """`async with asgi(setting=...) as (client, state)`: the application without a socket."""

    @contextlib.asynccontextmanager
    async def start(**settings: Any):
        app = create_app(Settings(**{"page": "off", "join_runs": "any", **settings}))
        app.state.dare.openrlhf.join.began = float("-inf")  # the service has been up for a while
        async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://test") as client:
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


class Live:
    """A service on a loopback socket, in a thread."""

    def __init__(self, settings: Settings) -> None:
        self.app = create_app(settings)
        self.state: State = self.app.state.dare
        self.state.openrlhf.join.began = float("-inf")  # it has been up for a while
        self.listener = socket.create_server(("127.0.0.1", 0), backlog=4096)
        self.url = f"http://127.0.0.1:{self.listener.getsockname()[1]}"
        config = uvicorn.Config(self.app, http=Connection, log_config=None, access_log=False, lifespan="off")
        self.server = uvicorn.Server(config)
        self.thread = threading.Thread(target=lambda: asyncio.run(self.server.serve(sockets=[self.listener])))

    def __enter__(self) -> Self:
        self.thread.start()
        while not self.server.started:
            assert self.thread.is_alive()
            time.sleep(0.005)
        return self

    def __exit__(self, *_: object) -> None:
        self.server.should_exit = True
        self.thread.join(60)
        self.listener.close()
        assert not self.thread.is_alive()


@pytest.fixture
def live() -> Iterator[Callable[..., Live]]:
    """`live(setting=...)`: a running service."""
    with contextlib.ExitStack() as stack:
        yield lambda **settings: stack.enter_context(
            Live(Settings(**{"log": "off", "page": "off", "join_runs": "any", **settings}))
        )
