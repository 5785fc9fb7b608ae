"""`Client` and `AsyncClient`: `POST /reward` with the calls of `dare_reward.estimate`.

One conversation is written once, as a generator that yields what to do next (`Send`, `Sleep`) and is resumed with what
came of it; the two clients only carry that out. By default a client sends what the method needs and no more: answers
extracted here, mean entropies and token counts. The service is a pure function of the request: repeating one is safe.
"""

from __future__ import annotations

import asyncio
import json
import logging
import math
import random
import sys
import time
import warnings
from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass, replace
from types import TracebackType
from typing import Any, Literal, Self

import httpx

from ._outgoing import Part, Sending, parts, plain, split_address
from ._request import LIMITS
from ._scoring import score
from ._version import __version__
from .advantages import ADVANTAGES
from .answers import ANSWERS_VERSION
from .errors import ConfigError, DareError, RefusedError, ReplyError, RequestError, UnavailableError
from .inputs import Group
from .reply import Reply

__all__ = ["AsyncClient", "Client"]

logger = logging.getLogger("dare_reward")

JSON = Mapping[str, Any]
RETRY = frozenset({408, 502, 503, 504})
LONGEST_PAUSE = 30.0


@dataclass(frozen=True, slots=True)
class Send:
    method: Literal["GET", "POST"]
    path: str
    content: bytes = b""
    media_type: str = "application/json"


@dataclass(frozen=True, slots=True)
class Sleep:
    seconds: float


@dataclass(frozen=True, slots=True)
class _Limits:
    """What the service says that one request may hold, and its own parameters where a request sets none."""

    groups: int
    json_bytes: int
    frame_bytes: int
    method: str
    params: Mapping[str, Any]

    def defaults(self, method: str) -> Mapping[str, Any]:
        """The operator's parameters of `method`."""
        return self.params if method == self.method else {}


Step = Send | Sleep
Outcome = httpx.Response | httpx.TransportError | None
Conversation = Generator[Step, Outcome, Reply]


