"""What a replica does with a single rollout: it asks the shard that owns the group, as a proxy does."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from functools import partial
from types import SimpleNamespace
from typing import Any
from urllib.parse import quote

from fastapi import Request, Response
from prometheus_client import generate_latest
from prometheus_client.core import Metric
from starlette.types import Receive, Scope, Send

from ..body import Disconnected
from ..joins.delivery.tcp import notice_the_dead
from ..metrics import Metrics
from ..problems import RefusalError
from ..request_url import query_string
from ..settings import Settings
from ..workers import INLINE_BYTES, Workers, run, until_gone
from .ring import group_of, owner_of
from .shard import BEAT, GONE

SHORT = 256 << 10  # a longer body is read in the threads of whole steps
OWN = {b"x-request-id", b"x-dare-version", b"x-content-type-options", b"date"}  # the replica's own
ONE_HOP = {b"connection", b"content-length", b"transfer-encoding", b"expect"}
ONE_HOP |= {b"x-forwarded-for", b"x-forwarded-proto", b"x-request-id"}  # as this replica understands them
ONCE = {"dare_requests", "dare_request_seconds", "dare_rejected"}  # what a replica has counted already
PATIENCE = 5.0  # seconds: an answer may take so much longer than the hold, and a shard to say something of itself


class ShardLink:
    """Knows where one shard is for as long as the replica lives. `find` looks for it, wherever it is."""

    def __init__(self, replica: str, fingerprint: str, find: Callable[[], Awaitable[Any]]) -> None:
        self._words = replica, fingerprint
        self._find = find
        self._reachable = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self.remote: Any = None
        self.status: dict[str, Any] = {}
        self._token = ""

    def start(self) -> None:
        self._task = self._task or asyncio.ensure_future(self._beat())

    def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()

    async def ask(self, content: Callable[[str], bytes]) -> Response:
        """The answer to this request, which is made for the shard's own token. Who comes while the shard is away waits
        for the one that takes its place."""
        reader, writer = await self._open()
        try:
            notice_the_dead(writer.get_extra_info("socket"), within=2 * GONE)  # a next try must come after that
            writer.write(content(self._token))
            del content  # whoever waits for siblings holds none
            status, *lines = (await reader.readuntil(b"\r\n\r\n")).split(b"\r\n")[:-2]
            headers = [(name, value) for name, _, value in (line.partition(b": ") for line in lines)]
            body = await reader.readexactly(int(dict(headers)[b"content-length"]))
        except BaseException:
            writer.close()
            raise
        reply = _Reply(body, int(status.split()[1]))
        reply.writer = writer
        reply.raw_headers = [pair for pair in headers if pair[0] not in OWN]
        return reply

    async def metrics(self) -> list[Metric]:
        try:
            return await asyncio.wait_for(self.remote.metrics(), PATIENCE)
        except Exception:  # noqa: BLE001  (a shard that is lost has nothing to tell)
            return []

    async def _open(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        while True:
            await self._reachable.wait()
            try:
                return await asyncio.open_connection(*self.status["address"])
            except (ConnectionError, KeyError):  # it is away, or was found to be meanwhile
                self._lose()

    async def _beat(self) -> None:
        while True:
            try:
                self.remote = self.remote or await self._find()
                answer = await self.remote.beat(*self._words)
                self._token = answer.pop("token")  # `GET /info` shows the rest
                self.status = answer
                self._reachable.set()
            except Exception:  # noqa: BLE001  (whatever it is, the shard cannot be talked to)
                self._lose()
            await asyncio.sleep(BEAT)

    def _lose(self) -> None:
        self.remote, self.status = None, {"lost": True}
        self._reachable.clear()


class _Reply(Response):
    """The shard hears of it when the reply has gone out. Nobody here can tell whether it arrived."""

    writer: asyncio.StreamWriter

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await super().__call__(scope, receive, send)
            self.writer.write(b"\r\n")
        finally:
            self.writer.close()


@dataclass(frozen=True)
class Shards:
    """All of them, by number."""

    replica: str
    settings: Settings
    workers: Workers
    links: Sequence[ShardLink]

    def start(self) -> None:
        for link in self.links:
            link.start()

    async def forward(self, request: Request, body: bytes | bytearray) -> Awaitable[Response] | None:
        """The request for the shard of the group; you await its answer. None: this is no single rollout."""
        group = await self._group(request, body)
        if group is None:
            return None
        self.start()
        return self._answer(request, self.links[owner_of(group, len(self.links))], partial(_written, request, body))

    async def _answer(self, request: Request, link: ShardLink, content: Callable[[str], bytes]) -> Response:
        asked = asyncio.ensure_future(link.ask(content))
        del content
        gone = asyncio.ensure_future(until_gone(request.receive))
        patience = self.settings.join_hold + PATIENCE  # the shard answers before
        try:
            await asyncio.wait((asked, gone), timeout=patience, return_when=asyncio.FIRST_COMPLETED)
            if not asked.done():
                raise Disconnected if gone.done() else TimeoutError
            reply = asked.result()
        except (OSError, EOFError):
            why = "the process that owns this group was lost; try again in a second"
            raise RefusalError(503, why, code="owner", headers={"Retry-After": "1"}) from None
        finally:
            gone.cancel()
            asked.cancel()
        request.scope["state"]["notes"]["forwarded"] = True
        return reply

    async def _group(self, request: Request, body: bytes | bytearray) -> bytes | None:
        address = request.client.host if request.client else ""
        query, memory = query_string(request), self.settings.max_request_memory
        find = partial(group_of, query, body, address=address, memory=memory)
        if len(body) <= INLINE_BYTES:
            return find()
        return await run(self.workers.joins if len(body) <= SHORT else self.workers.groups, find)

    async def info(self) -> dict[str, Any]:
        """For `GET /info`: which replica this is, and the shards."""
        self.start()
        return {"replica": self.replica, "pid": os.getpid(), "shards": [link.status for link in self.links]}

    async def metrics(self, own: Metrics) -> bytes:
        """Of this replica and of all shards, each with its label."""
        self.start()
        registries = [("replica", self.replica, own.registry.collect())]
        for number, collected in enumerate(await asyncio.gather(*(link.metrics() for link in self.links))):
            registries.append(("shard", str(number), [family for family in collected if family.name not in ONCE]))
        merged: dict[str, Metric] = {}
        for kind, name, families in registries:
            for f in families:
                into = merged.setdefault(f.name, Metric(f.name, f.documentation, f.type, f.unit))
                into.samples += [s._replace(labels={**s.labels, kind: name}) for s in f.samples]
        registry: Any = SimpleNamespace(collect=merged.values)  # all that is asked of one
        return generate_latest(registry)


def _path(scope: Scope) -> str:
    """Of the route, without what Ray Serve was told to put before all of them."""
    return str(scope["path"]).removeprefix(scope.get("root_path", ""))


def _written(request: Request, body: bytes | bytearray, token: str) -> bytes:
    """The request again, under the same id and from the same client, a token where the caller wrote it; `token` is the
    shard's own, where the service has none."""
    scope, state = request.scope, request.scope["state"]
    query: bytes = scope["query_string"]
    if "token" in state:
        query += b"&token=" + quote(state["token"], safe="", errors="surrogateescape").encode()
    lines = [b"POST %s?%s HTTP/1.1" % (quote(_path(scope)).encode(), query)]
    left_out = ONE_HOP | {b"authorization"} if token else ONE_HOP
    lines += [name + b": " + value for name, value in scope["headers"] if name not in left_out]
    client = request.client.host if request.client else "unknown"
    forwarded = {"X-Forwarded-For": client, "X-Forwarded-Proto": scope["scheme"]}
    forwarded |= {"X-Request-Id": state["request_id"], "Content-Length": len(body)}
    if token:
        forwarded["Authorization"] = f"Bearer {token}"
    lines += [f"{name}: {value}".encode("utf-8", "surrogateescape") for name, value in forwarded.items()]
    return b"\r\n".join([*lines, b"", bytes(body)])
