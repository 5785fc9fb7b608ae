"""What a replica does with a single rollout: the owner of its group answers it."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from fastapi import Request, Response
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import Metric
from prometheus_client.registry import Collector
from starlette.types import Receive, Scope, Send

from ..body import Disconnected
from ..metrics import Metrics
from ..problems import RefusalError
from ..request_url import query_string
from ..settings import Settings
from ..workers import INLINE_BYTES, Workers, run
from .link import LostError, ShardLink
from .owner import ShardReply
from .ring import group_of, owner_of

__all__ = ["Owners"]

SHORT = 256 << 10  # a longer body is read in the threads of whole steps
OWN = {b"x-request-id", b"x-dare-version", b"x-content-type-options"}  # the replica's own
SCOPE = (
    "type",
    "asgi",
    "http_version",
    "method",
    "scheme",
    "path",
    "raw_path",
    "root_path",
    "query_string",
    "client",
    "server",
)
ONCE = {"dare_requests", "dare_request_seconds", "dare_rejected"}  # what a replica has counted already
PATIENCE = 5.0  # seconds for a shard to say something of itself


@dataclass(frozen=True)
class Owners:
    """The owners of all groups, by number."""

    replica: str
    settings: Settings
    workers: Workers
    links: Sequence[ShardLink]

    async def forward(self, request: Request, body: bytes | bytearray) -> Awaitable[Response] | None:
        """Ask the owner of the group; you await its answer. None: this is no single rollout."""
        group = await self._group(request, body)
        if group is None:
            return None
        link = self.links[owner_of(group, len(self.links))]
        link.start()
        return self._answer(request, link, *link.ask(_scope(request), bytes(body)))

    async def _answer(
        self, request: Request, link: ShardLink, number: int, answer: asyncio.Future[ShardReply]
    ) -> Response:
        gone = asyncio.ensure_future(_until_gone(request))
        try:
            await asyncio.wait((answer, gone), timeout=self._patience, return_when=asyncio.FIRST_COMPLETED)
            if not answer.done():
                raise Disconnected if gone.done() else LostError
            found = answer.result()
        except LostError:
            link.end(number, delivered=False)
            why = "the process that owns this group was lost; try again in a second"
            raise RefusalError(503, why, code="owner", headers={"Retry-After": "1"}) from None
        except BaseException:
            link.end(number, delivered=False)
            raise
        finally:
            gone.cancel()
        request.scope["state"]["notes"].update(found.notes)
        reply = _Reply(found.body, found.status, ended=partial(link.end, number))
        reply.raw_headers = [pair for pair in found.headers if pair[0] not in OWN]
        return reply

    @property
    def _patience(self) -> float:
        """The owner answers before that, unless there is none."""
        return max(self.settings.join_hold, self.settings.rollouts_hold) + PATIENCE

    async def _group(self, request: Request, body: bytes | bytearray) -> bytes | None:
        address = request.client.host if request.client else ""
        path, query, memory = request.scope["path"], query_string(request), self.settings.max_request_memory
        find = partial(group_of, path, query, body, address=address, memory=memory)
        if len(body) <= INLINE_BYTES:
            return find()
        return await run(self.workers.joins if len(body) <= SHORT else self.workers.groups, find)

    async def info(self) -> dict[str, Any]:
        """For `GET /info`: which replica this is, and the shards."""
        found = await self._asked("about")
        return {"replica": self.replica, "pid": os.getpid(), "shards": [x or {"lost": True} for x in found]}

    async def metrics(self, own: Metrics) -> bytes:
        """Of this replica and of all shards, each with its label."""
        found = {("replica", self.replica): own.registry.collect()}
        for number, told in enumerate(await self._asked("metrics")):
            found["shard", str(number)] = [family for family in told or () if family.name not in ONCE]
        return _render(found)

    async def _asked(self, what: str) -> list[Any]:
        for link in self.links:
            link.start()
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(_told(link, what)) for link in self.links]
        return [task.result() for task in tasks]


class _Reply(Response):
    """The owner hears when the reply has gone out, or that it has not. Nobody here can tell whether it arrived."""

    def __init__(self, content: bytes, status: int, *, ended: Callable[..., None]) -> None:
        super().__init__(content, status)
        self._ended = ended

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await super().__call__(scope, receive, send)
        except BaseException:
            self._ended(delivered=False)
            raise
        self._ended(delivered=True)


async def _told(link: ShardLink, what: str) -> Any:
    try:
        async with asyncio.timeout(PATIENCE):
            while link.remote is None:  # noqa: ASYNC110  it connects by itself
                await asyncio.sleep(0.01)
            return await getattr(link.remote, what)()
    except Exception:  # noqa: BLE001  (a shard that is lost has nothing to tell)
        return None


def _scope(request: Request) -> dict[str, Any]:
    """What of the request an owner needs; under the same id."""
    scope = {name: request.scope[name] for name in SCOPE if name in request.scope}
    own = request.scope["state"]
    headers = [(b"x-request-id", own["request_id"].encode()), *map(tuple, request.scope["headers"])]
    return {**scope, "headers": headers, "state": {"token": own["token"]} if "token" in own else {}}


async def _until_gone(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass


class _Merged(Collector):
    def __init__(self, families: Iterable[Metric]) -> None:
        self._families = families

    def collect(self) -> Iterator[Metric]:
        yield from self._families


def _render(found: Mapping[tuple[str, str], Iterable[Metric]]) -> bytes:
    merged: dict[str, Metric] = {}
    for (kind, name), families in found.items():
        for family in families:
            into = merged.setdefault(family.name, Metric(family.name, family.documentation, family.type, family.unit))
            into.samples += [s._replace(labels={**s.labels, kind: name}) for s in family.samples]
    registry = CollectorRegistry()
    registry.register(_Merged(merged.values()))
    return generate_latest(registry)