class _Base:
    """What both clients are: settings, the pinned configurations, and the conversation."""

    def __init__(
        self,
        url: str = "http://127.0.0.1:8000",
        *,
        token: str | None = None,
        timeout: float = 120.0,
        retries: int = 4,
        fallback: Literal["local"] | None = None,
        allow_change: bool = False,
        send_text: bool = False,
        send_tokens: bool = False,
        transport: Any = None,
    ) -> None:
        """Nothing is sent before the first call; RequestError if `url` is no address of HTTP.

        timeout       seconds of one try
        retries       further tries after a lost connection or a 408, 502, 503, 504; pauses double from 0.5 s, or follow
                      Retry-After
        fallback      "local": score in process when the service stays away; the reply carries the flag `local_fallback`
        allow_change  accept replies of another version or configuration than the first one's
        send_text     send texts instead of the answers extracted here
        send_tokens   send token entropies (as a frame) instead of their means
        transport     an httpx transport, for tests and proxies
        """
        self.url = split_address(url).geturl().rstrip("/")
        self.timeout = timeout
        self.retries = retries
        self.fallback = fallback
        self.allow_change = allow_change
        self.sending = Sending(text=send_text, tokens=send_tokens)
        self._token = token
        self._transport = transport
        self._pins: dict[str, tuple[str, str]] = {}
        self._limits: _Limits | None = None
        self._http: Any = None

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_http": None}

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.url!r})"

    def _options(self) -> dict[str, Any]:
        headers = {"user-agent": f"dare-reward/{__version__}".encode()}
        if self._token:
            headers["authorization"] = f"Bearer {self._token}".encode()
        return {"base_url": self.url, "timeout": self.timeout, "headers": headers, "transport": self._transport}

    def _converse(
        self, groups: Sequence[JSON], method: str, labels: Mapping[str, Any], params: Mapping[str, Any]
    ) -> Conversation:
        """Score `groups`: in as many requests as the service's limits need, or in process if it is away and may be."""
        params = plain(params)
        try:
            limits = yield from self._learn_limits()
            head = {"method": method, "params": dict(params), "answers_version": ANSWERS_VERSION, **labels}
            replies: list[Reply] = []
            for part in parts(
                groups,
                head,
                sending=self.sending,
                defaults=limits.defaults(method),
                max_groups=limits.groups,
                json_bytes=limits.json_bytes,
                frame_bytes=limits.frame_bytes,
            ):
                if replies:
                    _check_split(labels.get("advantage"))
                response = yield from self._insist(Send("POST", "/v1/reward", part.content, part.media_type))
                replies.append(_read(response, part))
        except UnavailableError as error:
            if self.fallback != "local":
                raise
            logger.warning("the reward service is away (%s): scoring in process", error)
            asked = {k: v for k, v in labels.items() if k in {"seed", "advantage", "shadow"}}
            whole = replace(LIMITS, groups=sys.maxsize)  # what would have travelled in several requests
            reply = score(groups, params, method=method, limits=whole, **asked)
            replies = [replace(reply, flags=(*reply.flags, "local_fallback"))]
        for reply in replies:
            self._check_pin(method, params, reply)
        return _merge(replies)

    def _insist(self, send: Send) -> Generator[Step, Outcome, httpx.Response]:
        """The response, after as many tries as are allowed."""
        problem = ""
        for attempt in range(self.retries + 1):
            outcome = yield send
            if isinstance(outcome, httpx.Response):
                if outcome.status_code < 400:
                    return outcome
                if outcome.status_code not in RETRY:
                    raise _refused(outcome)
                problem = f"{outcome.status_code} {_problem(outcome).get('detail', '')}".strip()
            else:
                problem = f"{type(outcome).__name__}: {outcome}"
            if attempt < self.retries:
                yield Sleep(_pause(attempt, outcome))
        raise UnavailableError(f"{self.url}{send.path}: {problem} ({self.retries + 1} tries)")

    def _learn_limits(self) -> Generator[Step, Outcome, _Limits]:
        if self._limits is None:
            response = yield from self._insist(Send("GET", "/info"))
            try:
                self._limits = _limits(response.json()["settings"])
            except (ValueError, KeyError, TypeError):
                raise ReplyError(f"{self.url}/info is not that of a reward service: is the address right?") from None
        return self._limits

    def _check_pin(self, method: str, params: Mapping[str, Any], reply: Reply) -> None:
        """A run trains on one configuration: the first reply's."""
        if reply.answers_version != ANSWERS_VERSION:
            text = f"the service compares answers by version {reply.answers_version}, we extract by {ANSWERS_VERSION}"
            warnings.warn(text, RuntimeWarning, stacklevel=2)
        key = json.dumps([method, {k: v for k, v in sorted(params.items()) if k != "seed"}])
        found = (reply.config_id, reply.version)
        pinned = self._pins.setdefault(key, found)
        if pinned == found or self.allow_change:
            return
        where = "in process" if "local_fallback" in reply.flags else self.url
        raise ConfigError(
            f"{where} scores {method} by configuration {found[0][:12]} of version {found[1]}; this client began with "
            f"{pinned[0][:12]} of {pinned[1]}. Restart the run, or pass allow_change=True"
        )


