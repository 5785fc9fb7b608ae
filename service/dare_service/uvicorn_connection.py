"""uvicorn's HTTP connection from inside: the one module that knows how uvicorn's protocol works.

It bounds the time and the bytes of a request's head (a silent connection holds its socket for ever, a header of 48 MiB
costs seconds on the loop, both before any token is looked at), reads the body behind an `Upgrade` that is not taken,
writes reason phrases (`problems.py`), and tells of a connection's end in the turn of the loop that reads it
(`joins/join.py`).
"""

from __future__ import annotations

import asyncio
import random
import socket
from collections.abc import Callable
from http import HTTPStatus
from typing import Any

import httptools
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

from .problems import EXCHANGE, response
from .settings import Settings

FIRST = 0.05  # seconds in which a connection's first request comes, when the service stops
AHEAD = 8  # requests that are read on one connection before the first has its reply


def notice_the_dead(listener: socket.socket, *, within: int = 25) -> None:
    """Its connections end so many seconds after their client's host or path is gone, in silence or amid a reply.

    A client whose connection was cut on its side alone comes back after a second: until the service knows, its next try
    is another rollout.
    """
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    times = {"TCP_KEEPIDLE": within * 2 // 5, "TCP_KEEPINTVL": within // 5, "TCP_KEEPCNT": 3}
    for name, value in (*times.items(), ("TCP_USER_TIMEOUT", within * 1000)):
        if hasattr(socket, name):
            listener.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)


class Exchange:
    """What one request asks of its connection."""

    __slots__ = ("_cycle", "_ended", "gone")

    def __init__(self, cycle: RequestResponseCycle) -> None:
        self._cycle = cycle
        self._ended: Callable[[], object] | None = None
        self.gone = False

    def watch(self, ended: Callable[[], object] | None) -> None:
        """Call `ended` when the client closes the connection; None: nobody wants to know any more.

        uvicorn stops reading behind 64 KiB of a body until the application asks for more, and an end would be unread.
        """
        self._ended = ended
        self._cycle.flow.resume_reading()

    def end(self) -> None:
        """The client has closed it."""
        self.gone = self._cycle.disconnected = True  # else uvicorn logs that the application failed to answer it
        if self._ended is not None:
            self._ended()

    def phrase(self, reason: bytes) -> None:
        """Write `reason`, printable ASCII, into the status line: uvicorn writes the standard's phrases only."""
        self._cycle.transport = _Phrased(self._cycle, reason)  # type: ignore[assignment]

    @property
    def replied(self) -> bool:
        """The whole reply was written."""
        return self._cycle.response_complete


