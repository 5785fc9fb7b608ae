"""The routes."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from importlib.resources import files
from typing import Any

from fastapi import FastAPI, Request, Response
from fastapi.openapi.docs import get_swagger_ui_html
from fastapi.staticfiles import StaticFiles
from pydantic_core import to_json
from starlette.types import Receive, Scope, Send

from dare_reward import __version__, methods
from dare_reward.answers import ANSWERS_VERSION
from dare_reward.errors import RequestError, placed
from dare_reward.estimators.method import Method
from dare_reward.methods import find, reads_entropy, settle, specs

from .auth import Hosts, authorise, has_token, hide_token
from .body import (
    Admission,
    Form,
    Lease,
    Workers,
    address,
    form,
    query,
    query_string,
    receive,
    recorded,
    stated_length,
    unless_gone,
)
from .joins.openrlhf import OpenRLHF
from .joins.url_options import minted
from .json_body import is_openrlhf
from .log import Runs
from .metrics import Metrics
from .middleware import Handlers, Observe
from .problems import STOPPING, response, stopping
from .reward_request import ReceivedRequest, score_request
from .run_recorder import RunRecorder
from .settings import UNMEASURED, Settings, SettingsError


class State:
    """What lives as long as the process."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.draining = False
        self.metrics, self.workers = Metrics(), Workers()
        self.admission = Admission(settings.max_inflight_bytes)
        self.metrics.inflight.set_function(lambda: self.admission.held)
        self.runs = Runs(self.metrics)
        self.recorder = RunRecorder(settings, self.runs)
        self.openrlhf = OpenRLHF(
            settings, metrics=self.metrics, workers=self.workers, runs=self.runs, recorder=self.recorder
        )


