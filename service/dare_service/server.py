"""The process: uvicorn with our stop. SIGTERM turns /ready to 503, finishes what is in flight and exits 0.

systemd, or whoever speaks its protocol, hands it a socket, which stays open while the service is away, so that
connections wait for the next process in place of being refused.
"""

from __future__ import annotations

import asyncio
import errno
import gc
import ipaddress
import logging
import math
import os
import resource
import signal
import socket
import sys
import threading
import time
from collections.abc import Mapping, MutableMapping
from dataclasses import asdict
from types import FrameType
from typing import Final

import uvicorn
from fastapi import FastAPI

from dare_reward import __version__

from .app import State, create_app
from .log import JSONLines, logger
from .settings import SECRET, Settings, SettingsError, unread
from .uvicorn_connection import Connection, notice_the_dead

ENOUGH_FILES: Final = 10_240  # a step of 128 prompts x 64 rollouts, and the rest
HANDED_OVER: Final = 3  # the first descriptor that a supervisor hands over
FAMILIES: Final = {socket.AF_INET, socket.AF_INET6, socket.AF_UNIX}


def inherited(environment: MutableMapping[str, str] = os.environ, *, first: int = HANDED_OVER) -> socket.socket | None:
    """The listening socket that the supervisor holds for this process, or None. SettingsError if it is none to use.

    The variables are removed, as no child of this process is meant.
    """
    count, pid = environment.pop("LISTEN_FDS", ""), environment.pop("LISTEN_PID", "")
    environment.pop("LISTEN_FDNAMES", None)
    if not count or pid != str(os.getpid()):
        return None
    if count != "1":
        raise SettingsError(
            f"the supervisor hands over {count[:8]} sockets (LISTEN_FDS), and the service takes one: "
            "leave one ListenStream= in the .socket unit"
        )
    try:
        listener = socket.socket(fileno=first)
    except OSError as error:
        raise SettingsError(f"LISTEN_FDS=1, but descriptor {first} is no socket: {error.strerror}") from None
    why = ""
    if listener.family not in FAMILIES or listener.type != socket.SOCK_STREAM:
        why = "is no TCP and no Unix stream socket: use ListenStream="
    elif not listener.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN):
        why = "does not listen: use ListenStream= and Accept=no"
    if why:
        listener.close()
        raise SettingsError(f"the supervisor's socket {why}")
    listener.set_inheritable(False)
    return listener


class Server(uvicorn.Server):
    """uvicorn closes its port at once on SIGTERM and then dies of the signal again; both look like a crash outside."""

    def __init__(self, config: uvicorn.Config, state: State, *, held: bool) -> None:
        super().__init__(config)
        self.state = state
        self.drain = 0.0 if held else state.settings.drain  # a held socket keeps who comes now for the next process
        self.stop_at = float("inf")

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Say where once the port takes connections, not before; what may be amiss comes after that."""
        self.state.openrlhf.join.began = time.monotonic()  # who waited for the port has tries behind it
        await super().startup(sockets)
        for listener in sockets or []:
            print(f"dare-reward listens on {address(listener)}", flush=True)
            _log_start(self.state, address(listener))
            _warn(self.state.settings, listener, self.state)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:  # noqa: ARG002
        """The first signal starts draining, a second one ends at once."""
        self.force_exit = self.state.draining
        self.stop_at = 0.0 if self.state.draining else time.monotonic() + self.drain
        self.state.draining = True

    async def on_tick(self, counter: int) -> bool:
        if self.state.draining:
            self.state.openrlhf.join.stop()
        if time.monotonic() >= self.stop_at:
            self.should_exit = True
        return await super().on_tick(counter)


def serve(settings: Settings) -> int:
    """Take the supervisor's socket or bind one, say where, and serve until told to stop."""
    signal.signal(signal.SIGHUP, signal.SIG_IGN)  # a terminal that closes ends no training
    app = create_app(settings)
    held = inherited()
    listener = bind(settings) if held is None else held
    ready_the_process(settings)  # from here on it is a server's: what a wrong setting ends has changed nothing
    config = configured(app)
    if held is not None:
        _adopt(held, settings)
    server = Server(config, app.state.dare, held=held is not None)
    began = time.monotonic()
    gc.freeze()  # what is loaded now lives for ever: a collection during a request need not look at it again
    with asyncio.Runner(loop_factory=config.get_loop_factory()) as runner:
        runner.run(server.serve(sockets=[listener]))
    logger.info("stop", extra={"fields": {"seconds": round(time.monotonic() - began, 3)}})
    code = 0 if server.started else 3
    _end_threads(app.state.dare, code)
    return code


def configured(app: FastAPI, protocol: type[Connection] = Connection) -> uvicorn.Config:
    """How uvicorn serves this application."""
    settings: Settings = app.state.dare.settings
    return uvicorn.Config(
        app,
        http=type("Bounded", (protocol,), {"settings": settings}),
        ws="none",
        proxy_headers=bool(settings.trusted_proxies),
        forwarded_allow_ips=settings.trusted_proxies,
        log_config=None,
        access_log=False,
        timeout_keep_alive=math.ceil(settings.keep_alive),
        timeout_graceful_shutdown=math.ceil(settings.grace),
        backlog=settings.backlog,
        server_header=False,
        workers=1,  # else uvicorn reads WEB_CONCURRENCY, and ends at one that is no number
    )


