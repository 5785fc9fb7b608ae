"""One deadline over a whole try of httpx's synchronous client, whose own timeouts begin anew with every read.

A server that sends a byte now and then never exceeds a timeout for one read. `Deadline` is a number of seconds that
remembers when it began; the streams of a client that went through `install` read and write only for what is left of it.
The asynchronous client needs none of this: `asyncio.timeout` ends whatever it waits for.
"""

from __future__ import annotations

import time
from typing import Any, Self

import httpx

PIECE = 64 << 10


class Deadline(float):
    """Seconds from now, as a timeout of httpx."""

    end: float

    def __new__(cls, seconds: float) -> Self:
        deadline = super().__new__(cls, seconds)
        deadline.end = time.monotonic() + seconds
        return deadline

    def left(self) -> float:
        """The seconds that remain; httpx.ReadTimeout if there are none."""
        if (left := self.end - time.monotonic()) <= 0:
            raise httpx.ReadTimeout(f"no whole reply within {self:g} s")
        return left


def install(client: httpx.Client) -> httpx.Client:
    """Make `client` keep the deadlines that its requests are given as timeouts.

    httpx has no option for the network backend, which its pools do have, so this reaches into its transports. One that
    is no HTTPTransport has no pool; its replies are still read chunk by chunk under the deadline.
    """
    for transport in (client._transport, *client._mounts.values()):  # noqa: SLF001
        pool = getattr(transport, "_pool", None)
        if pool is not None:
            pool._network_backend = _Backend(pool._network_backend)  # noqa: SLF001
    return client


def _left(timeout: float | None) -> float | None:
    return timeout.left() if isinstance(timeout, Deadline) else timeout


class _Backend:
    """httpcore's network backend, whose streams keep deadlines."""

    def __init__(self, inner: Any) -> None:
        self._inner = inner

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def connect_tcp(self, host: str, port: int, timeout: float | None = None, **options: Any) -> _Stream:
        return _Stream(self._inner.connect_tcp(host, port, timeout=_left(timeout), **options))


class _Stream:
    def __init__(self, inner: Any) -> None:
        self._inner = inner

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        data: bytes = self._inner.read(max_bytes, _left(timeout))
        return data

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        for begin in range(0, len(buffer), PIECE):  # a write may wait for each part of what it is given
            self._inner.write(buffer[begin : begin + PIECE], _left(timeout))

    def start_tls(self, ssl_context: Any, server_hostname: str | None = None, timeout: float | None = None) -> _Stream:
        return _Stream(self._inner.start_tls(ssl_context, server_hostname, _left(timeout)))