class Application(FastAPI):
    """The token leaves the scope before anything looks at it, so that no trace and no log holds it."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        hide_token(scope)
        await super().__call__(scope, receive, send)


def create_app(settings: Settings | None = None) -> FastAPI:
    """The application; its state is `app.state.dare`. Single rollouts join where `dare-reward serve` serves it."""
    settings = settings or Settings()
    _check_defaults(settings)
    state = State(settings)
    app = Application(
        title="dare-reward",
        version=__version__,
        openapi_url=None,  # the description is a file: its models would be a tenth of every start
        docs_url=None,  # ours asks no other host
        redoc_url=None,
        lifespan=_lifespan,
        redirect_slashes=False,  # a redirect would repeat the query, token included
    )
    app.state.dare = state
    for verb, handlers in (("POST", POSTS), ("GET", GETS)):
        for path, handler in handlers.items():
            app.add_api_route(path, handler, methods=[verb], response_class=Response, response_model=None)
    for path in ("/health", "/ready"):  # what monitors ask
        app.add_api_route(path, GETS[path], methods=["HEAD"], response_model=None, include_in_schema=False)
    app.add_api_route("/docs", docs, methods=["GET"], response_model=None, include_in_schema=False)
    app.add_route("/openapi.json", openapi, include_in_schema=False)
    static = files("fastapi_offline").joinpath("static")
    app.mount("/docs/assets", StaticFiles(directory=str(static)), name="docs")
    app.add_exception_handler(404, _no_route)
    app.add_exception_handler(405, _no_route)
    if settings.page == "on" and settings.run_log != "off":
        from .page import routes  # noqa: PLC0415

        routes.install(app)
    paths = frozenset(r.path for r in app.routes if hasattr(r, "path"))
    app.add_middleware(Observe, metrics=state.metrics, routes=paths, hosts=Hosts(settings), posts=POSTS)
    return app


@asynccontextmanager
async def _lifespan(app: FastAPI) -> AsyncIterator[None]:
    """At its end the run log is written, whatever serves the application."""
    yield
    await asyncio.to_thread(app.state.dare.recorder.close)


def _check_defaults(settings: Settings) -> None:
    """A bad default must fail at the start, not at the first request."""
    name = "DARE_METHOD"
    try:
        find(settings.method)
        name = "DARE_PARAMS"
        settle(settings.method, settings.default_params)
    except RequestError as error:
        raise SettingsError(f"{name}: {placed(error, 1)}") from None


async def reward(request: Request) -> Response:
    """Score groups of rollouts: one reward per rollout, in request order.

    The body is JSON, or a frame (safetensors layout) with the array inputs as tensors. Every parameter of the method
    may also stand in the URL's query, where it wins. OpenRLHF's body (query, prompts, labels) is a whole step, or one
    rollout, which joins its siblings; /get_reward takes no other.
    """
    state: State = request.app.state.dare
    started, groups = time.perf_counter(), request.scope["path"] != "/get_reward"
    _admit(request, state)
    kind = form(request.headers, state.settings, frames=groups)
    with Lease(state.admission) as lease:
        body = await _body(request, state, kind, lease)
        received = time.perf_counter() - started
        if groups and (kind.name == "frame" or not is_openrlhf(body)):
            return await _grouped(request, state, body, kind, received)
        question = await state.openrlhf.read(request, body)
    del body  # whoever waits for siblings holds none
    return await state.openrlhf.answer(request, question)


async def _grouped(request: Request, state: State, body: bytearray, kind: Form, received: float) -> Response:
    """Whole groups, scored on a thread; the header Server-Timing says how long each part took."""
    notes, metrics = request.scope["state"], state.metrics
    asked, key = query(request.scope["query_string"]), request.headers.get("idempotency-key", "")[:128]
    call = ReceivedRequest(body, kind, asked, notes["request_id"], recorded(request), key)
    scored = partial(score_request, state.settings, state.recorder, call)
    outcome = await unless_gone(state.workers.groups, scored, request)
    metrics.of(metrics.bytes, kind.name).observe(len(body))
    metrics.of(metrics.decode_seconds, kind.name).observe(outcome.decode_ms / 1e3)
    metrics.estimate_seconds.observe(outcome.estimate_ms / 1e3)
    metrics.observe_groups(outcome.reply)
    notes["notes"].update(outcome.notes)
    spent = {"recv": 1e3 * received, "decode": outcome.decode_ms, "estimate": outcome.estimate_ms}
    headers = {"Server-Timing": ", ".join(f"{name};dur={ms:.2f}" for name, ms in spent.items())}
    if errors := sum(group.error is not None for group in outcome.reply.groups):
        headers["Dare-Group-Errors"] = str(errors)
    return Response(outcome.content, media_type="application/json", headers=headers)


def _admit(request: Request, state: State) -> None:
    if state.settings.tokens:
        authorise(request, state.settings)
    elif has_token(request):
        why = "a client sent a token, but this service has none: set DARE_TOKEN to use it"
        state.runs.warn("", "token_ignored", why)
    if state.draining:
        raise stopping()


async def _body(request: Request, state: State, kind: Form, lease: Lease) -> bytearray:
    """The body; admitted while it is read and worked on, not while a rollout waits for its siblings."""
    size, settings = stated_length(request.headers, kind), state.settings
    body = await receive(request.receive, size, kind, lease, seconds=settings.deadline, idle=settings.body_idle)
    request.scope["state"]["notes"]["bytes"] = len(body)
    return body


POSTS: Handlers = {"/reward": reward, "/v1/reward": reward, "/get_reward": reward}


async def list_methods(request: Request) -> Response:
    """Every estimator with its parameters, what it needs and costs, its paper, and how well it could be verified."""
    state: State = request.app.state.dare
    content = {"default": state.settings.method, "methods": [_describe(m) for m in methods().values()]}
    return Response(to_json(content), media_type="application/json")


def _describe(method: Method) -> dict[str, Any]:
    return {
        **_named(method, "name", "summary", "paper", "evidence", "output", "advantages", "offered", "requires"),
        **_named(method, "optional", "cost", "unverified"),
        "requires_when": [{"input": w.name, "when": w.words} for w in method.when],
        "parameters": [
            {
                **_named(s, "name", "required", "accepts", "doc", "source"),
                "type": s.type.__name__,
                "default": None if s.required else s.default,
            }
            for s in specs(method)
        ],
    }


def _named(source: object, *names: str) -> dict[str, Any]:
    return {name: getattr(source, name) for name in names}


async def health() -> Response:
    """200 while the process runs, also while it stops."""
    return Response(b'{"status":"ok"}', media_type="application/json")


async def ready(request: Request) -> Response:
    """200 while the service takes requests, 503 once it stops."""
    state: State = request.app.state.dare
    if state.draining:
        return response(503, STOPPING, headers={"Retry-After": "1"})
    return Response(b'{"status":"ready"}', media_type="application/json")


async def info(request: Request) -> Response:
    """Versions, effective settings and limits, and warnings of what you may not have meant. It holds no secret."""
    state: State = request.app.state.dare
    content = {
        "version": __version__,
        "answers_version": ANSWERS_VERSION,
        "auth": bool(state.settings.tokens),
        "settings": state.settings.shown,
        "entropy": await asyncio.to_thread(_entropy, state),
        "warnings": state.runs.warnings,
        "run_log": state.recorder.status,
        "page": state.recorder.page.ledger.as_json() if state.recorder.page else None,
    }
    return Response(to_json(content), media_type="application/json")


def _entropy(state: State) -> dict[str, Any]:
    """What nobody has measured yet: of the default method, and of the runs on the page."""
    method, page = state.settings.method, state.recorder.page
    runs = page.unmeasured if page else []
    known = bool(page and page.book.runs and not runs)
    return {
        "note": UNMEASURED.format(method=method) if reads_entropy(method) and not known else None,
        "unmeasured_runs": runs,
    }


async def metrics(request: Request) -> Response:
    """Counters and histograms in Prometheus's text format."""
    state: State = request.app.state.dare
    return Response(state.metrics.render(), media_type="text/plain; version=0.0.4; charset=utf-8")


