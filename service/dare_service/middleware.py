"""Around every request, as pure ASGI: an id, a log line, metrics, and a problem document for whatever escapes."""

from __future__ import annotations

import logging
import random
import re
import time
from collections.abc import Awaitable, Callable, Mapping
from itertools import product
from typing import Any

from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from dare_reward import DareError, __version__

from .auth import Hosts
from .body import Disconnected
from .log import logger
from .metrics import CODES, Metrics
from .problems import from_error, response

Handlers = Mapping[str, Callable[..., Awaitable[Response]]]
EXPECTED = frozenset({"held", "draining"})  # a rollout that comes back for its siblings; a stop: no failures
# Asked every few seconds, by design: not worth a line each.
PROBES = frozenset({"/health", "/ready", "/metrics", "/page/data"})
VERSION = (b"x-dare-version", __version__.encode())
NOSNIFF = (b"x-content-type-options", b"nosniff")
REQUEST_ID = re.compile(r"[A-Za-z0-9._:/+=-]{1,128}", re.ASCII)


class Observe:
    """The outermost layer: nothing below it can fail without a reply, a metric and a line."""

    def __init__(
        self, app: ASGIApp, *, metrics: Metrics, routes: frozenset[str], hosts: Hosts, posts: Handlers
    ) -> None:
        self.app = app
        self.posts = posts  # called without the router, whose work would be a tenth of a small request
        self.hosts = hosts
        self.metrics = metrics
        self.routes = routes
        for route, code in product((*sorted(routes), "other"), CODES):
            metrics.requests.labels(route, code)

    def __call__(self, scope: Scope, receive: Receive, send: Send) -> Awaitable[None]:
        return _Exchange(self, scope, send).run(receive) if scope["type"] == "http" else self.app(scope, receive, send)


class _Exchange:
    """One request and what is known of it so far."""

    def __init__(self, outer: Observe, scope: Scope, send: Send) -> None:
        self.outer = outer
        self.scope = scope
        self._send = send
        self.started = time.perf_counter()
        self.status = 0
        self.id = _request_id(scope)
        self.notes: dict[str, Any] = {}
        scope.setdefault("state", {})
        scope["state"]["request_id"] = self.id
        scope["state"]["notes"] = self.notes

    async def run(self, receive: Receive) -> None:
        try:
            self.outer.hosts.check(self.scope)
            handler = self.outer.posts.get(self.scope["path"]) if self.scope["method"] == "POST" else None
            answer = self.outer.app if handler is None else await handler(Request(self.scope, receive))
            await answer(self.scope, receive, self.send)
        except Disconnected:
            self.status = 499
        except DareError as error:
            await self.refuse(error, receive)
        except Exception:
            logger.exception("bug", extra={"fields": {"request_id": self.id}})
            if self.status:
                raise
            await response(500, "an error of the service; its log names this request", request_id=self.id)(
                self.scope, receive, self.send
            )
        finally:
            self.finish()

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            headers = [(b"x-request-id", self.id.encode()), VERSION, NOSNIFF]
            message["headers"] = [*message.get("headers", ()), *headers]
        await self._send(message)

    async def refuse(self, error: DareError, receive: Receive) -> None:
        reason = getattr(error, "code", "json")
        self.outer.metrics.rejected.labels(reason).inc()
        self.notes["refused"] = reason
        if error.status == 401 and self.scope.get("client"):
            self.notes["client"] = self.scope["client"][0]  # who still has the old token
        await from_error(error, request_id=self.id)(self.scope, receive, self.send)

    def finish(self) -> None:
        seconds = time.perf_counter() - self.started
        path = self.scope["path"]
        route = path if path in self.outer.routes else "other"
        metrics = self.outer.metrics
        metrics.of(metrics.requests, route, self.status).inc()
        metrics.of(metrics.seconds, route).observe(seconds)
        level = self.level(path)
        if logger.isEnabledFor(level):
            fields = {"request_id": self.id, "method": self.scope["method"], "route": route, "status": self.status}
            logger.log(level, "request", extra={"fields": {**fields, "ms": round(seconds * 1e3, 3), **self.notes}})

    def level(self, path: str) -> int:
        if self.status >= 500 and self.notes.get("refused") not in EXPECTED:
            return logging.ERROR
        joined = self.status == 200 and self.notes.get("joined")  # its group has a line
        return logging.DEBUG if joined or path in PROBES else logging.INFO


def _request_id(scope: Scope) -> str:
    """The caller's, if it is printable and short, else a new one."""
    for name, value in scope["headers"]:
        if name == b"x-request-id" and REQUEST_ID.fullmatch(value.decode("latin-1")):
            return str(value.decode("latin-1"))
    return f"{random.getrandbits(64):016x}"
