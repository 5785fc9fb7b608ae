"""The routes."""

from __future__ import annotations

import asyncio
import hashlib
import secrets
import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np
from fastapi import FastAPI, Request, Response
from pydantic import TypeAdapter
from pydantic_core import to_json

from dare_reward import Reply, __version__, methods
from dare_reward.answers import ANSWERS_VERSION
from dare_reward.errors import RequestError
from dare_reward.methods import Method, find
from dare_reward.params import Spec
from dare_reward.scoring import score, settle, specs
from dare_reward.wire import MEDIA_TYPES, unpack

from . import openapi
from .body import Admission, Form, form, receive, stated_length
from .embeddings import Embedder
from .metrics import Metrics
from .middleware import Observe
from .problems import RefusalError, response
from .schema import REQUEST_KEYS, parser
from .settings import Settings

__all__ = ["State", "create_app"]

# Below this a body is scored on the event loop: a thread costs 0.2 ms, 8 KiB of the hardest answers under 50 ms.
INLINE_BYTES = 8 << 10
QUERY_KEYS = ("detail", "token", "method", "advantage", "shadow", "seed")
SEED = Spec("seed", int, None, ge=0, lt=1 << 63)
SECRET = frozenset({"token", "host", "port", "embeddings_url", "embeddings_token"})


@dataclass(slots=True, eq=False)
class State:
    """What lives as long as the process."""

    settings: Settings
    metrics: Metrics = field(default_factory=Metrics)
    admission: Admission = field(init=False)
    executor: ThreadPoolExecutor = field(init=False)
    body: TypeAdapter[dict[str, Any]] = field(init=False)
    embedder: Embedder | None = field(init=False)
    draining: bool = False

    def __post_init__(self) -> None:
        self.admission = Admission(self.settings.max_inflight_bytes)
        self.metrics.inflight.set_function(lambda: self.admission.held)
        self.executor = ThreadPoolExecutor(2, "estimate")
        self.body = parser(self.settings.limits)
        s = self.settings
        self.embedder = (
            Embedder(s.embeddings_url, s.embeddings_model, token=s.embeddings_token) if s.embeddings_url else None
        )


def create_app(settings: Settings | None = None) -> FastAPI:
    """The application; its state is `app.state.dare`."""
    settings = settings or Settings()
    settle(settings.method, settings.default_params)  # a bad default must fail at start, not at the first request
    state = State(settings)
    app = FastAPI(
        title="dare-reward", version=__version__, docs_url="/docs", redoc_url=None, description=openapi.DESCRIPTION
    )
    app.state.dare = state
    add = partial(app.add_api_route, response_model=None)
    for route in ("/reward", "/v1/reward"):
        add(route, reward, methods=["POST"], name=route, summary="Score groups of rollouts", **openapi.REWARD)
    add("/methods", list_methods, methods=["GET"], summary="The methods with their parameters")
    add("/health", health, methods=["GET"], summary="The process lives")
    add("/ready", ready, methods=["GET"], summary="Requests are welcome", **openapi.READY)
    add("/info", info, methods=["GET"], summary="Versions and effective settings")
    add("/metrics", metrics, methods=["GET"], summary="Prometheus metrics", **openapi.METRICS)
    app.add_exception_handler(404, _no_route)
    app.add_exception_handler(405, _no_route)
    openapi.install(app)
    routes = frozenset(r.path for r in app.routes if hasattr(r, "path"))
    app.add_middleware(Observe, metrics=state.metrics, routes=routes)
    return app


async def reward(request: Request) -> Response:
    """Score groups of rollouts: one reward per rollout, in request order.

    The body is JSON, or a frame (safetensors layout) with the array inputs as tensors. Every parameter of the method
    may also stand in the URL's query, where it wins.
    """
    state: State = request.app.state.dare
    settings, started = state.settings, time.perf_counter()
    _authorise(request, settings)
    if state.draining:
        raise RefusalError(503, "stopping", code="draining", headers={"Retry-After": "1"})
    query = _query(request)
    kind = form(request.headers, settings)
    size = stated_length(request.headers, kind)
    with state.admission.hold(size or 0) as lease:
        body = await receive(request.receive, size, kind, lease, seconds=settings.deadline)
        received = time.perf_counter()
        wanted = _reply_form(request)
        work = partial(_work, state, Call(body, kind, query, request.scope["state"]["request_id"], wanted))
        if len(body) <= INLINE_BYTES and state.embedder is None:
            outcome = work()
        else:
            outcome = await asyncio.get_running_loop().run_in_executor(state.executor, work)
    phases = {"recv": 1e3 * (received - started), "decode": outcome.decode_ms, "estimate": outcome.estimate_ms}
    timing = ", ".join(f"{name};dur={ms:.2f}" for name, ms in phases.items())
    _observe(state, outcome.reply, kind, len(body), outcome)
    request.scope["state"]["notes"].update(outcome.notes, bytes=len(body))
    return Response(outcome.content, media_type=wanted, headers={"Server-Timing": timing})


