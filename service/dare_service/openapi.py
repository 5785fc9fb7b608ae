"""The OpenAPI document: generated from the models that parse and the objects that reply."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fastapi import FastAPI

from dare_reward.advantages.update import update_specs
from dare_reward.openrlhf import LOGS, keys_of
from dare_reward.params import Spec
from dare_reward.stopping.waves import wave_specs

from .joins.url_options import EXPLICIT_SPECS, URL_SPECS
from .problems import MEDIA_TYPE, TITLES
from .schema import components

__all__ = ["DESCRIPTION", "METRICS", "OPENRLHF", "READY", "REWARD", "ROLLOUTS", "SETTLED", "install"]

DESCRIPTION = "Rewards for label-free reinforcement learning, estimated from groups of rollouts."
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
    return {"description": TITLES[status], "content": {MEDIA_TYPE: {"schema": _ref("ProblemDocument")}}}


def _parameter(name: str, doc: str, **schema: Any) -> dict[str, Any]:
    return {"name": name, "in": "query", "required": False, "description": doc, "schema": {"type": "string", **schema}}


REWARD: dict[str, Any] = {
    "responses": {
        200: {
            "description": "Rewards; a frame for those who accept one",
            "content": {
                "application/json": {"schema": _ref("Reply")},
                "application/vnd.safetensors": {"schema": {"type": "string", "format": "binary"}},
            },
        },
        **{status: _problem(status) for status in (400, 401, 408, 413, 415, 422, 503)},
    },
    "openapi_extra": {
        "requestBody": {
            "required": True,
            "content": {
                "application/json": {"schema": _ref("RewardRequest")},
                "application/vnd.safetensors": {"schema": {"type": "string", "format": "binary"}},
            },
        },
        "parameters": [
            _parameter("method", "as in the body, and wins over it; so does every parameter of the method"),
            _parameter("detail", "rewards: ids, rewards, valid and errors only", enum=["full", "rewards"]),
            *(_parameter(s.name, f"{s.doc}: {s.accepts}" if s.name != "advantage" else s.doc) for s in update_specs()),
            _parameter("shadow", "methods to compare with, separated by commas"),
            _parameter("seed", "for methods that draw", pattern="^[0-9]+$"),
            _parameter("token", "the bearer token, for clients that own only a URL"),
        ],
    },
}


SETTLED: dict[str, Any] = {
    "responses": {
        200: {
            "description": "Which groups need no further votes",
            "content": {"application/json": {"schema": _ref("SettledReply")}},
        },
        **{status: _problem(status) for status in (400, 401, 408, 413, 415, 422, 503)},
    },
    "openapi_extra": {
        "requestBody": {
            "required": True,
            "content": {
                "application/json": {"schema": _ref("SettledRequest")},
                "application/vnd.safetensors": {"schema": {"type": "string", "format": "binary"}},
            },
        },
        "parameters": [
            _parameter("method", "as in the body, and wins over it; so does every parameter of the method"),
            *(_parameter(s.name, f"{s.doc}: {s.accepts}") for s in wave_specs()),
            _parameter("seed", "for methods that draw", pattern="^[0-9]+$"),
            _parameter("token", "the bearer token, for clients that own only a URL"),
        ],
    },
}


def _list(doc: str, **items: Any) -> dict[str, Any]:
    return {"type": "array", "description": doc, "items": items}


def _json(required: list[str], properties: dict[str, Any]) -> dict[str, Any]:
    return {"application/json": {"schema": {"type": "object", "required": required, "properties": properties}}}


def _own(specs: Sequence[Spec]) -> list[dict[str, Any]]:
    """Parameters of a URL; the method and its parameters stand beside them."""
    own = [_parameter(s.name, f"{s.doc}: {s.accepts}") for s in specs]
    return [
        _parameter("method", "see GET /methods; each of its parameters may stand beside it"),
        *own,
        _parameter("token", "the bearer token"),
    ]


NUMBERS = {"type": "number"}
OPENRLHF: dict[str, Any] = {
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
        "requestBody": {
            "required": True,
            "content": _json(
                ["query", "prompts"],
                {
                    "query": _list("prompt and response, decoded", type="string"),
                    "prompts": _list("the prompts", type="string"),
                    "labels": _list("decide whether a rollout is graded: see docs/openrlhf.md"),
                },
            ),
        },
        "parameters": _own(URL_SPECS),
    },
}
ROLLOUTS: dict[str, Any] = {
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
            ),
        },
        "parameters": _own(EXPLICIT_SPECS),
    },
}
READY: dict[str, Any] = {"responses": {503: _problem(503)}}
METRICS: dict[str, Any] = {"responses": {200: {"description": "Exposition format", "content": {"text/plain": {}}}}}


def install(app: FastAPI) -> None:
    """Let `app` describe itself with our components instead of FastAPI's own error model."""
    generate = app.openapi

    def document() -> dict[str, Any]:
        if app.openapi_schema is None:
            out = generate()
            schemas = components() | {"ProblemDocument": PROBLEM}
            out["components"] = {"schemas": dict(sorted(schemas.items()))}
            app.openapi_schema = out
        return app.openapi_schema

    app.openapi = document  # type: ignore[method-assign]