async def openrlhf_url(request: Request) -> Response:
    """The checked URL for OpenRLHF's flag where the nodes lack this package, with a name that no other job has."""
    state: State = request.app.state.dare
    authorise(request, state.settings)
    state.openrlhf.connection(request)  # else a run would end of what can be told now
    url = minted(query_string(request), address(request), state.settings)
    return Response(url + "\n", media_type="text/plain; charset=utf-8")


async def openapi(request: Request) -> Response:
    """The description of the routes, which scripts/docs.py writes."""
    return Response(files(__package__).joinpath("openapi.json").read_bytes(), media_type="application/json")


async def docs(request: Request) -> Response:
    """The same for a person, with scripts and styles from this process: it works where no other host can be reached.

    Addresses are relative, so the page also works behind a proxy that adds a prefix.
    """
    return get_swagger_ui_html(
        openapi_url="openapi.json",
        title=f"{request.app.title} {request.app.version}",
        swagger_js_url="docs/assets/swagger-ui-bundle.js",
        swagger_css_url="docs/assets/swagger-ui.css",
        swagger_favicon_url="data:,",
        swagger_ui_parameters={"validatorUrl": None},  # no badge of another host
    )


GETS: Handlers = {
    "/openrlhf": openrlhf_url,
    "/methods": list_methods,
    "/health": health,
    "/ready": ready,
    "/info": info,
    "/metrics": metrics,
}


async def _no_route(request: Request, error: Exception) -> Response:
    status = getattr(error, "status_code", 404)
    problem = "no such route" if status == 404 else "method not allowed"
    detail = f"{problem}: rewards are at POST /reward, without a slash at the end; GET /docs lists all routes"
    return response(
        status, detail, request_id=request.scope["state"]["request_id"], headers=getattr(error, "headers", None)
    )