def _reply_form(request: Request) -> str:
    """The media type of the reply: a frame for those who ask for one, JSON for all others."""
    asked = request.headers.get("accept", "").lower()
    return MEDIA_TYPES[0] if MEDIA_TYPES[0] in asked else "application/json"


@dataclass(frozen=True, slots=True)
class Outcome:
    content: bytes
    reply: Reply
    decode_ms: float
    estimate_ms: float
    notes: Mapping[str, Any]


@dataclass(frozen=True, slots=True, eq=False)
class Call:
    """A request as it came: body and its form, the URL's query, and the media type of the reply."""

    body: bytearray
    form: Form
    query: Mapping[str, str]
    request_id: str
    wanted: str


def _work(state: State, call: Call) -> Outcome:
    """What needs the CPU: from the body to the reply's bytes."""
    begun = time.perf_counter()
    columns: Mapping[str, Any] = {}
    text: bytes | bytearray = call.body
    if call.form.name == "frame":
        frame = unpack(call.body)
        text, columns = frame.request, frame.columns
    content = state.body.validate_json(text)
    unknown = next((key for key in content if key not in REQUEST_KEYS), None)
    if unknown is not None:
        known = ", ".join(sorted(REQUEST_KEYS))
        raise RequestError(f"unknown field {unknown[:64]!r}; known: {known}", code="unknown_field")
    asked = _configuration(state.settings, content, call.query)
    groups = content["groups"]
    if state.embedder is not None and "embedding" in asked.inputs and "embedding" not in columns:
        groups = state.embedder.fill(groups)
    decoded = time.perf_counter()
    reply = score(
        groups,
        asked.params,
        method=asked.method,
        columns=columns,
        limits=state.settings.limits,
        advantage=asked.advantage,
        shadow=asked.shadow,
        seed=asked.seed,
    )
    stale = content.get("answers_version") not in {None, ANSWERS_VERSION}
    flags = ("answers_version",) if stale else ()
    reply = replace(reply, request_id=call.request_id, flags=flags)
    detail = call.query.get("detail", "full")
    if call.wanted == "application/json":
        out = to_json(reply.to_json(detail=detail), inf_nan_mode="null")
    else:
        out = reply.to_frame(detail=detail)
    notes = {k: content[k] for k in ("run", "step") if content.get(k) is not None}
    notes |= {"groups": len(reply.groups), "rollouts": reply.diagnostics["rollouts"], "reward_method": asked.method}
    return Outcome(out, reply, 1e3 * (decoded - begun), 1e3 * (time.perf_counter() - decoded), notes)


@dataclass(frozen=True, slots=True)
class Asked:
    """What a request asks for, from its URL, its body and the server's defaults, in this order."""

    method: str
    params: Mapping[str, Any]
    advantage: str | None
    shadow: tuple[str, ...]
    seed: int | None

    @property
    def inputs(self) -> frozenset[str]:
        """Every input that the method or a shadow may look at."""
        return frozenset().union(*(find(name).inputs for name in (self.method, *self.shadow)))


def _configuration(settings: Settings, content: Mapping[str, Any], query: Mapping[str, str]) -> Asked:
    """Method, parameters and the rest: the URL's, else the body's, else the server's."""
    method = query.get("method", content.get("method", settings.method))
    shadow = tuple(filter(None, query["shadow"].split(","))) if "shadow" in query else tuple(content.get("shadow", ()))
    known = {s.name: s for s in specs(find(method), shadow=shadow)}
    params: dict[str, Any] = dict(settings.default_params) if method == settings.method else {}
    params.update(content.get("params", {}))
    for name, text in query.items():
        if name in QUERY_KEYS:
            continue
        if name not in known:
            names = ", ".join([*QUERY_KEYS, *known])
            raise RequestError(
                f"unknown parameter {name[:64]!r} of the URL; known: {names}", loc=("query",), code="unknown_parameter"
            )
        params[name] = known[name].parse(text, loc=("query",))
    seed = SEED.parse(query["seed"], loc=("query",)) if "seed" in query else content.get("seed")
    return Asked(method, params, query.get("advantage") or content.get("advantage"), shadow, seed)


