"""The process that owns some of the groups: the plain service, whose clients are the replicas.

So all that is known of a group, and every rule about it, lies in one process: late, retried, lost and early-closed
members included. A replica opens a connection for each rollout, and its kernel closes them if it dies.
"""

from __future__ import annotations

import asyncio
import os
import secrets
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import uvicorn
from prometheus_client.core import Metric

from dare_reward import __version__

from ..app import State, create_app
from ..joins.delivery.tcp import notice_the_dead
from ..server import bind, configured, ready_the_process
from ..settings import Settings
from ..uvicorn_connection import Connection, Receipt

ADDED = 4 << 10  # bytes of headers that a replica may add
BEAT = 1.0  # seconds between two words of a replica
UNWANTED = 10.0  # seconds without a replica of its own version and settings, after which a shard ends
GONE = 5  # seconds after which a replica whose machine has died is known to be gone: its clients' next tries come later


class FromReplica(Connection):
    """A replica may die with a reply that it has read: only a further byte says that its client has it."""

    def _settle(self, *, delivered: bool, of: Sequence[Receipt]) -> None:
        super()._settle(delivered=delivered and not self.lost, of=of)


class Shard:
    """Serves from its first beat on. `host` is where the replicas reach it."""

    clock: Callable[[], float] = staticmethod(time.monotonic)

    def __init__(self, settings: Settings, number: int, host: str, fingerprint: str) -> None:
        # Nobody's address leads to its page. Replicas tell it their clients' addresses and add some headers.
        most = settings.max_head_bytes + ADDED
        settings = replace(settings, host=host, port=0, page="off", trusted_proxies="*", max_head_bytes=most)
        # Its port may be open to a network that the service itself is not: only replicas may ask.
        self._own_token = "" if settings.tokens else secrets.token_urlsafe(24)
        settings = replace(settings, token=settings.token or self._own_token)
        self.app = create_app(settings, alone=True)
        self.state: State = self.app.state.dare
        self._number = number
        self._fingerprint = fingerprint
        self._heard: dict[str, float] = {}
        self._wanted = self.clock()
        self._serving: asyncio.Task[None] | None = None

    async def beat(self, replica: str, fingerprint: str) -> dict[str, Any]:
        """A replica lives. Where the shard listens, and what `GET /info` tells of it."""
        if self._serving is None:
            self._listener = bind(self.state.settings)
            notice_the_dead(self._listener, within=GONE)
            ready_the_process(self.state.settings)
            self.server = uvicorn.Server(configured(self.app, FromReplica))
            self._serving = asyncio.ensure_future(self.server.serve(sockets=[self._listener]))
            self._watching = asyncio.ensure_future(self._watch())
        now = self._heard[replica] = self.clock()
        if fingerprint == self._fingerprint:
            self._wanted = now
        joins = {"openrlhf": self.state.openrlhf.join}
        return {
            "shard": self._number,
            "address": self._listener.getsockname()[:2],
            "token": self._own_token,
            "pid": os.getpid(),
            "version": __version__,
            "replicas": sorted(name for name, heard in self._heard.items() if now - heard < 3 * BEAT),
            "waiting": {name: join.waiting for name, join in joins.items()},
            "warnings": self.state.runs.warnings,
            "run_log": self.state.recorder.status,
        }

    async def metrics(self) -> list[Metric]:
        return list(self.state.metrics.registry.collect())

    def unwanted(self) -> bool:
        """Whether no replica of the shard's version and settings was heard of for a while."""
        return self.clock() - self._wanted > UNWANTED

    async def _watch(self) -> None:
        while not self.unwanted():  # noqa: ASYNC110  (time passes by itself)
            await asyncio.sleep(BEAT)
        self.state.draining = self.server.should_exit = True
        self.state.stop_joins()
        await self._serving  # type: ignore[misc]
        self.ended()

    def ended(self) -> None:
        """Nobody wants it any more, and everyone who waited is sent away."""
