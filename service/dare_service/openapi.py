"""The OpenAPI document: generated from the models that parse and the objects that reply. Loaded when somebody asks."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final, get_type_hints

from fastapi import FastAPI
from fastapi.openapi.docs import get_swagger_ui_html
from fastapi.responses import HTMLResponse
from fastapi.routing import APIRoute
from pydantic import TypeAdapter
from typing_extensions import TypedDict

from dare_reward import __version__, estimate
from dare_reward.answers import ANSWERS_VERSION
from dare_reward.options import OPENRLHF_URL
from dare_reward.params import Spec
from dare_reward.reply import Reply, Support
from dare_reward.scoring.update import update_specs

from .models import BODIES, REPLIES
from .problems import MEDIA_TYPE, TITLES
from .schema import described
from .settings import UNMEASURED, Settings

DESCRIPTION = """Rewards for label-free reinforcement learning, estimated from groups of rollouts.

If the service has a token (`DARE_TOKEN`), send it as `Authorization: Bearer TOKEN` or as `?token=TOKEN`. The routes
under *Service* need none. An error is a problem document (RFC 9457). A group that cannot be scored has an `error` of
its own in a reply of status 200, and the header `Dare-Group-Errors` counts them."""
TAGS: Final = [
    {"name": "Rewards", "description": "Whole groups in, one reward per rollout out."},
    {
        "name": "Single rollouts",
        "description": "For stacks that post one rollout at a time: the service joins siblings.",
    },
    {"name": "Service", "description": "What runs, how, and how it is doing."},
]
# A service without a token asks for none, hence the empty choice.
SECURITY: Final[list[dict[str, list[str]]]] = [{}, {"bearer": []}, {"token": []}]
SCHEMES: Final = {
    "bearer": {"type": "http", "scheme": "bearer", "description": "One of the tokens of DARE_TOKEN."},
    "token": {"type": "apiKey", "in": "query", "name": "token", "description": "For clients that own only a URL."},
}
EXAMPLE: Final[dict[str, Any]] = {
    "method": "dare",
    "run": "exp1",
    "groups": [
        {
            "group_id": "aime-7",
            "rollouts": [
                {"answer": "204", "mean_entropy": 0.21},
                {"text": "... so \\boxed{204}", "mean_entropy": 0.25},
                {"answer": "17", "mean_entropy": 0.93},
                {"answer": None},
            ],
        }
    ],
}


def _ref(name: str) -> dict[str, Any]:
    return {"$ref": f"#/components/schemas/{name}"}


def _problem(status: int) -> dict[str, Any]:
    example = {"type": "about:blank", "title": TITLES[status], "status": status, "detail": "what is wrong, and the fix"}
    content = {MEDIA_TYPE: {"schema": _ref("ProblemDocument"), "example": example}}
    return {"description": TITLES[status], "content": content}


def _parameter(name: str, doc: str, **schema: Any) -> dict[str, Any]:
    return {"name": name, "in": "query", "required": False, "description": doc, "schema": {"type": "string", **schema}}


def _scored() -> dict[str, Any]:
    """What the example gets."""
    reply: dict[str, Any] = _short(estimate(EXAMPLE["groups"], method=EXAMPLE["method"]).to_json())
    return {**reply, "request_id": "6f1c2a7b9d3e4f50"}


def _short(value: Any) -> Any:
    """Four digits, which no machine computes otherwise."""
    if isinstance(value, dict):
        return {k: _short(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [_short(v) for v in value]
    return round(value, 4) if isinstance(value, float) else value


FRAME: Final = {"application/vnd.safetensors": {"schema": {"type": "string", "format": "binary"}}}
SEED: Final = _parameter("seed", "for methods that draw", pattern="^([0-9]+|[Nn][Uu][Ll][Ll]|[Nn][Oo][Nn][Ee])$")
OVER_BODY: Final = _parameter("method", "as in the body, and wins over it; so does every parameter of the method")
BESIDE: Final = _parameter("method", "see GET /methods; each of its parameters may stand beside it")
REFUSALS: Final = (400, 401, 408, 413, 415, 422, 503)


def _options(specs: Iterable[Spec]) -> list[dict[str, Any]]:
    """The query parameters that a declaration makes."""
    return [_parameter(s.name, s.doc if s.name == "advantage" else f"{s.doc}: {s.accepts}") for s in specs]


def _json(name: str, example: Any = None) -> dict[str, Any]:
    return {"application/json": {"schema": _ref(name), **({} if example is None else {"example": example})}}


def _operation(tag: str, reply: dict[str, Any], doc: str, refusals: Iterable[int] = (), **extra: Any) -> dict[str, Any]:
    responses = {200: {"description": doc, "content": reply}, **{status: _problem(status) for status in refusals}}
    return {"tags": [tag], "responses": responses, **extra}


def _post(
    tag: str,
    body: dict[str, Any],
    reply: dict[str, Any],
    doc: str,
    *,
    parameters: list[dict[str, Any]],
) -> dict[str, Any]:
    request = {"required": True, "content": body}
    described = {"security": SECURITY, "requestBody": request, "parameters": parameters}
    return _operation(tag, reply, doc, REFUSALS, openapi_extra=described)


REWARD = _post(
    "Rewards",
    _json("RewardRequest", EXAMPLE) | FRAME,
    _json("Reply", _scored()),
    "Rewards",
    parameters=[
        OVER_BODY,
        _parameter("detail", "rewards: ids, rewards, valid and errors only", enum=["full", "rewards"]),
        *_options(update_specs()),
        _parameter("shadow", "methods to compare with, separated by commas"),
        SEED,
    ],
)
REWARD["responses"][200]["headers"] = {
    "Dare-Group-Errors": {
        "description": "How many groups have an error instead of rewards; absent if none has",
        "schema": {"type": "integer", "minimum": 1},
    }
}
OPENRLHF = _post(
    "Single rollouts",
    _json("OpenRLHFPost", {"query": ["1 + 1? So \\boxed{2}"], "prompts": ["1 + 1?"], "labels": [""]}),
    _json("OpenRLHFReply"),
    "One entry per query",
    parameters=[BESIDE, *_options(OPENRLHF_URL.values())],
)
MINTED = _operation(
    "Single rollouts", {"text/plain": {"schema": {"type": "string"}}}, "The URL for OpenRLHF's flag", (401, 422)
)
HEALTH = _operation("Service", _json("Health", {"status": "ok"}), "The process runs")
READY = _operation("Service", _json("Readiness", {"status": "ready"}), "The service takes requests", [503])
INFO = _operation(
    "Service",
    _json(
        "Info",
        {
            "version": __version__,
            "answers_version": ANSWERS_VERSION,
            "auth": False,
            "settings": Settings().shown,
            "entropy": {"note": UNMEASURED.format(method=Settings().method), "unmeasured_runs": []},
            "warnings": [],
            "run_log": dict.fromkeys(("flushed", "dropped", "failed", "repeated", "bytes"), 0),
            "page": dict.fromkeys(("read", "merged", "dropped", "refused", "unreadable"), 0),
        },
    ),
    "Versions, effective settings, warnings",
)
METHODS = _operation("Service", _json("MethodList"), "The methods")
METRICS = _operation("Service", {"text/plain": {"schema": {"type": "string"}}}, "Exposition format")
# By path: the operation's name, its summary, and what else it says of itself.
OPERATIONS: Final[dict[str, tuple[str, str, dict[str, Any]]]] = {
    "/reward": ("score_groups", "Score groups of rollouts", REWARD),
    "/v1/reward": ("score_groups_v1", "Score groups of rollouts", REWARD),
    "/get_reward": ("score_openrlhf", "Serve OpenRLHF's remote reward model", OPENRLHF),
    "/openrlhf": ("mint_openrlhf_url", "Mint and check the URL for OpenRLHF's flag", MINTED),
    "/methods": ("list_methods", "List the methods and their parameters", METHODS),
    "/health": ("health", "Liveness probe", HEALTH),
    "/ready": ("ready", "Readiness probe", READY),
    "/info": ("info", "Show versions and effective settings", INFO),
    "/metrics": ("metrics", "Prometheus metrics", METRICS),
}


def docs_page(app: FastAPI) -> HTMLResponse:
    """/docs with scripts and styles from this process: it works where no other host can be reached.

    Addresses are relative, so the page also works behind a proxy that adds a prefix.
    """
    return get_swagger_ui_html(
        openapi_url="openapi.json",
        title=f"{app.title} {app.version}",
        swagger_js_url="docs/assets/swagger-ui-bundle.js",
        swagger_css_url="docs/assets/swagger-ui.css",
        swagger_favicon_url="data:,",
        swagger_ui_parameters={"validatorUrl": None},  # no badge of another host
    )


def components() -> dict[str, Any]:
    """JSON schemas of the bodies and the replies, with what they refer to, instead of FastAPI's own error model."""
    row = TypedDict("Support", get_type_hints(Support))  # type: ignore[misc]  # an object in JSON, a tuple in Python
    row.__doc__ = Support.__doc__
    replies = {model.__name__: TypeAdapter(model) for model in (*BODIES, *REPLIES, Reply, row)}
    whole: dict[str, dict[str, Any]] = {}
    for name, adapter in (replies | {"RewardRequest": described()}).items():
        mode: Any = "serialization" if name == "Reply" else "validation"
        whole[name] = adapter.json_schema(ref_template="#/components/schemas/{model}", mode=mode)
    whole["Reply"]["required"].remove("answers_version")  # with detail=rewards there is none
    parts = {name: part for schema in whole.values() for name, part in schema.pop("$defs", {}).items()}
    return {"schemas": dict(sorted((parts | whole).items())), "securitySchemes": SCHEMES}


def describe(app: FastAPI) -> None:
    """Let the application and its routes say what they are."""
    app.description, app.openapi_tags = DESCRIPTION, TAGS
    for route in app.routes:
        if isinstance(route, APIRoute) and route.path in OPERATIONS:
            route.operation_id, route.summary, operation = OPERATIONS[route.path]
            route.tags, route.responses = operation["tags"], operation["responses"]
            route.openapi_extra = operation.get("openapi_extra")
