"""The process: uvicorn with our stop. SIGTERM turns /ready to 503, finishes what is in flight and exits 0."""

from __future__ import annotations

import asyncio
import gc
import logging
import resource
import socket
import sys
import time
from types import FrameType

import uvicorn

from .app import State, create_app
from .middleware import JSONLines, logger
from .receipts import Connection, notice_the_dead
from .settings import Settings, SettingsError

__all__ = ["serve"]

ENOUGH_FILES = 10_240  # a step of 128 prompts x 64 rollouts, and the rest


class Server(uvicorn.Server):
    """uvicorn closes its port at once on SIGTERM and then dies of the signal again; both look like a crash outside."""

    def __init__(self, config: uvicorn.Config, state: State) -> None:
        super().__init__(config)
        self.state = state
        self.stop_at = float("inf")

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Say where once the port takes connections, not before."""
        await super().startup(sockets)
        for listener in sockets or []:
            print(f"dare-reward listens on {_address(listener)}", flush=True)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:  # noqa: ARG002
        """The first signal starts draining, a second one ends it."""
        self.stop_at = 0.0 if self.state.draining else time.monotonic() + self.state.settings.drain
        self.state.draining = True

    async def on_tick(self, counter: int) -> bool:
        if self.state.draining:
            self.state.stop_joins()
        if time.monotonic() >= self.stop_at:
            self.should_exit = True
        return await super().on_tick(counter)


def serve(settings: Settings) -> int:
    """Bind, say where, and serve until told to stop."""
    _log(settings)
    app = create_app(settings)
    _steady()
    config = uvicorn.Config(
        app,
        http=Connection,
        log_config=None,
        access_log=False,
        timeout_keep_alive=75,
        timeout_graceful_shutdown=int(settings.grace),
        backlog=settings.backlog,
        server_header=False,
    )
    _open_files()
    listener = _bind(settings)
    server = Server(config, app.state.dare)
    gc.freeze()  # what is loaded now lives for ever: a collection during a request need not look at it again
    with asyncio.Runner(loop_factory=config.get_loop_factory()) as runner:
        runner.run(server.serve(sockets=[listener]))
    return 0 if server.started else 3


def _steady() -> None:
    """Waiting rollouts must not be scanned for garbage again and again, nor held up by a thread with numbers.

    Measured with 4,096 rollouts of 64 groups: Python's own thresholds double the CPU time and take the slowest reward
    from 40 to 140 ms. A young collection costs a millisecond, an old one comes after a million objects.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(10_000, 100, 10)
    sys.setswitchinterval(1e-3)


def _open_files() -> None:
    """Every waiting rollout holds a socket: take all that the process may have, and say if a step may not fit."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    unlimited = resource.RLIM_INFINITY
    if soft != hard:
        soft = hard if hard != unlimited else 1 << 20
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    if soft != unlimited and soft < ENOUGH_FILES:
        why = "one socket per waiting rollout: prompts x samples of a step must stay below it; raise ulimit -n"
        logger.warning("open_files", extra={"fields": {"limit": soft, "why": why}})


def _bind(settings: Settings) -> socket.socket:
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    listener = socket.socket(family)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        notice_the_dead(listener)
        listener.bind((settings.host, settings.port))
        listener.listen(settings.backlog)
    except OSError as error:
        listener.close()
        raise SettingsError(f"cannot listen on {settings.host}:{settings.port}: {error.strerror}") from None
    return listener


def _address(listener: socket.socket) -> str:
    host, port = listener.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def _log(settings: Settings) -> None:
    level = {"info": logging.INFO, "error": logging.ERROR, "off": logging.CRITICAL + 1}[settings.log]
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JSONLines())
    logger.handlers[:] = [handler]
    logger.setLevel(level)
    logger.propagate = False
    logging.getLogger("uvicorn.error").setLevel(logging.WARNING)
