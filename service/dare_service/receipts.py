"""Whether a client has its reply: an HTTP connection that can tell.

ASGI says that a reply was written, not that it arrived. `Connection` is uvicorn's, and leaves in each request's scope a
`Receipt`, under `extensions[EXTENSION]`. Evidence of delivery is that after the reply

* the client closed the connection in order, and its kernel has acknowledged every byte: one that closes with bytes
  unread, or before they arrive, resets the connection or acknowledges nothing;
* or the next request came on the same connection;
* or the connection was idle until the service closed it, with every byte acknowledged.

A proxy that has read the reply looks like a client that has it.

A request with `Connection: close` is answered and half closed, and the client's own end is waited for, as otherwise
there would be none to judge by.
"""

from __future__ import annotations

import asyncio
import fcntl
import socket
import struct
import sys
import termios
from collections.abc import Callable, Sequence
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

__all__ = ["EXTENSION", "Connection", "Receipt", "notice_the_dead"]

EXTENSION = "dare.receipt"
ESTABLISHED = 1  # of Linux's TCP states


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

    @property
    def answered(self) -> bool:
        """The whole reply was written."""
        return bool(self._cycle.response_complete)

    def end(self, delivered: bool) -> None:
        ended, self._ended = self._ended, None
        if ended is not None:
            ended(delivered and self.answered)


class Connection(HttpToolsProtocol):
    """A connection that settles the receipts of its requests."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.watched: list[Receipt] = []
        self.lost = False
        self.half_closed = False

    def open(self) -> bool:
        return not self.lost and _state(self.transport) == ESTABLISHED

    def on_headers_complete(self) -> None:
        before = self.cycle
        super().on_headers_complete()
        if self.cycle is not before:
            extensions: dict[str, Any] = {EXTENSION: Receipt(self, self.cycle)}
            self.scope["extensions"] = extensions

    def data_received(self, data: bytes) -> None:
        if self.half_closed:
            return
        if self.watched:
            self._settle(delivered=True, of=[r for r in self.watched if r.answered])
        super().data_received(data)

    def eof_received(self) -> None:
        self.lost = True
        if self.cycle is not None and not self.cycle.response_complete:
            self.cycle.disconnected = True  # now, not a turn later: who waits is told now
        if self.watched:
            self._settle(delivered=_acknowledged(self.transport), of=self.watched)
        super().eof_received()

    def connection_lost(self, exc: Exception | None) -> None:
        self.lost = True
        if self.watched:
            self._settle(delivered=exc is None and _acknowledged(self.transport), of=self.watched)
        super().connection_lost(exc)
        if self.cycle is not None:  # no circle of references: collections are rare
            self.cycle.transport = self.transport
            self.scope.get("extensions", {}).pop(EXTENSION, None)

    def _settle(self, *, delivered: bool, of: Sequence[Receipt]) -> None:
        self.watched = [r for r in self.watched if r not in of]
        for receipt in of:
            receipt.end(delivered)


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


def _state(transport: asyncio.BaseTransport) -> int:
    """The TCP state; ESTABLISHED where the system does not tell in Linux's numbers."""
    option = socket.TCP_INFO if sys.platform == "linux" else None
    found = None if option is None else _ask(transport, lambda s: s.getsockopt(socket.IPPROTO_TCP, option, 1)[0])
    return ESTABLISHED if found is None else found


def _acknowledged(transport: asyncio.Transport) -> bool:
    """Everything that was written has arrived at the client's kernel, and no error is pending."""

    def missing(s: socket.socket) -> int:
        (unacknowledged,) = struct.unpack("i", fcntl.ioctl(s.fileno(), termios.TIOCOUTQ, bytes(4)))
        return int(unacknowledged) or s.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)

    return not transport.get_write_buffer_size() and not _ask(transport, missing)


def _ask(transport: asyncio.BaseTransport, question: Callable[[socket.socket], int]) -> int | None:
    """The answer of the transport's socket; None if there is none, as for a closed one."""
    own = transport.get_extra_info("socket")
    if own is None or own.fileno() < 0:
        return None
    try:
        return question(own)
    except OSError:
        return None
