"""uvicorn's HTTP connection from inside: the one module that knows how uvicorn's protocol works.

`Connection` leaves the receipt of each request in its scope (`joins/delivery/receipts.py`), which also takes an error's
reason phrase (`problems.py`) and says whether the body is there (`body.py`). A request with `Connection: close` is
answered and half closed, and the client's own end is waited for, as otherwise there would be none to judge by.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Sequence
from http import HTTPStatus
from typing import Any

import httptools
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

from .body import ARRIVED
from .joins.delivery.receipts import EXTENSION
from .joins.delivery.tcp import ESTABLISHED, acknowledged, state
from .problems import REASON, response
from .settings import Settings


class Receipt:
    """What becomes of the reply to one request."""

    __slots__ = ("_connection", "_cycle", "_ended")

    def __init__(self, connection: Connection, cycle: RequestResponseCycle) -> None:
        self._connection = connection
        self._cycle = cycle
        self._ended: Callable[[bool], None] | None = None

    def open(self) -> bool:
        """False: the client has closed the connection. You may stop: uvicorn is told, if it has not read that yet."""
        if self._connection.open():
            return True
        self._cycle.disconnected = True
        return False

    def watch(self, ended: Callable[[bool], None]) -> None:
        """Call `ended(delivered)` once, when it is known."""
        self._ended = ended
        self._connection.watched.append(self)
        if not self._cycle.keep_alive:
            self._cycle.transport = _HalfClosing(self._connection)  # type: ignore[assignment]

    def phrase(self, reason: bytes) -> None:
        """Write `reason`, printable ASCII, into the status line: uvicorn writes the standard's phrases only."""
        self._cycle.transport = _Phrased(self._cycle, reason)  # type: ignore[assignment]

    @property
    def arrived(self) -> bool:
        """The whole body was received."""
        return not self._cycle.more_body

    @property
    def answered(self) -> bool:
        """The whole reply was written."""
        return bool(self._cycle.response_complete)

    def end(self, delivered: bool) -> None:
        ended, self._ended = self._ended, None
        if ended is not None:
            ended(delivered and self.answered)


class Connection(HttpToolsProtocol):
    """A connection that settles the receipts of its requests, and bounds the time and the bytes of a request's head.

    Without bounds a silent connection holds its socket for ever, and a header of 48 MiB costs seconds on the loop, both
    before any token is looked at.
    """

    settings = Settings()

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.watched: list[Receipt] = []
        self.lost = False
        self.half_closed = False
        self._head_bytes = 0
        self._between = True  # the next byte is of a head
        self._head_timer: asyncio.TimerHandle | None = None

    def open(self) -> bool:
        return not self.lost and state(self.transport) == ESTABLISHED

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        self._expect_head()

    def data_received(self, data: bytes) -> None:
        if self.half_closed:
            return
        if self._between and self._head_bytes + len(data) > self.settings.max_head_bytes:
            end = data.find(b"\r\n\r\n")
            if self._head_bytes + (len(data) if end < 0 else end) > self.settings.max_head_bytes:
                self._refuse(431, f"a request's line and headers may hold {self.settings.max_head_bytes} bytes")
                return
        self._head_bytes += len(data)
        if self.watched:
            self._settle(delivered=True, of=[r for r in self.watched if r.answered])
        self._unset_keepalive_if_required()
        try:
            self._parse(data)
        except httptools.HttpParserError:
            self.logger.warning("Invalid HTTP request received.")
            self._refuse(400, "this is no HTTP/1.1 request")

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

    def eof_received(self) -> None:
        self.lost = True
        if self.cycle is not None and not self.cycle.response_complete:
            self.cycle.disconnected = True  # now, not a turn later: who waits is told now
        if self.watched:
            self._settle(delivered=acknowledged(self.transport), of=self.watched)
        super().eof_received()

    def connection_lost(self, exc: Exception | None) -> None:
        self.lost = True
        self._head_arrived()
        if self.watched:
            self._settle(delivered=exc is None and acknowledged(self.transport), of=self.watched)
        super().connection_lost(exc)
        if self.cycle is not None:  # no circle of references: collections are rare
            self.cycle.transport = self.transport
            self.scope.get("extensions", {}).clear()

    def _settle(self, *, delivered: bool, of: Sequence[Receipt]) -> None:
        self.watched = [r for r in self.watched if r not in of]
        for receipt in of:
            receipt.end(delivered)

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
            receipt = Receipt(self, self.cycle)
            extensions: dict[str, Any] = {EXTENSION: receipt, REASON: receipt, ARRIVED: receipt}
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


class _HalfClosing:
    """The transport of a reply after which uvicorn closes: our side is closed, and the client's end awaited.

    uvicorn ends the wait as it ends an idle connection's.
    """

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._transport = connection.transport
        self.write = connection.transport.write
        self.is_closing = connection.transport.is_closing

    def close(self) -> None:
        self._connection.half_closed = True
        if not self._transport.is_closing():
            self._transport.write_eof()


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
