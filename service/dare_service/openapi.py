"""The OpenAPI document: generated from the models that parse and the objects that reply."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields
from importlib.resources import files
from typing import Any, Final

from fastapi import FastAPI
from fastapi.openapi.docs import get_swagger_ui_html
from fastapi.responses import HTMLResponse
from fastapi.staticfiles import StaticFiles

from dare_reward import __version__, estimate
from dare_reward.answers import ANSWERS_VERSION
from dare_reward.openrlhf import LOGS, keys_of
from dare_reward.options import OPENRLHF_URL, ROLLOUT_URL
from dare_reward.params import Spec
from dare_reward.scoring.update import update_specs
from dare_reward.stopping.waves import wave_specs

from .problems import MEDIA_TYPE, TITLES
from .schema import components
from .settings import UNSAID, Settings

__all__ = [
    "DESCRIPTION",
    "HEALTH",
    "INFO",
    "METHODS",
    "METRICS",
    "OPENRLHF",
    "READY",
    "REWARD",
    "ROLLOUTS",
    "SETTLED",
    "install",
]

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
PROBLEM = {
    "type": "object",
    "description": "RFC 9457; never holds the caller's data",
    "required": ["type", "title", "status", "detail"],
    "properties": {
        "type": {"type": "string"},
        "title": {"type": "string"},
        "status": {"type": "integer"},
        "detail": {"type": "string"},
        "instance": {"type": "string", "description": "the request id"},
        "errors": {
            "type": "array",
            "maxItems": 10,
            "items": {
                "type": "object",
                "required": ["loc", "code", "message"],
                "properties": {"loc": {"type": "string"}, "code": {"type": "string"}, "message": {"type": "string"}},
            },
        },
    },
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


REWARD: dict[str, Any] = {
    "tags": ["Rewards"],
    "responses": {
        200: {
            "description": "Rewards; a frame for those who accept one",
            "headers": {
                "Dare-Group-Errors": {
                    "description": "How many groups have an error instead of rewards; absent if none has",
                    "schema": {"type": "integer", "minimum": 1},
                }
            },
            "content": {
                "application/json": {"schema": _ref("Reply"), "example": _scored()},
                "application/vnd.safetensors": {"schema": {"type": "string", "format": "binary"}},
            },
        },
        **{status: _problem(status) for status in (400, 401, 408, 413, 415, 422, 503)},
    },
    "openapi_extra": {
        "security": SECURITY,
        "requestBody": {
            "required": True,
            "content": {
                "application/json": {"schema": _ref("RewardRequest"), "example": EXAMPLE},
                "application/vnd.safetensors": {"schema": {"type": "string", "format": "binary"}},
            },
        },
        "parameters": [
            _parameter("method", "as in the body, and wins over it; so does every parameter of the method"),
            _parameter("detail", "rewards: ids, rewards, valid and errors only", enum=["full", "rewards"]),
            *(_parameter(s.name, f"{s.doc}: {s.accepts}" if s.name != "advantage" else s.doc) for s in update_specs()),
            _parameter("shadow", "methods to compare with, separated by commas"),
            _parameter("seed", "for methods that draw", pattern="^[0-9]+$"),
        ],
    },
}


VOTES: Final[dict[str, Any]] = {
    "method": "ttrl",
    "votes": 8,
    "wave": 2,
    "groups": [{"group_id": "aime-7", "rollouts": [{"answer": "204"}, {"answer": "204"}, {"answer": "17"}]}],
}
SETTLED: dict[str, Any] = {
    "operation_id": "settled_groups",
    "tags": ["Rewards"],
    "responses": {
        200: {
            "description": "Which groups need no further votes",
            "content": {"application/json": {"schema": _ref("SettledReply")}},
        },
        **{status: _problem(status) for status in (400, 401, 408, 413, 415, 422, 503)},
    },
    "openapi_extra": {
        "security": SECURITY,
        "requestBody": {
            "required": True,
            "content": {
                "application/json": {"schema": _ref("SettledRequest"), "example": VOTES},
                "application/vnd.safetensors": {"schema": {"type": "string", "format": "binary"}},
            },
        },
        "parameters": [
            _parameter("method", "as in the body, and wins over it; so does every parameter of the method"),
            *(_parameter(s.name, f"{s.doc}: {s.accepts}") for s in wave_specs()),
            _parameter("seed", "for methods that draw", pattern="^[0-9]+$"),
        ],
    },
}


def _list(doc: str, **items: Any) -> dict[str, Any]:
    return {"type": "array", "description": doc, "items": items}


def _object(properties: dict[str, Any], required: Sequence[str] | None = None) -> dict[str, Any]:
    """An object; all of its properties are required unless `required` names them."""
    return {"type": "object", "required": list(properties if required is None else required), "properties": properties}


def _json(required: list[str], properties: dict[str, Any], example: Any = None) -> dict[str, Any]:
    shown = {} if example is None else {"example": example}
    return {"application/json": {"schema": _object(properties, required), **shown}}


def _own(specs: Sequence[Spec]) -> list[dict[str, Any]]:
    """Parameters of a URL; the method and its parameters stand beside them."""
    own = [_parameter(s.name, f"{s.doc}: {s.accepts}") for s in specs]
    return [_parameter("method", "see GET /methods; each of its parameters may stand beside it"), *own]


NUMBERS = {"type": "number"}
OPENRLHF: dict[str, Any] = {
    "operation_id": "score_openrlhf",
    "tags": ["Single rollouts"],
    "responses": {
        200: {
            "description": "One entry per query",
            "content": _json(
                ["rewards", "scores"],
                {
                    "rewards": _list("multiples of 2^-16", **NUMBERS),
                    "scores": _list("1: agrees with the plurality", **NUMBERS),
                    "extra_logs": {
                        "type": "object",
                        "properties": {name: _list(LOGS[name].meaning, **NUMBERS) for name in keys_of("url")},
                    },
                },
            ),
        },
        **{status: _problem(status) for status in (400, 401, 408, 409, 413, 415, 422, 503)},
    },
    "openapi_extra": {
        "security": SECURITY,
        "requestBody": {
            "required": True,
            "content": _json(
                ["query", "prompts"],
                {
                    "query": _list("prompt and response, decoded", type="string"),
                    "prompts": _list("the prompts", type="string"),
                    "labels": _list("decide whether a rollout is graded: see docs/openrlhf.md"),
                },
                {"query": ["1 + 1? So \\boxed{2}"], "prompts": ["1 + 1?"], "labels": [""]},
            ),
        },
        "parameters": _own(tuple(OPENRLHF_URL.values())),
    },
}
ROLLOUTS: dict[str, Any] = {
    "operation_id": "join_rollout",
    "tags": ["Single rollouts"],
    "responses": {
        200: {
            "description": "The rollout's reward",
            "content": _json(
                ["reward", "valid", "keep", "answer", "flags"],
                {
                    "reward": NUMBERS,
                    "valid": {"type": "boolean"},
                    "keep": {"type": "boolean"},
                    "answer": {"type": ["string", "null"]},
                    "flags": _list("conditions of the group", type="string"),
                    "shadow": {"type": "object", "description": "by method, if asked for: as in a group's diagnostics"},
                },
            ),
        },
        **{status: _problem(status) for status in (400, 401, 408, 409, 413, 415, 422, 503, 504)},
    },
    "openapi_extra": {
        "security": SECURITY,
        "requestBody": {
            "required": True,
            "content": _json(
                ["run", "group_id", "group_size", "index", "rollout"],
                {
                    "run": {"type": "string", "minLength": 1, "maxLength": 256},
                    "group_id": {"type": "string", "minLength": 1, "maxLength": 256},
                    "group_size": {"type": "integer", "minimum": 1},
                    "index": {"type": "integer", "minimum": 0},
                    "rollout": _ref("Rollout"),
                },
                {
                    "run": "exp1",
                    "group_id": "aime-7",
                    "group_size": 4,
                    "index": 0,
                    "rollout": {"answer": "204", "mean_entropy": 0.21},
                },
            ),
        },
        "parameters": _own(tuple(ROLLOUT_URL.values())),
    },
}


def _service(name: str, schema: dict[str, Any], description: str, example: Any = None) -> dict[str, Any]:
    shown = {} if example is None else {"example": example}
    content = {"application/json": {"schema": schema, **shown}}
    return {
        "operation_id": name,
        "tags": ["Service"],
        "responses": {200: {"description": description, "content": content}},
    }


def _state(word: str) -> dict[str, Any]:
    return _object({"status": {"type": "string", "enum": [word]}})


def _settings() -> dict[str, Any]:
    """The settings that are no secrets, with why each exists."""
    kinds = {int: "integer", float: "number", str: "string", bool: "boolean"}
    return _object(
        {
            f.name: {"type": kinds[type(f.default)], "description": f.metadata["why"]}
            for f in fields(Settings)
            if f.name not in UNSAID
        }
    )


TEXT = {"type": "string"}
TEXTS = {"type": "array", "items": TEXT}
HEALTH = _service("health", _state("ok"), "The process runs", {"status": "ok"})
READY = _service("ready", _state("ready"), "The service takes requests", {"status": "ready"})
READY["responses"][503] = _problem(503)
INFO = _service(
    "info",
    _object(
        {
            "version": {**TEXT, "example": __version__},
            "answers_version": {"type": ["string", "integer"], "description": "the version of the answer rules"},
            "auth": {"type": "boolean", "description": "whether a token is needed"},
            "settings": _settings(),
            "run_log": {
                "type": ["object", "null"],
                "description": "counts of groups of the run log; null: there is none",
                "additionalProperties": {"type": "integer", "minimum": 0},
            },
            "warnings": _list(
                "what you may not have meant, once each",
                **_object({"event": TEXT, "why": TEXT, "runs": {"type": "integer", "minimum": 1}}),
            ),
        }
    ),
    "Versions, effective settings, warnings",
    {
        "version": __version__,
        "answers_version": ANSWERS_VERSION,
        "auth": False,
        "settings": Settings().shown,
        "warnings": [],
        "run_log": dict.fromkeys(("flushed", "dropped", "failed", "repeated", "bytes"), 0),
    },
)
PARAMETER = _object(
    {
        "name": TEXT,
        "type": TEXT,
        "default": {"description": "null if it is required or has none"},
        "required": {"type": "boolean"},
        "accepts": {**TEXT, "description": "the accepted values in words"},
        "doc": TEXT,
        "source": {**TEXT, "description": "equation, paper or our choice"},
    }
)
METHODS = _service(
    "list_methods",
    _object(
        {
            "default": {**TEXT, "description": "the method of requests that name none"},
            "methods": _list(
                "every method",
                **_object(
                    {
                        "name": TEXT,
                        "summary": TEXT,
                        "paper": TEXT,
                        "evidence": {**TEXT, "description": "how well it could be verified"},
                        "output": {"type": "string", "enum": ["rewards", "advantages"]},
                        "advantages": {"type": "boolean", "description": "whether it has advantages of its own"},
                        "offered": {
                            "type": "boolean",
                            "description": "false: a preset, experimental, or with references",
                        },
                        "requires": {**TEXTS, "description": "inputs of rollouts or groups; a|b is either"},
                        "requires_when": _list(
                            "inputs that a parameter makes necessary", **_object({"input": TEXT, "when": TEXT})
                        ),
                        "optional": TEXTS,
                        "cost": TEXT,
                        "unverified": TEXT,
                        "parameters": _list("those of the method and of the answers", **PARAMETER),
                    }
                ),
            ),
        }
    ),
    "The methods",
)
METRICS: dict[str, Any] = {
    "operation_id": "metrics",
    "tags": ["Service"],
    "responses": {200: {"description": "Exposition format", "content": {"text/plain": {"schema": TEXT}}}},
}
ASSETS: Final = "/docs/assets"


def _docs_page(app: FastAPI) -> None:
    """/docs with scripts and styles from this process: it works where no other host can be reached.

    Addresses are relative, so the page also works behind a proxy that adds a prefix.
    """
    page = get_swagger_ui_html(
        openapi_url="openapi.json",
        title=f"{app.title} {app.version}",
        swagger_js_url=f"{ASSETS.lstrip('/')}/swagger-ui-bundle.js",
        swagger_css_url=f"{ASSETS.lstrip('/')}/swagger-ui.css",
        swagger_favicon_url="data:,",
        swagger_ui_parameters={"validatorUrl": None},  # no badge of another host
    )

    async def docs() -> HTMLResponse:
        return page

    app.add_api_route("/docs", docs, methods=["GET"], include_in_schema=False)
    static = files("fastapi_offline").joinpath("static")
    app.mount(ASSETS, StaticFiles(directory=str(static)), name="docs")


def install(app: FastAPI) -> None:
    """Let `app` describe itself with our components instead of FastAPI's own error model."""
    _docs_page(app)
    app.openapi_tags = TAGS
    generate = app.openapi

    def document() -> dict[str, Any]:
        if app.openapi_schema is None:
            out = generate()
            schemas = components() | {"ProblemDocument": PROBLEM}
            out["components"] = {"schemas": dict(sorted(schemas.items())), "securitySchemes": SCHEMES}
            app.openapi_schema = out
        return app.openapi_schema

    app.openapi = document  # type: ignore[method-assign]
