"""What the kernel knows of a connection: whether it is open, and whether everything has arrived."""

from __future__ import annotations

import asyncio
import fcntl
import socket
import struct
import sys
import termios
from collections.abc import Callable

ESTABLISHED = 1  # of Linux's TCP states


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


def state(transport: asyncio.BaseTransport) -> int:
    """The TCP state; ESTABLISHED where the system does not tell in Linux's numbers."""
    option = socket.TCP_INFO if sys.platform == "linux" else None
    number = None if option is None else _ask(transport, lambda s: s.getsockopt(socket.IPPROTO_TCP, option, 1)[0])
    return ESTABLISHED if number is None else number


def acknowledged(transport: asyncio.Transport) -> bool:
    """Everything that was written has arrived at the client's kernel, and no error is pending."""

    def missing(s: socket.socket) -> int:
        (unacknowledged,) = struct.unpack("i", fcntl.ioctl(s.fileno(), termios.TIOCOUTQ, bytes(4)))
        return int(unacknowledged) or s.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)

    return not transport.get_write_buffer_size() and not _ask(transport, missing)


def _ask(transport: asyncio.BaseTransport, question: Callable[[socket.socket], int]) -> int | None:
    """The answer of the transport's socket; None if there is none, as for a closed one."""
    connected = transport.get_extra_info("socket")
    if connected is None or connected.fileno() < 0:
        return None
    try:
        return question(connected)
    except OSError:
        return None
