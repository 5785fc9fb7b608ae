"""`Client` and `AsyncClient`: `POST /reward` with the arguments of `dare_reward.estimate`.

All is written once, as coroutines; the synchronous client blocks where the other one awaits. By default
a client sends what the method needs and no more: answers extracted here, mean entropies and token counts. The service
is a pure function of the request: repeating one is safe.
"""

from __future__ import annotations

import asyncio
import ipaddress
import json
import logging
import os
import random
import secrets
import sys
import threading
import time
import warnings
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial, wraps
from hashlib import blake2b
from pathlib import Path
from typing import Any, Concatenate, Literal, ParamSpec, Self, TypeVar, cast
from urllib.request import getproxies, proxy_bypass

import httpx

from ._outgoing import Part, Sending, ServiceLimits, parts, plain, service_address, split_address
from ._version import __version__
from .answers import ANSWERS_VERSION
from .errors import ConfigError, DareError, RefusedError, ReplyError, RequestError, UnavailableError
from .inputs import Group
from .methods import OTHER_NAMES, methods, with_defaults
from .options import OPTIONS
from .reply import CrossedReplyError, Reply, check_fit, read_json, with_reasons
from .runs.line import asked_for, of_groups
from .runs.log import run_log_of
from .scoring.request import LIMITS
from .scoring.score import score
from .scoring.update import Labelled, Update

__all__ = ["AsyncClient", "Client", "environment_token", "service_address", "split_address"]

logger = logging.getLogger("dare_reward")

JSON = Mapping[str, Any]
RETRY = frozenset({408, 502, 503, 504})
LONGEST_PAUSE = 30.0
# A reply says up to 11 bytes for a byte of the request, and as much again for each shadow method (both measured on
# rollouts without any content, the worst case); three times that is a bound that no honest reply comes near.
REPLY_FLOOR = 1 << 20
REPLY_RATIO = 32
# What can come of a try, beside a response: all of it means that there is no service for now.
AWAY = (httpx.HTTPError, httpx.StreamError, httpx.InvalidURL, OSError)


@dataclass(frozen=True, slots=True)
class Send:
    """One try. `max_reply` bounds the bytes of the reply's body."""

    method: Literal["GET", "POST"]
    path: str
    content: bytes = b""
    media_type: str = "application/json"
    max_reply: int = REPLY_FLOOR
    request_id: str = ""
    key: str = ""

    @property
    def headers(self) -> dict[str, str]:
        """The id is that of a try, the key that of the question."""
        return {"content-type": self.media_type, "x-request-id": self.request_id, "idempotency-key": self.key}


@dataclass(frozen=True, slots=True)
class _Response:
    """What came of a try, read whole; `request_id` is the one that was sent."""

    status: int
    headers: Mapping[str, str]
    content: bytes
    request_id: str

    @property
    def good(self) -> bool:
        return 200 <= self.status < 300

    @property
    def ours(self) -> bool:
        """The service itself says what is wrong, and no proxy before it."""
        return "problem+json" in self.headers.get("content-type", "")

    @property
    def passing(self) -> bool:
        """Another try may do better. Ray Serve's proxy answers 500 where a replica dies over a request."""
        return self.status in RETRY or (self.status == 500 and not self.ours)

    @property
    def problem(self) -> dict[str, Any]:
        try:
            body = read_json(self.content)
        except ReplyError:
            return {"detail": self.content[:200].decode("utf-8", "replace")}
        return body if isinstance(body, dict) else {}

    def __str__(self) -> str:
        return f"{self.status} {self.problem.get('detail', '')}".strip()


Outcome = _Response | Exception
T = TypeVar("T")
P = ParamSpec("P")


