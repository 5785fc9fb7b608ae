"""Receiving a request body: limits first, then into one buffer of the stated size, under a deadline.

Starlette's `Request.body()` joins chunks, which holds the body twice; 96 MiB would cost 192.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from dare_reward.errors import DareError
from dare_reward.wire import MEDIA_TYPES

from .problems import RefusalError
from .settings import Settings

__all__ = ["Admission", "Form", "form", "receive"]

Receive = Callable[[], Awaitable[Any]]


class Disconnected(DareError):  # noqa: N818  (an event, nobody is left to tell)
    """The client went away before its body was complete."""


@dataclass(slots=True)
class Admission:
    """Bytes of bodies held at once. A body is let in while there is room for it, or when it is alone."""

    limit: int
    held: int = 0

    @contextmanager
    def hold(self, size: int) -> Iterator[Lease]:
        """Room for `size` bytes, and for more as they come, until the end of the block."""
        lease = Lease(self)
        lease.grow(size)
        try:
            yield lease
        finally:
            self.held -= lease.size


@dataclass(slots=True)
class Lease:
    """The bytes that one request holds."""

    admission: Admission
    size: int = 0

    def grow(self, more: int) -> None:
        others = self.admission.held - self.size
        if others and self.admission.held + more > self.admission.limit:
            raise RefusalError(
                503,
                f"{others} bytes in flight and {self.size + more} more exceed {self.admission.limit} "
                "(DARE_MAX_INFLIGHT_BYTES); try again",
                code="busy",
                headers={"Retry-After": "1"},
            )
        self.size += more
        self.admission.held += more


@dataclass(frozen=True, slots=True)
class Form:
    """How a body is written, and how large it may be."""

    name: str  # "json" or "frame"
    limit: int
    variable: str


def form(headers: Mapping[str, str], settings: Settings, *, frames: bool = True) -> Form:
    """From the media type, or RefusalError 415; `frames`: the route takes them."""
    encoding = headers.get("content-encoding", "identity").strip().lower()
    if encoding not in {"", "identity"}:
        raise RefusalError(
            415, "Content-Encoding is not supported: entropies do not compress, send the body as it is", code="encoding"
        )
    media = headers.get("content-type", "").partition(";")[0].strip().lower()
    if media == "application/json":
        return Form("json", min(settings.max_json_bytes, settings.max_body_bytes), "DARE_MAX_JSON_BYTES")
    if frames and media in MEDIA_TYPES:
        return Form("frame", settings.max_body_bytes, "DARE_MAX_BODY_BYTES")
    known = f"application/json or {MEDIA_TYPES[0]}" if frames else "application/json"
    raise RefusalError(415, f"Content-Type must be {known}", code="media_type")


def stated_length(headers: Mapping[str, str], kind: Form) -> int | None:
    text = headers.get("content-length")
    if text is None:
        return None
    if not (text.isascii() and text.isdigit()):
        raise RefusalError(400, "Content-Length is not a number", code="content_length")
    digits = text.lstrip("0")
    if len(digits) > 18 or int(digits or "0") > kind.limit:  # `int` gives up at 4300 digits
        raise _too_large(kind)
    return int(digits or "0")


async def receive(receive: Receive, size: int | None, kind: Form, lease: Lease, *, seconds: float) -> bytearray:
    """The whole body. `size` is the stated length; without one the buffer grows, under the same limit."""
    try:
        async with asyncio.timeout(seconds):
            return await _collect(receive, size, kind, lease)
    except TimeoutError:
        raise RefusalError(
            408, f"the body did not arrive within {seconds:g} s (DARE_DEADLINE)", code="deadline"
        ) from None


async def _collect(receive: Receive, size: int | None, kind: Form, lease: Lease) -> bytearray:
    buffer, at, more = bytearray(size or 0), 0, True
    while more:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise Disconnected
        chunk, more = message.get("body", b""), message.get("more_body", False)
        end = at + len(chunk)
        if size is None:
            if end > kind.limit:
                raise _too_large(kind)
            lease.grow(len(chunk))
            buffer += chunk
        elif end > size:
            raise RefusalError(400, f"more than the {size} bytes that Content-Length states", code="content_length")
        else:
            buffer[at:end] = chunk
        at = end
    if size is not None and at != size:
        raise RefusalError(400, f"{at} bytes, but Content-Length states {size}", code="content_length")
    return buffer


def _too_large(kind: Form) -> RefusalError:
    advice = "send a frame, or mean entropies, or split by group" if kind.name == "json" else "split by group"
    return RefusalError(413, f"a {kind.name} body may hold {kind.limit} bytes ({kind.variable}): {advice}", code="body")
