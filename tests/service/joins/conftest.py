"""Time that passes only when everybody waits, and the service in process and on a socket."""

from __future__ import annotations

import asyncio
import contextlib
import selectors
import socket
import threading
from collections.abc import Callable, Coroutine, Iterator
from typing import Any, Self

import httpx
import pytest
import uvicorn

from dare_service.app import State, create_app
from dare_service.receipts import Connection
from dare_service.settings import Settings

LOGS = "dare_service"


class VirtualLoop(asyncio.SelectorEventLoop):
    """An event loop whose clock jumps to the next timer instead of sleeping."""

    def __init__(self) -> None:
        self.now = 0.0
        super().__init__(_Selector(self))

    def time(self) -> float:
        return self.now


class _Selector(selectors.SelectSelector):
    def __init__(self, loop: VirtualLoop) -> None:
        super().__init__()
        self.loop = loop

    def select(self, timeout: float | None = None) -> Any:
        if timeout is None:
            raise RuntimeError("everybody waits and no timer is set: a deadlock")
        self.loop.now += timeout
        return super().select(0)


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
        app = create_app(Settings(**settings))
        app.state.dare.openrlhf.join.began = float("-inf")  # the service has been up for a while
        async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://test") as client:
            yield client, app.state.dare

    return start


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
        return self

    def __exit__(self, *_: object) -> None:
        self.server.should_exit = True
        self.thread.join(10)
        self.listener.close()
        assert not self.thread.is_alive()


@pytest.fixture
def live() -> Iterator[Callable[..., Live]]:
    """`live(setting=...)`: a running service."""
    with contextlib.ExitStack() as stack:
        yield lambda **settings: stack.enter_context(Live(Settings(**{"log": "off", **settings})))