class Connection(HttpToolsProtocol):
    """A connection whose heads are bounded in time and bytes, and whose end is told at once."""

    settings = Settings()

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._exchanges: list[Exchange] = []  # several where a client does not wait for a reply with its next request
        self._head_bytes = 0
        self._tail = b""  # the last three of them: the end of a head may lie in two reads
        self._between = True  # the next byte is of a head
        self._head_timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        self._expect_head()

    def data_received(self, data: bytes) -> None:
        if self._between:
            most = self.settings.max_head_bytes
            if self._head_bytes + len(data) > most:
                head = (self._tail + data).partition(b"\r\n\r\n")[0]
                if self._head_bytes - len(self._tail) + len(head) > most:
                    self._refuse(431, f"a request's line and headers may hold {most} bytes")
                    return
            self._expect_head()  # also behind blank lines, which begin no message
        self._head_bytes += len(data)
        self._unset_keepalive_if_required()
        try:
            self._parse(data)
        except httptools.HttpParserError:
            self.logger.warning("Invalid HTTP request received.")
            self._refuse(400, "this is no HTTP/1.1 request")
        self._tail = (self._tail + data[-3:])[-3:] if self._head_bytes else b""

    def _parse(self, data: bytes | memoryview) -> None:
        """Feed the parser, which takes a request that asks for another protocol to end with its head.

        No other protocol is spoken here, and a server may ignore `Upgrade` (RFC 9110, 7.8). What follows is still the
        body: read as the next request, it would answer another client behind a proxy that keeps connections. So the
        head goes in once more, without the field that ends it.
        """
        while data:
            try:
                self.parser.feed_data(data)
            except httptools.HttpParserUpgrade as end_of_head:
                data = memoryview(data)[end_of_head.args[0] :]
            else:
                return
            if self.parser.get_method() == b"CONNECT":  # nothing behind it is HTTP
                self._refuse(501, "this is no proxy")
                return
            self.parser.feed_data(self._head_without_upgrade())

    def _head_without_upgrade(self) -> bytes:
        version = self.parser.get_http_version().encode()
        lines = [b"%b %b HTTP/%b" % (self.parser.get_method(), self.url, version)]
        lines += [b"%b: %b" % field for field in self.headers if field[0] != b"upgrade"]
        return b"\r\n".join([*lines, b"", b""])

    def shutdown(self) -> None:
        """Serve the first request of a connection that was just taken: it may be on its way."""
        if self.cycle is None:
            asyncio.get_running_loop().call_later(FIRST, super().shutdown)
        else:
            super().shutdown()

    def eof_received(self) -> None:
        self._tell()
        super().eof_received()

    def connection_lost(self, exc: Exception | None) -> None:
        self._tell()
        self._head_arrived()
        super().connection_lost(exc)

    def _tell(self) -> None:
        while self._exchanges:
            self._exchanges.pop().end()

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._expect_head()

    def on_headers_complete(self) -> None:
        if self.parser.should_upgrade():
            return  # the same head comes again, see _parse
        self._head_arrived()
        self._between = False
        before = self.cycle
        super().on_headers_complete()
        if self.cycle is not before:
            self._exchanges = [e for e in self._exchanges if not e.replied]
            if self._exchanges and len(self._exchanges) < AHEAD:
                self.flow.resume_reading()  # uvicorn stops behind a request that waits, and would not read the end
            self._exchanges.append(exchange := Exchange(self.cycle))
            extensions: dict[str, Any] = {EXCHANGE: exchange}
            self.scope["extensions"] = extensions

    def on_message_complete(self) -> None:
        if self.parser.should_upgrade():
            return
        super().on_message_complete()
        self._between, self._head_bytes = True, 0  # what of the next head came along is let in

    def _expect_head(self) -> None:
        if self._head_timer is None:
            self._head_timer = self.loop.call_later(self.settings.head_timeout, self._too_late)

    def _head_arrived(self) -> None:
        self._head_bytes = 0
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None

    def _too_late(self) -> None:
        self._head_timer = None
        if self.cycle is None or self.cycle.response_complete:
            self.transport.close()
        else:
            self._expect_head()  # the reply before it comes first

    def _refuse(self, status: int, detail: str) -> None:
        """A problem document by hand: there is no request yet that an application could answer."""
        self._head_arrived()
        if self.transport.is_closing():
            return
        name = f"{random.getrandbits(64):016x}"
        reply = response(status, detail, request_id=name, headers={"Connection": "close", "X-Request-Id": name})
        lines = [f"HTTP/1.1 {status} {HTTPStatus(status).phrase}".encode()]
        lines += [name + b": " + value for name, value in reply.raw_headers]
        self.transport.write(b"\r\n".join([*lines, b"", bytes(reply.body)]))
        self.transport.close()


class _Phrased:
    """The transport of a reply until its head is written."""

    def __init__(self, cycle: RequestResponseCycle, reason: bytes) -> None:
        self._cycle = cycle
        self._transport = cycle.transport
        self._reason = reason
        self.is_closing = cycle.transport.is_closing
        self.close = cycle.transport.close

    def write(self, head: bytes) -> None:
        self._cycle.transport = self._transport
        line, end, fields = head.partition(b"\r\n")
        version, status, _ = line.split(b" ", 2)
        self._transport.write(b" ".join((version, status, self._reason)) + end + fields)