def _log_start(state: State, address: str) -> None:
    """What runs, where, and which settings are not the default ones; no secret."""
    settings, default = state.settings, asdict(Settings())
    changed = {n: value for n, value in asdict(settings).items() if n not in SECRET and value != default[n]}
    started = {"version": __version__, "address": address, "auth": bool(settings.tokens), "method": settings.method}
    started |= {"run_log": state.recorder.private} if state.recorder.private else {}
    logger.info("start", extra={"fields": {**started, "settings": changed}})


def _warn(settings: Settings, listener: socket.socket, state: State) -> None:
    """What an operator may not have meant."""
    sentences = unread()
    if "PROMETHEUS_MULTIPROC_DIR" in os.environ:
        sentences.append("PROMETHEUS_MULTIPROC_DIR is ignored: one process counts everything in its memory.")
    if sentences:
        state.runs.warn("", "setting_ignored", " ".join(sentences))
    if not settings.tokens and (why := _unprotected(settings, listener, os.environ)):
        state.runs.warn("", "no_token", f"{why}: set DARE_TOKEN")
    _few_files()


def _unprotected(settings: Settings, listener: socket.socket, environment: Mapping[str, str]) -> str:
    """What says that a service without a token should have one, or nothing."""
    host = listener.getsockname()[0]
    if listener.family != socket.AF_UNIX and not ipaddress.ip_address(host).is_loopback:
        return f"{host} is reached from other machines, and anybody there may use it"
    if settings.trusted_proxies:
        return "DARE_TRUSTED_PROXIES names a proxy, and anybody who reaches the proxy may use the service"
    return "DARE_TOKEN is set but empty, so the service has no token" if "DARE_TOKEN" in environment else ""


def _end_threads(state: State, code: int) -> None:
    """The grace period is over: work that still runs has nobody to answer, and must not keep the process."""
    state.workers.stop()
    state.recorder.close()
    for thread in threading.enumerate():
        if thread is not threading.current_thread() and not thread.daemon:
            thread.join(0.1)
            if thread.is_alive():
                logger.warning("stop", extra={"fields": {"why": "unfinished work was given up after DARE_GRACE"}})
                logging.shutdown()
                sys.stdout.flush()
                os._exit(code)


def ready_the_process(settings: Settings) -> None:
    """Its log, its memory and its sockets become a server's.

    Waiting rollouts must not be scanned for garbage again and again, nor held up by a thread with numbers. Measured
    with 4,096 rollouts of 64 groups: Python's own thresholds double the CPU time and take the slowest reward from 40 to
    140 ms. A young collection costs a millisecond for 10,000 objects, and a step of 8,192 rollouts, which are no
    garbage, is over before the next one; an old one comes after a million objects.
    """
    _log_to_stderr(settings)
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 10)
    sys.setswitchinterval(1e-3)
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:  # every waiting rollout holds a socket: take all that the process may have
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard if hard != resource.RLIM_INFINITY else 1 << 20, hard))


def _few_files() -> None:
    """Say if a step may not fit."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != resource.RLIM_INFINITY and soft < ENOUGH_FILES:
        why = "one socket per waiting rollout: prompts x samples of a step must stay below it; raise ulimit -n"
        logger.warning("open_files", extra={"fields": {"limit": soft, "why": why}})


def bind(settings: Settings) -> socket.socket:
    """The socket of the service's address, or SettingsError."""
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    listener = socket.socket(family)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        notice_the_dead(listener)
        listener.bind((settings.host, settings.port))
        listener.listen(settings.backlog)
    except (OSError, UnicodeError) as error:
        listener.close()
        why = getattr(error, "strerror", None) or "this is no name of a host"
        if getattr(error, "errno", None) == errno.EADDRINUSE:
            why = "another process listens there; end it, or set another port by --port"
        raise SettingsError(f"cannot listen on {settings.host}:{settings.port}: {why}") from None
    return listener


def _adopt(held: socket.socket, settings: Settings) -> None:
    """Give the supervisor's socket the options of ours. Its address and its queue are the supervisor's business."""
    if held.family != socket.AF_UNIX:
        notice_the_dead(held)
    if settings.port or settings.host != Settings().host:
        why = "the supervisor holds the socket: its unit says where to listen, and DARE_HOST and DARE_PORT do not"
        logger.info("address", extra={"fields": {"address": address(held), "why": why}})


def address(listener: socket.socket) -> str:
    if listener.family == socket.AF_UNIX:
        return f"unix:{os.fsdecode(listener.getsockname())}"
    host, port = listener.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def _log_to_stderr(settings: Settings) -> None:
    """One JSON line an event."""
    level = {"info": logging.INFO, "error": logging.ERROR, "off": logging.CRITICAL + 1}[settings.log]
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JSONLines())
    for log, least in ((logger, level), (logging.getLogger("uvicorn.error"), max(level, logging.WARNING))):
        log.handlers[:] = [handler]
        log.setLevel(least)
        log.propagate = False