class Client(_Base):
    """A synchronous client; picklable, safe to share between threads, a context manager."""

    def reward(
        self,
        groups: Sequence[Group],
        *,
        method: str = "dare",
        run: str | None = None,
        step: int | None = None,
        seed: int | None = None,
        advantage: str | None = None,
        shadow: Sequence[str] = (),
        **params: Any,
    ) -> Reply:
        """The reply for `groups`. Raises RefusedError, UnavailableError, ReplyError or ConfigError."""
        conversation = self._converse(groups, method, _labels(run, step, seed, advantage, shadow), params)
        outcome: Outcome = None
        while True:
            try:
                step_ = conversation.send(outcome)
            except StopIteration as stop:
                reply: Reply = stop.value
                return reply
            if isinstance(step_, Sleep):
                time.sleep(step_.seconds)
                outcome = None
            else:
                outcome = self._carry_out(step_)

    def rewards(self, groups: Sequence[Group], *, method: str = "dare", **params: Any) -> list[list[float | None]]:
        """One reward per rollout; None for the rollouts of a group that could not be scored."""
        return _rewards(groups, self.reward(groups, method=method, **params))

    def wait_ready(self, seconds: float = 60.0) -> None:
        """Return once the service is ready; UnavailableError if it is not within `seconds`."""
        end = time.monotonic() + seconds
        while True:
            outcome = self._carry_out(Send("GET", "/ready"))
            if isinstance(outcome, httpx.Response) and outcome.is_success:
                return
            if time.monotonic() >= end:
                raise UnavailableError(
                    f"{self.url} is not ready after {seconds:g} s: is the service started, and the address right?"
                )
            time.sleep(0.2)

    def close(self) -> None:
        if self._http is not None:
            self._http.close()
            self._http = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _carry_out(self, send: Send) -> httpx.Response | httpx.TransportError:
        if self._http is None:
            self._http = httpx.Client(**self._options())
        try:
            response: httpx.Response = self._http.request(
                send.method, send.path, content=send.content or None, headers={"content-type": send.media_type}
            )
        except httpx.TransportError as error:
            return error
        return response


class AsyncClient(_Base):
    """The same for asyncio; one per event loop."""

    async def reward(
        self,
        groups: Sequence[Group],
        *,
        method: str = "dare",
        run: str | None = None,
        step: int | None = None,
        seed: int | None = None,
        advantage: str | None = None,
        shadow: Sequence[str] = (),
        **params: Any,
    ) -> Reply:
        """The reply for `groups`. Raises RefusedError, UnavailableError, ReplyError or ConfigError."""
        conversation = self._converse(groups, method, _labels(run, step, seed, advantage, shadow), params)
        outcome: Outcome = None
        while True:
            try:
                step_ = conversation.send(outcome)
            except StopIteration as stop:
                reply: Reply = stop.value
                return reply
            if isinstance(step_, Sleep):
                await asyncio.sleep(step_.seconds)
                outcome = None
            else:
                outcome = await self._carry_out(step_)

    async def rewards(
        self, groups: Sequence[Group], *, method: str = "dare", **params: Any
    ) -> list[list[float | None]]:
        """One reward per rollout; None for the rollouts of a group that could not be scored."""
        return _rewards(groups, await self.reward(groups, method=method, **params))

    async def wait_ready(self, seconds: float = 60.0) -> None:
        """Return once the service is ready; UnavailableError if it is not within `seconds`."""
        end = time.monotonic() + seconds
        while True:
            outcome = await self._carry_out(Send("GET", "/ready"))
            if isinstance(outcome, httpx.Response) and outcome.is_success:
                return
            if time.monotonic() >= end:
                raise UnavailableError(
                    f"{self.url} is not ready after {seconds:g} s: is the service started, and the address right?"
                )
            await asyncio.sleep(0.2)

    async def close(self) -> None:
        if self._http is not None:
            await self._http.aclose()
            self._http = None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def _carry_out(self, send: Send) -> httpx.Response | httpx.TransportError:
        if self._http is None:
            self._http = httpx.AsyncClient(**self._options())
        try:
            response: httpx.Response = await self._http.request(
                send.method, send.path, content=send.content or None, headers={"content-type": send.media_type}
            )
        except httpx.TransportError as error:
            return error
        return response


def _labels(
    run: str | None, step: int | None, seed: int | None, advantage: str | None, shadow: Sequence[str]
) -> dict[str, Any]:
    given = {"run": run, "step": step, "seed": seed, "advantage": advantage, "shadow": list(shadow) or None}
    return {k: v for k, v in given.items() if v is not None}


