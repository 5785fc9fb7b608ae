"""What a request says: its URL, and its body, which is received into one buffer under limits and two time-outs.

And the threads that work on it beside the event loop: nobody works for a client that has gone.

Starlette's `Request.body()` joins chunks, which holds the body twice; 96 MiB would cost 192. A stated length is checked
against the limits and reserves nothing: a client that states 128 MiB and sends none must not keep others out.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from concurrent.futures import Executor, ThreadPoolExecutor
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Self, TypeVar

from fastapi import Request
from starlette.datastructures import URL

from dare_reward.errors import DareError, RequestError
from dare_reward.params import query_texts
from dare_reward.wire import MEDIA_TYPES

from .problems import EXCHANGE, RefusalError
from .settings import Settings

T = TypeVar("T")
Receive = Callable[[], Awaitable[Any]]
Watch = Callable[[], None]

INLINE_BYTES = 8 << 10  # of one rollout, whose answer is then read on the event loop: 3 ms at most
RESERVE = 64 << 10  # a single rollout with its text: such posts are let in however much else is held


class Disconnected(DareError):  # noqa: N818  (an event, nobody is left to tell)
    """The client went away before its body was complete."""


@dataclass(slots=True)
class Admission:
    """Bytes of bodies held at once, counted as they arrive.

    A body is let in while there is room for it, when it is alone, and always up to its first RESERVE bytes.
    """

    limit: int
    held: int = 0


@dataclass(slots=True)
class Lease:
    """Room for the bytes of one body as they come, until the end of its block."""

    admission: Admission
    size: int = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.admission.held -= self.size

    def grow(self, more: int) -> None:
        others = self.admission.held - self.size
        if others and self.size + more > RESERVE and self.admission.held + more > self.admission.limit:
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
    remedy: str  # of a larger one


def form(headers: Mapping[str, str], settings: Settings, *, frames: bool = True) -> Form:
    """From the media type, or RefusalError 415; `frames`: the route takes them."""
    encoding = headers.get("content-encoding", "identity").strip().lower()
    if encoding not in {"", "identity"}:
        raise RefusalError(
            415, "Content-Encoding is not supported: entropies do not compress, send the body as it is", code="encoding"
        )
    media = headers.get("content-type", "").partition(";")[0].strip().lower()
    if media == "application/json":
        limit = min(settings.max_json_bytes, settings.max_body_bytes)
        raised = ", or raise DARE_MAX_BODY_BYTES" if limit < settings.max_json_bytes else ""
        return Form("json", limit, f"send a frame, or mean entropies, or split by group{raised}")
    if frames and media in MEDIA_TYPES:
        return Form("frame", settings.max_body_bytes, "split by group, or raise DARE_MAX_BODY_BYTES")
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


async def receive(
    receive: Receive, size: int | None, kind: Form, lease: Lease, *, seconds: float, idle: float
) -> bytearray:
    """The whole body: at most `seconds` for all of it, and `idle` without a byte. `size` is the stated length."""
    now = asyncio.get_running_loop().time
    end, buffer, more = now() + seconds, bytearray(), True
    try:
        async with asyncio.timeout_at(min(end, now() + idle)) as limit:
            while more:
                message = await receive()
                if message["type"] == "http.disconnect":
                    raise Disconnected
                chunk, more = message.get("body", b""), message.get("more_body", False)
                limit.reschedule(min(end, now() + idle))
                if size is not None and len(buffer) + len(chunk) > size:
                    why = f"more than the {size} bytes that Content-Length states"
                    raise RefusalError(400, why, code="content_length")
                if len(buffer) + len(chunk) > kind.limit:
                    raise _too_large(kind)
                lease.grow(len(chunk))
                buffer += chunk
    except TimeoutError:
        late = f"the body did not arrive within {seconds:g} s (DARE_DEADLINE)"
        stalled = f"no byte of the body arrived for {idle:g} s"
        raise RefusalError(408, late if now() >= end else stalled, code="deadline") from None
    if size is not None and len(buffer) != size:
        raise RefusalError(400, f"{len(buffer)} bytes, but Content-Length states {size}", code="content_length")
    return buffer


def _too_large(kind: Form) -> RefusalError:
    return RefusalError(413, f"a {kind.name} body may hold {kind.limit} bytes: {kind.remedy}", code="body")


# --- the URL ----------------------------------------------------------------------------------------------------------


@lru_cache(64)  # a trainer posts to one URL
def query(raw: bytes) -> Mapping[str, str]:
    """The query string of a grouped request."""
    out = query_texts(raw.decode("latin-1")) if raw else {}
    if out.get("detail", "full") not in {"full", "rewards"}:
        raise RequestError("must be full or rewards", loc=("query", "detail"), code="value")
    return out


def query_string(request: Request) -> str:
    """The query string as it came. `request.url` takes it for UTF-8, and the Host header for a host."""
    raw: bytes = request.scope["query_string"]
    return raw.decode("latin-1")


def address(request: Request) -> str:
    """The URL of the service as it was asked: that of the request, without its route and query."""
    return str(URL(scope={**request.scope, "query_string": b""})).rpartition("/")[0].removesuffix("/v1")


def recorded(request: Request) -> bool:
    """Whether the run log is told of a request; a group of several needs the word of each."""
    return request.headers.get("dare-record", "").lower() != "no"


# --- the work on it --------------------------------------------------------------------------------------------------


class Workers:
    """Executors by kind of work: a storm of whole groups does not keep rollouts from being joined.

    joins    single rollouts and their groups
    groups   requests of whole groups
    """

    def __init__(self) -> None:
        self.joins = ThreadPoolExecutor(2, "join")
        self.groups = ThreadPoolExecutor(2, "estimate")

    def stop(self) -> None:
        """What has not begun will not; what runs is not waited for."""
        for executor in (self.joins, self.groups):
            executor.shutdown(wait=False, cancel_futures=True)


async def unless_gone(executor: Executor, work: Callable[[Watch], T], request: Request) -> T:
    """`work(watch)` on a thread, or Disconnected as soon as our server tells that the client is gone.

    Work that has not begun then never does; what runs ends where it calls `watch`, which raises.
    """
    gone = list[None]()

    def watch() -> None:
        if gone:
            raise Disconnected

    def leave() -> None:
        gone.append(None)
        result.cancel()

    result = asyncio.get_running_loop().run_in_executor(executor, work, watch)
    server = request.scope.get("extensions", {}).get(EXCHANGE)  # another server's clients are worked for to the end
    if server is not None:
        server.watch(leave)
    try:
        return await result
    except asyncio.CancelledError:
        if gone:
            raise Disconnected from None
        raise
    finally:
        leave()
        if server is not None:
            server.watch(None)