def _query(request: Request) -> dict[str, str]:
    out: dict[str, str] = {}
    for name, value in request.query_params.multi_items():
        if name in out:
            raise RequestError(f"{name[:64]!r} is given twice", loc=("query",), code="duplicate")
        out[name] = value
    if out.get("detail", "full") not in {"full", "rewards"}:
        raise RequestError("must be full or rewards", loc=("query", "detail"), code="value")
    return out


def _authorise(request: Request, settings: Settings) -> None:
    """Both sides hashed, so that neither content nor length shows in the time that the comparison takes."""
    if not settings.token:
        return
    scheme, _, given = request.headers.get("authorization", "").partition(" ")
    # A header arrives as latin-1, whatever the caller wrote its bytes in; a query is decoded already.
    raw = given.strip().encode("latin-1") if scheme.lower() == "bearer" else _query_token(request)
    digests = (hashlib.sha256(x).digest() for x in (raw, settings.token.encode()))
    if not secrets.compare_digest(*digests):
        raise RefusalError(
            401,
            "send the token as Authorization: Bearer or as ?token=",
            code="token",
            headers={"WWW-Authenticate": "Bearer"},
        )


def _query_token(request: Request) -> bytes:
    return request.query_params.get("token", "").encode("utf-8", "replace")


def _observe(state: State, reply: Reply, kind: Form, size: int, outcome: Outcome) -> None:
    m = state.metrics
    m.bytes.labels(kind.name).observe(size)
    m.decode_seconds.labels(kind.name).observe(outcome.decode_ms / 1e3)
    m.estimate_seconds.observe(outcome.estimate_ms / 1e3)
    m.groups.labels(reply.method).inc(len(reply.groups))
    m.rollouts.labels(reply.method).inc(reply.diagnostics["rollouts"])
    for group in reply.groups:
        if group.error is not None:
            m.group_errors.labels(group.error.code).inc()
        elif group.rewards:
            m.size.observe(len(group.rewards))
            m.majority.observe((group.diagnostics or {}).get("majority_ratio", 0.0))
            m.reward.observe(float(np.mean(group.rewards)))


async def list_methods(request: Request) -> Response:
    state: State = request.app.state.dare
    content = {"default": state.settings.method, "methods": [_describe(m) for m in methods().values()]}
    return Response(to_json(content), media_type="application/json")


def _describe(method: Method) -> dict[str, Any]:
    parameters = [
        {
            "name": s.name,
            "type": s.type.__name__,
            "default": None if s.required else s.default,
            "required": s.required,
            "accepts": s.accepts,
            "doc": s.doc,
            "source": s.source,
        }
        for s in specs(method)
    ]
    return {
        "name": method.name,
        "summary": method.summary,
        "paper": method.paper,
        "evidence": method.evidence,
        "output": method.output,
        "requires": method.requires,
        "requires_when": [{"input": w.name, "when": w.words} for w in method.when],
        "cost": method.cost,
        "unverified": method.unverified,
        "parameters": parameters,
    }


async def health() -> Response:
    return Response(b'{"status":"ok"}', media_type="application/json")


async def ready(request: Request) -> Response:
    state: State = request.app.state.dare
    if state.draining:
        return response(503, "stopping", headers={"Retry-After": "1"})
    return Response(b'{"status":"ready"}', media_type="application/json")


async def info(request: Request) -> Response:
    state: State = request.app.state.dare
    settings = {k: v for k, v in asdict(state.settings).items() if k not in SECRET}
    content = {
        "version": __version__,
        "answers_version": ANSWERS_VERSION,
        "auth": bool(state.settings.token),
        "settings": settings,
    }
    return Response(to_json(content), media_type="application/json")


async def metrics(request: Request) -> Response:
    state: State = request.app.state.dare
    return Response(state.metrics.render(), media_type="text/plain; version=0.0.4; charset=utf-8")


async def _no_route(request: Request, error: Exception) -> Response:
    status = getattr(error, "status_code", 404)
    detail = "no such route; GET /docs lists them" if status == 404 else "method not allowed"
    return response(
        status, detail, request_id=request.scope["state"]["request_id"], headers=getattr(error, "headers", None)
    )
