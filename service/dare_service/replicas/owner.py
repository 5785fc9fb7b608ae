"""The side of a shard: the application of one process, asked by replicas instead of by sockets.

A replica sends the requests of single rollouts as they came, and is sent what the application answers. So all that is
known of a group, and every rule about it, lies in one process: late, retried, lost and early-closed members included.

    exchange   what a replica has to say: new requests, and how earlier ones ended
    results    what it waits for: answers, as they become known

A replica that is not heard of for `LEASE` seconds is gone, and so are its clients' connections. Rollouts of
unmodified OpenRLHF have no names: a try of a client whose replica has died must not count as another rollout. So a
request waits while the same bytes wait at another replica that has not been heard of since; it is asked at once.
"""

from __future__ import annotations

import asyncio
import hashlib
import secrets
import time
from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterable, MutableMapping
from dataclasses import dataclass, field
from typing import Any

from ..receipts import EXTENSION

__all__ = ["BEAT", "LEASE", "SPEAK", "End", "Owner", "ShardReply", "ShardRequest"]

BEAT = 1.0  # seconds between two words of a replica that has nothing to say
LEASE = 3.0
POLL = 10.0  # seconds that `results` waits
SPEAK = 0  # the number of no request: the replica is asked for a word

App = Callable[
    [MutableMapping[str, Any], Callable[[], Awaitable[Any]], Callable[[Any], Awaitable[None]]], Awaitable[None]
]


@dataclass(frozen=True, slots=True)
class ShardRequest:
    """A request: its number at its replica, its ASGI scope, its body."""

    number: int
    scope: dict[str, Any]
    body: bytes


@dataclass(frozen=True, slots=True)
class End:
    """A request's end: has its client got the reply, as far as the replica knows?"""

    number: int
    delivered: bool


@dataclass(frozen=True, slots=True)
class ShardReply:
    """What the application answered, and its notes for the log."""

    status: int
    headers: list[tuple[bytes, bytes]]
    body: bytes
    notes: dict[str, Any]


class _Attempt:
    """One request, until its replica has said how it ended. It is also the join's receipt of it."""

    def __init__(self, peer: _Peer, ask: ShardRequest) -> None:
        self.peer = peer
        self.ask: ShardRequest | None = ask
        content = ask.scope["path"].encode() + b"?" + ask.scope["query_string"] + b"\n" + ask.body
        self.content = hashlib.blake2b(content, digest_size=16).digest()
        self.gone = asyncio.get_running_loop().create_future()
        self._ended: Callable[[bool], None] | None = None

    def open(self) -> bool:
        return not self.gone.done()

    def watch(self, ended: Callable[[bool], None]) -> None:
        self._ended = ended

    def end(self, *, delivered: bool) -> None:
        if not self.gone.done():
            self.gone.set_result(None)
        ended, self._ended = self._ended, None
        if ended is not None:
            ended(delivered)


@dataclass(eq=False)
class _Peer:
    """A replica. `token` tells it whether this is still the owner that it spoke to."""

    heard: float = field(default_factory=time.monotonic)
    token: str = field(default_factory=lambda: secrets.token_hex(8))
    attempts: dict[int, _Attempt] = field(default_factory=dict)
    ready: list[tuple[int, ShardReply | None]] = field(default_factory=list)
    wake: asyncio.Event = field(default_factory=asyncio.Event)
    word: asyncio.Event = field(default_factory=asyncio.Event)

    def say(self, number: int, answer: ShardReply | None = None) -> None:
        self.ready.append((number, answer))
        self.wake.set()

    async def next_word(self) -> None:
        """Until it has been heard of again, or is known to be gone."""
        self.say(SPEAK)
        await self.word.wait()


class Owner:
    """Serves `app` to replicas."""

    def __init__(self, app: App, *, fingerprint: str = "", clock: Callable[[], float] = time.monotonic) -> None:
        self._app = app
        self._clock = clock
        self._fingerprint = fingerprint
        self._same: defaultdict[bytes, set[_Attempt]] = defaultdict(set)
        self._tasks: set[asyncio.Task[None]] = set()
        self.peers: dict[str, _Peer] = {}
        self.wanted = clock()  # when a replica of the same version and settings was last heard of

    async def exchange(self, replica: str, fingerprint: str, batch: Iterable[ShardRequest | End]) -> str:
        """Take what the replica says; the peer's token."""
        peer = self._peer(replica)
        peer.heard = self._clock()
        if fingerprint == self._fingerprint:
            self.wanted = peer.heard
        for item in batch:
            if isinstance(item, End):
                self._end(peer, item.number, delivered=item.delivered)
            else:
                self._begin(peer, item)
        peer.word.set()
        peer.word = asyncio.Event()
        return peer.token

    async def results(self, replica: str) -> list[tuple[int, ShardReply | None]]:
        """Answers that are known, or none after a while."""
        peer = self._peer(replica)
        try:
            async with asyncio.timeout(POLL):
                await peer.wake.wait()
        except TimeoutError:
            pass
        peer.wake.clear()
        found, peer.ready = peer.ready, []
        return found

    def sweep(self) -> None:
        """Forget replicas that are gone; their clients' next tries take their places."""
        for name, peer in list(self.peers.items()):
            if self._clock() - peer.heard > LEASE:
                del self.peers[name]
                for number in list(peer.attempts):
                    self._end(peer, number, delivered=False)
                peer.word.set()

    def unwanted(self, seconds: float) -> bool:
        """Whether no replica of the owner's version and settings was heard of for that long."""
        return self._clock() - self.wanted > seconds

    def _peer(self, replica: str) -> _Peer:
        if replica not in self.peers:
            self.peers[replica] = _Peer(heard=self._clock())
        return self.peers[replica]

    def _begin(self, peer: _Peer, ask: ShardRequest) -> None:
        attempt = peer.attempts[ask.number] = _Attempt(peer, ask)
        others = {twin.peer for twin in self._same[attempt.content]} - {peer}
        self._same[attempt.content].add(attempt)
        task = asyncio.ensure_future(self._answer(attempt, others))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _end(self, peer: _Peer, number: int, *, delivered: bool) -> None:
        attempt = peer.attempts.pop(number, None)
        if attempt is None:
            return
        attempt.end(delivered=delivered)
        same = self._same[attempt.content]
        same.discard(attempt)
        if not same:
            del self._same[attempt.content]

    async def _answer(self, attempt: _Attempt, others: set[_Peer]) -> None:
        await asyncio.gather(*(other.next_word() for other in others))
        ask, attempt.ask = attempt.ask, None
        if ask is not None and attempt.open():
            attempt.peer.say(ask.number, await _called(self._app, ask, attempt))


async def _called(app: App, ask: ShardRequest, attempt: _Attempt) -> ShardReply:
    """One call of the application, without a socket."""
    messages = iter([{"type": "http.request", "body": ask.body, "more_body": False}])
    status, headers, parts = 0, [], bytearray()

    async def receive() -> dict[str, Any]:
        if (message := next(messages, None)) is not None:
            return message
        await asyncio.shield(attempt.gone)
        return {"type": "http.disconnect"}

    async def send(message: dict[str, Any]) -> None:
        nonlocal status, headers
        if message["type"] == "http.response.start":
            status, headers = message["status"], list(message["headers"])
        else:
            parts.extend(message.get("body", b""))

    scope = {**ask.scope, "type": "http", "extensions": {EXTENSION: attempt}, "state": dict(ask.scope["state"])}
    await app(scope, receive, send)
    return ShardReply(status or 499, headers, bytes(parts), scope["state"].get("notes", {}))