class _Base:
    """What both clients are: settings, the pinned configurations, and the conversation."""

    def __init__(
        self,
        url: str = "http://127.0.0.1:8000",
        *,
        token: str | None = None,
        timeout: float | None = None,
        retries: int | None = None,
        fallback: Literal["local"] | None = None,
        allow_change: bool = False,
        send_text: bool = False,
        send_tokens: bool = False,
        run_log: str | os.PathLike[str] | None = None,
        run_log_texts: str = "",
        record: bool = True,
        transport: Any = None,
    ) -> None:
        """Nothing is sent before the first call.

        Args:
            url: of the service, with or without its route /reward and ?token=
            token: of the service, if it has one; by default that of the address, or of the variable DARE_TOKEN;
                empty: not that of the variable
            timeout: seconds of one whole try, from the connection to the last byte of the reply; None: 120
            retries: further tries after a lost connection or a 408, 502, 503, 504, after Retry-After or pauses that
                double from 0.5 s; None: 4
            fallback: local: score in process when the service stays away or its reply cannot be used; the reply then
                carries the flag `local_fallback`
            allow_change: accept replies of another version or configuration than the first one's
            send_text: send texts instead of the answers extracted here
            send_tokens: send token entropies (as a frame) instead of their means
            run_log: a folder to which every scored group is appended, off the path of the call (docs/run-log.md)
            run_log_texts: what its lines contain beside numbers and answers: prompt, texts, or all
            record: False: the service keeps these calls out of its own run log and off its page
            transport: an asynchronous transport of httpx, for tests and proxies

        Raises:
            RequestError: `url` is no address of HTTP, or an option has a value that is none of its own.
        """
        for name, value in (("timeout", timeout), ("retries", retries), ("fallback", fallback)):
            OPTIONS[name].check(value)
        self.url, url_token = service_address(url)
        self.timeout = 120.0 if timeout is None else timeout
        self.retries = 4 if retries is None else retries
        self.fallback = fallback
        self.allow_change = allow_change
        self.sending = Sending(text=send_text, tokens=send_tokens)
        self._run_log = None if run_log is None or not str(run_log) else Path(run_log).absolute()
        self._logged = asked_for(run_log_texts)
        self._record = record
        self._host = split_address(self.url).hostname or ""
        self._token = token or url_token or (environment_token() if token is None else None)
        self._transport = transport
        self._pins: dict[str, tuple[str, str]] = {}
        self._limits: ServiceLimits | None = None
        self._connections: dict[tuple[int, asyncio.AbstractEventLoop], httpx.AsyncClient] = {}

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_connections": {}}

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.url!r})"

    def _connected(self) -> httpx.AsyncClient:
        """The httpx client whose connections were made in this process and event loop.

        Those of another process or a closed loop are dropped and not closed: after a fork the sockets are the parent's
        too, and two processes that read from one connection get each other's replies.
        """
        home = (os.getpid(), asyncio.get_running_loop())
        if home not in self._connections:
            try:
                made = httpx.AsyncClient(**self._options())
            except (ValueError, ImportError, OSError) as error:  # a proxy or certificates that the environment names
                raise RequestError(f"the environment does not suit HTTP: {error}", code="environment") from None
            for pid, loop in tuple(self._connections):
                if pid != home[0] or loop.is_closed():
                    self._connections.pop((pid, loop), None)
            self._connections[home] = made
        return self._connections[home]

    async def _carry_out(self, send: Send) -> Outcome:
        """What comes of a request, here and now or awaited; `_pause` likewise."""
        return await self._try(send)

    async def _pause(self, seconds: float) -> None:
        await asyncio.sleep(seconds)

    async def _try(self, send: Send) -> Outcome:
        """One request, its deadline over all of it: httpx's own timeouts begin anew with every read."""
        try:
            async with (
                asyncio.timeout(self.timeout),
                self._connected().stream(
                    send.method, send.path, content=send.content or None, headers=send.headers
                ) as response,
            ):
                body = await _body(response, send.max_reply)
                return _Response(response.status_code, response.headers, body, send.request_id)
        except TimeoutError:
            return httpx.ReadTimeout(f"no whole reply within {self.timeout:g} s")
        except (*AWAY, DareError) as error:
            return error

    async def close(self) -> None:
        """Close the connections. The next call opens new ones."""
        http = self._connections.pop((os.getpid(), asyncio.get_running_loop()), None)
        if http is not None:
            await http.aclose()

    def _options(self) -> dict[str, Any]:
        # Without a content encoding, the bytes that are counted are those that memory has to hold.
        headers = {"user-agent": f"dare-reward/{__version__}".encode(), "accept-encoding": b"identity"}
        if self._token:
            headers["authorization"] = f"Bearer {self._token}".encode()
        if not self._record:
            headers["dare-record"] = b"no"
        host, loopback = f"[{self._host}]" if ":" in self._host else self._host, _is_loopback(self._host)
        return {
            "base_url": self.url,
            "timeout": self.timeout,
            "headers": headers,
            "transport": self._transport,
            # A proxy cannot reach this machine's loopback, whatever HTTP_PROXY says.
            "mounts": {f"all://{host}": None} if loopback else None,
            # To read the authorities takes 20 ms: not where neither the service nor a proxy can ask for TLS.
            "verify": self.url.startswith("https:") or (not loopback and bool(getproxies())),
        }

    async def _converse(
        self, groups: Sequence[JSON], *, method: str, key: str = "", labelled: Labelled = "method", **options: Any
    ) -> Reply:
        """Score `groups`: in as many requests as the service's limits need, or in process if it is away and may be."""
        begun, key, method = time.monotonic(), key or secrets.token_hex(16), OTHER_NAMES.get(method, method)
        asked = {name: options.pop(name, None) for name in ("run", "step", "seed", "shadow")}
        asked |= {"shadow": asked["shadow"] or None, "labelled": None if labelled == "method" else labelled}
        update, params = Update.split(plain(options))
        labels = {k: v for k, v in asked.items() if v is not None} | update.asked()
        known = params  # and the operator's where the call has none, once the service has said them
        try:
            limits = await self._learn_limits()
            known = with_defaults(limits.defaults(method), params, labels.get("seed"))
            head = {"method": method, "params": dict(params), "answers_version": ANSWERS_VERSION, **labels}
            sending = replace(self.sending, text=self.sending.text or update.spans)
            replies: list[Reply] = []
            for part in parts(groups, head, sending, limits):
                if len(replies) == 1:
                    _check_split(update, method, known)
                ratio = REPLY_RATIO * (1 + len(labels.get("shadow", ())))
                most = REPLY_FLOOR + ratio * len(part.content)
                own = blake2b(f"{key}-{len(replies)}".encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()
                send = Send("POST", "/v1/reward", part.content, part.media_type, max_reply=most, key=own)
                replies.append(await self._ask(send, partial(self._read, head, part)))
        except (UnavailableError, ReplyError) as error:
            # What has not shown yet that it is a reward service is a wrong address, which nobody wants papered over.
            if self.fallback != "local" or (isinstance(error, ReplyError) and self._limits is None):
                raise
            logger.warning("the reward service gave no usable reply (%s): scoring in process", error)
            beside = {k: v for k, v in labels.items() if k in {"seed", "shadow", "labelled"}}
            whole = replace(LIMITS, groups=sys.maxsize, text=sys.maxsize)  # groups are split, texts stay here
            reply = score(groups, known, method=method, limits=whole, update=update, **beside).reply
            replies = [replace(reply, flags=(*reply.flags, "local_fallback"))]
        for reply in replies:
            self._check_pin(method, params, reply)
        reply = _merge(replies)
        if self._run_log is not None:
            place = {name: labels.get(name) for name in ("run", "step")}
            spent = time.monotonic() - begun
            made = partial(of_groups, groups, reply.groups, asked=self._logged, seconds=spent, params=known, **place)
            run_log_of(self._run_log, self._logged).add_made(made, len(groups))
        return reply

    async def _ask(self, send: Send, read: Callable[[_Response], T]) -> T:
        """The reply. Another request's is a failed try, because a new connection may bring ours."""
        for _ in range(self.retries):
            response = await self._insist(send)
            try:
                return read(response)
            except CrossedReplyError as error:
                logger.warning("%s: trying again", error)
        return read(await self._insist(send))

    def _read(self, head: JSON, part: Part, response: _Response) -> Reply:
        """The reply, if it answers what was asked."""
        reply, asked = Reply.from_json(read_json(response.content)), response.request_id
        if reply.request_id != asked:
            self._connections.clear()  # whatever crossed this connection's replies may cross the next ones too
        output = methods()[head["method"]].output if head["method"] in methods() else None
        check_fit(reply, head, [sent.given for sent in part.groups], request_id=asked, output=output)
        groups = [
            with_reasons(g if g.group_id == sent.name else replace(g, group_id=sent.name), sent.unread)
            for g, sent in zip(reply.groups, part.groups, strict=True)
        ]
        return replace(reply, groups=tuple(groups))

    async def _insist(self, send: Send) -> _Response:
        """The response, after as many tries as are allowed."""
        key = send.key or secrets.token_hex(16)
        for attempt in range(self.retries + 1):
            outcome = await self._carry_out(replace(send, request_id=secrets.token_hex(16), key=key))
            if isinstance(outcome, DareError):
                raise outcome
            if isinstance(outcome, _Response) and not outcome.passing:
                if outcome.good:
                    return outcome
                raise _refused(outcome, self._proxy)
            if attempt < self.retries:
                await self._pause(_pause(attempt, outcome))
        what = _why(outcome) if isinstance(outcome, httpx.ConnectError) else f"{type(outcome).__name__}: {outcome}"
        what = str(outcome) if isinstance(outcome, _Response) else what
        raise UnavailableError(f"{self.url}{send.path}: {what} ({self.retries + 1} tries){self._proxy}")

    @property
    def _proxy(self) -> str:
        """The proxy of the environment that requests go through, and how to leave it out; nothing without one."""
        scheme, host = self.url.partition("://")[0], self._host
        proxies = {} if self._transport or _is_loopback(host) or proxy_bypass(host) else getproxies()
        proxy = proxies.get(scheme) or proxies.get("all", "")
        where = proxy.rpartition("@")[2]  # no password
        return f". It was asked through the proxy {where} of the environment: NO_PROXY={host} leaves it out" * bool(
            proxy
        )

    async def _learn_limits(self) -> ServiceLimits:
        if self._limits is None:
            info, self._limits = self._read_info(await self._insist(Send("GET", "/info")))
            if self._token and info.get("auth") is False:
                logger.warning("%s has no token: anybody can use it, and ours is ignored (DARE_TOKEN)", self.url)
        return self._limits

    def _read_info(self, response: _Response) -> tuple[dict[str, Any], ServiceLimits]:
        """What `GET /info` says; ReplyError where another server answers."""
        try:
            info = read_json(response.content)
            return dict(info), ServiceLimits.of(info["settings"])
        except (ReplyError, ValueError, KeyError, TypeError, AttributeError):
            raise ReplyError(
                f"{self.url}/info is not that of a reward service: is the address right?{self._proxy}"
            ) from None

    def _check_pin(self, method: str, params: Mapping[str, Any], reply: Reply) -> None:
        """A run trains on one configuration, the first reply's."""
        if (theirs := reply.answers_version) != ANSWERS_VERSION:
            text = f"the service compares answers by version {theirs}, we extract by {ANSWERS_VERSION}"
            warnings.warn(text, RuntimeWarning, stacklevel=2)
        key = json.dumps([method, {k: v for k, v in sorted(params.items()) if k != "seed"}])
        scored_by = (reply.config_id, reply.version)
        pinned = self._pins.setdefault(key, scored_by)
        if pinned == scored_by or self.allow_change:
            return
        where = "in process" if "local_fallback" in reply.flags else self.url
        raise ConfigError(
            f"{where} scores {method} by configuration {scored_by[0][:12]} of version {scored_by[1]}; this client "
            f"began with {pinned[0][:12]} of {pinned[1]}. Restart the run, or pass allow_change=True"
        )


class AsyncClient(_Base):
    """For asyncio; picklable. Each event loop has connections of its own; `close` closes those of the running loop."""

    async def reward(
        self,
        /,
        groups: Sequence[Group],
        *,
        method: str = "dare",
        run: str | None = None,
        step: int | None = None,
        seed: int | None = None,
        labelled: Labelled = "method",
        advantage: str | None = None,
        shadow: Sequence[str] = (),
        key: str = "",
        **params: Any,
    ) -> Reply:
        """The reply for `groups`.

        Args:
            groups: as of `dare_reward.estimate`
            method: the estimator
            run: name of the run in the service's log
            step: step of the training, for the log
            seed: for methods that draw
            labelled: gt: a group that has a label gets the rewards of `gt`, all others the method's
            advantage: also return advantages by this estimator
            shadow: methods to compare with in the diagnostics
            key: of a call that may repeat an earlier one, whose key it has: the service logs the groups once
            params: parameters of the method, as of `dare_reward.estimate`

        Raises:
            RequestError: the request is invalid, and was not sent.
            RefusedError: the service refused it.
            UnavailableError: no reply in all tries.
            ReplyError: the reply does not fit the request.
            ConfigError: another configuration or version than that of the first reply.
        """
        options = {"run": run, "step": step, "seed": seed, "shadow": shadow, "advantage": advantage, **params}
        return await self._converse(groups, method=method, key=key, labelled=labelled, **options)

    async def rewards(
        self, /, groups: Sequence[Group], *, method: str = "dare", **params: Any
    ) -> list[list[float | None]]:
        """One reward per rollout; None for the rollouts of a group that could not be scored."""
        reply = await self._converse(groups, method=method, **params)
        if reply.output != "rewards":
            words = f"{reply.method} returns {reply.output}: call reward() and read its groups"
            raise RequestError(words, loc=("method",))
        return [
            list(found.rewards or [None] * len(sent["rollouts"]))
            for found, sent in zip(reply.groups, groups, strict=True)
        ]

    async def wait_ready(self, seconds: float = 60.0) -> None:
        """Return once the service is ready.

        Raises:
            UnavailableError: it is not ready within `seconds`.
        """
        end = time.monotonic() + seconds
        while True:
            outcome = await self._carry_out(Send("GET", "/ready"))
            if isinstance(outcome, _Response) and outcome.good:
                return
            if time.monotonic() >= end:
                raise UnavailableError(
                    f"{self.url} is not ready{f' after {seconds:g} s' * (seconds > 0)}: {_why(outcome)}{self._proxy}"
                )
            await self._pause(0.2)

    async def info(self) -> dict[str, Any]:
        """What the service says of itself, asked once.

        Raises:
            UnavailableError: nobody answers, or a gateway for a service that is not there.
            ReplyError: another server answers.
        """
        outcome = await self._carry_out(Send("GET", "/info"))
        if isinstance(outcome, DareError):
            raise outcome
        if not isinstance(outcome, _Response) or outcome.status in {429, *RETRY}:
            raise UnavailableError(f"{self.url} does not answer: {_why(outcome)}{self._proxy}")
        return self._read_info(outcome)[0]

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()


def _blocking(
    method: Callable[Concatenate[AsyncClient, P], Coroutine[Any, Any, T]],
) -> Callable[Concatenate[Client, P], T]:
    """The method of a client whose every step blocks, so that the coroutine never waits."""

    @wraps(method)
    def blocking(self: Client, /, *args: P.args, **options: P.kwargs) -> T:
        try:
            method(cast("AsyncClient", self), *args, **options).send(None)
        except StopIteration as stop:
            result: T = stop.value
            return result
        raise AssertionError("a synchronous client never waits")

    blocking.__qualname__ = f"Client.{method.__name__}"  # by which it pickles, and which a traceback's reader looks for
    return blocking


class Client(_Base):
    """A synchronous client; picklable, safe to share between threads, a context manager."""

    reward = _blocking(AsyncClient.reward)
    rewards = _blocking(AsyncClient.rewards)
    wait_ready = _blocking(AsyncClient.wait_ready)
    info = _blocking(AsyncClient.info)

    def close(self) -> None:  # type: ignore[override]
        """Close the connections. The next call opens new ones."""
        _elsewhere(super().close())

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    async def _carry_out(self, send: Send) -> Outcome:
        return _elsewhere(self._try(send))

    async def _pause(self, seconds: float) -> None:
        time.sleep(seconds)  # noqa: ASYNC251  (nobody else waits in this coroutine)


async def _body(response: httpx.Response, most: int) -> bytes:
    """The body, which is bounded by its reader: of a refusal what is longer is left out."""
    encoding, held = response.headers.get("content-encoding", "identity").strip().lower(), bytearray()
    if encoding not in {"", "identity"}:
        if response.is_success:
            raise ReplyError(f"a reply in the encoding {encoding[:64]!r}, which we did not ask for")
        return b""
    async for chunk in response.aiter_bytes():
        if len(held) + len(chunk) <= most:
            held += chunk
        elif response.is_success:
            raise ReplyError(f"a reply of more than {most} bytes, which no service of ours sends")
    return bytes(held)


@cache
def _loop(pid: int) -> asyncio.AbstractEventLoop:
    """The event loop of this process in which synchronous clients send, in a thread of its own."""
    loop = asyncio.new_event_loop()
    threading.Thread(target=loop.run_forever, name=f"dare-reward-{pid}", daemon=True).start()
    return loop


def _elsewhere(work: Coroutine[Any, Any, T]) -> T:
    """What comes of work in that loop. Its caller alone is interrupted: what was sent ends by its deadline."""
    return asyncio.run_coroutine_threadsafe(work, _loop(os.getpid())).result()


def environment_token(environment: Mapping[str, str] = os.environ) -> str | None:
    """The token in DARE_TOKEN; of several, which a service may have, the first."""
    return next(iter(environment.get("DARE_TOKEN", "").split()), None)


def _is_loopback(host: str) -> bool:
    """`host` names this machine itself."""
    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _pause(attempt: int, outcome: Outcome) -> float:
    """Retry-After, else 0.5 s doubled each time, spread so that many clients do not come back together."""
    if isinstance(outcome, _Response) and outcome.headers.get("retry-after", "").isdecimal():
        return min(float(outcome.headers["retry-after"]), LONGEST_PAUSE)
    return min(0.5 * 2.0**attempt, LONGEST_PAUSE) * (0.75 + 0.5 * random.random())  # noqa: S311


def _check_split(update: Update, method: str, params: Mapping[str, Any]) -> None:
    """What is over a request's groups is another number over those of a part."""
    known = methods().get(method)
    values = {} if known is None else {s.name: s.default for s in known.specs}
    if remedy := update.over_request(known, {**values, **params}):
        raise RequestError(
            f"{update.advantage} is over all rollouts of a request, and these groups travel in several: {remedy}",
            loc=("advantage",),
            code="split",
        )


def _why(outcome: Outcome) -> str:
    """What the last try met, and what to do."""
    text = str(outcome)
    if isinstance(outcome, _Response):
        return f"the last answer was {text}: is the service started, and the address right?"
    if "CERTIFICATE_VERIFY_FAILED" in text:
        reason = text.partition("CERTIFICATE_VERIFY_FAILED] ")[2].partition(" (_ssl")[0]
        return f"{reason}: if your own authority signed it, set SSL_CERT_FILE=/path/ca.crt"
    if "[SSL" in text:
        return f"this port does not speak TLS as https:// wants it ({text}): is it http://, or another port?"
    if _is_refused(outcome):
        return "connection refused: is the service started, and the address right?"
    return f"is the service started, and the address right? The last error was {type(outcome).__name__}: {text}"


def _is_refused(outcome: Outcome) -> bool:
    """Nobody listens there. httpx says of several addresses only that all failed, and keeps what each said below."""
    below: BaseException | None = outcome if isinstance(outcome, Exception) else None
    while below is not None and not isinstance(below, ConnectionRefusedError):
        of_several = isinstance(below, BaseExceptionGroup) and below.exceptions[0]
        below = of_several or below.__cause__ or below.__context__
    return below is not None


def _refused(response: _Response, proxy: str) -> DareError:
    problem = response.problem
    if not response.ours:
        problem["detail"] = f"{problem.get('detail', '')}{proxy}"
    if response.status >= 500:
        return UnavailableError(f"{response.status}: {problem.get('detail', '')}")
    if response.status >= 400:
        return RefusedError(response.status, problem)
    where = response.headers.get("location", "nowhere")[:200]
    return ReplyError(f"{response.status}: redirected to {where}; give the client the service's own address")


def _merge(replies: Sequence[Reply]) -> Reply:
    """One reply of the parts. Diagnostics over a request cannot be added up; those of a split one are listed."""
    if len(replies) == 1:
        return replies[0]
    if len({r.config_id for r in replies}) > 1:
        raise ConfigError("the service changed its configuration within one call")
    groups = tuple(g for r in replies for g in r.groups)
    flags = tuple(dict.fromkeys(f for r in replies for f in r.flags))
    parts = [dict(r.diagnostics) for r in replies]
    return replace(replies[0], groups=groups, flags=flags, diagnostics={"parts": parts})