def _pause(attempt: int, outcome: Outcome) -> float:
    """Retry-After, else 0.5 s doubled each time, spread so that many clients do not come back together."""
    if isinstance(outcome, httpx.Response) and outcome.headers.get("retry-after", "").isdecimal():
        return min(float(outcome.headers["retry-after"]), LONGEST_PAUSE)
    return min(0.5 * 2.0**attempt, LONGEST_PAUSE) * (0.75 + 0.5 * random.random())  # noqa: S311


def _check_split(advantage: str | None) -> None:
    """What is over a request's groups is another number over those of a part."""
    known = ADVANTAGES.get(advantage or "")
    if known is not None and known.over == "request":
        raise RequestError(
            f"{advantage} is over all rollouts of a request, and the service takes these groups only in several: ask "
            "for rewards, and use dare_reward.advantages on all of them",
            loc=("advantage",),
            code="split",
        )


def _limits(settings: JSON) -> _Limits:
    body = int(settings["max_body_bytes"])
    return _Limits(
        int(settings["max_groups"]),
        min(int(settings["max_json_bytes"]), body),
        body,
        settings.get("method", ""),
        dict(json.loads(settings.get("params", "{}"))),
    )


def _problem(response: httpx.Response) -> dict[str, Any]:
    try:
        body = response.json()
    except ValueError:
        return {"detail": response.text[:200]}
    return body if isinstance(body, dict) else {}


def _refused(response: httpx.Response) -> DareError:
    if response.status_code >= 500:
        return UnavailableError(f"{response.status_code}: {_problem(response).get('detail', '')}")
    return RefusedError(response.status_code, _problem(response))


def _read(response: httpx.Response, part: Part) -> Reply:
    """The reply, if it answers what was asked."""
    try:
        reply = Reply.from_json(response.json())
    except ValueError as error:
        raise ReplyError(f"the reply is not JSON: {error}") from None
    if [g.group_id for g in reply.groups] != part.group_ids:
        raise ReplyError(f"the reply is for other groups than the {len(part.group_ids)} that were sent")
    for group, size in zip(reply.groups, part.sizes, strict=True):
        if group.error is not None:
            continue
        values = group.rewards if reply.output == "rewards" else group.advantages
        if values is None or len(values) != size:
            raise ReplyError(
                f"group {group.group_id!r}: {0 if values is None else len(values)} {reply.output} for {size} rollouts"
            )
        # An advantage is null for a rollout that only votes; a reward never is.
        known = values if reply.output == "rewards" else [v for v in values if v is not None]
        if not all(isinstance(v, int | float) and math.isfinite(v) for v in known):
            raise ReplyError(f"group {group.group_id!r}: a value of its {reply.output} is not a finite number")
    return reply


def _merge(replies: Sequence[Reply]) -> Reply:
    """One reply of the parts. Diagnostics over a request cannot be added up; those of a split one are listed."""
    if len(replies) == 1:
        return replies[0]
    if len({r.config_id for r in replies}) > 1:
        raise ConfigError("the service changed its configuration within one call")
    groups = tuple(g for r in replies for g in r.groups)
    flags = tuple(dict.fromkeys(f for r in replies for f in r.flags))
    return replace(
        replies[0], groups=groups, flags=flags, diagnostics={"parts": [dict(r.diagnostics) for r in replies]}
    )


def _rewards(groups: Sequence[JSON], reply: Reply) -> list[list[float | None]]:
    if reply.output != "rewards":
        raise RequestError(f"{reply.method} returns {reply.output}: call reward() and read its groups", loc=("method",))
    sizes = [len(g["rollouts"]) for g in groups]
    return [list(g.rewards) if g.rewards is not None else [None] * n for g, n in zip(reply.groups, sizes, strict=True)]
