"""Reward services that misbehave."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Iterator
from typing import Any

from serving import answering

import dare_reward

SETTINGS = {"max_groups": 1024, "max_json_bytes": 1 << 26, "max_body_bytes": 1 << 27}
Change = Callable[[dict[str, Any]], Any]


@contextlib.contextmanager
def forged(change: Change = lambda body: body) -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """A service whose replies go through `change`; yields its address and the bodies it got."""
    bodies: list[dict[str, Any]] = []

    def reply(handler: Any, content: bytes) -> tuple[int, bytes]:
        if handler.command == "GET":
            return 200, json.dumps({"settings": SETTINGS}).encode()
        bodies.append(body := json.loads(content))
        scored = dare_reward.estimate(body["groups"], method=body["method"], **body["params"])
        said = {**scored.to_json(), "request_id": handler.headers["x-request-id"]}
        return 200, json.dumps(change(json.loads(json.dumps(said)))).encode()

    with answering(reply) as url:
        yield url, bodies


def short(body: dict[str, Any]) -> dict[str, Any]:
    """One reward too few."""
    body["groups"][0]["rewards"] = body["groups"][0]["rewards"][:-1]
    return body


def unscored(body: dict[str, Any]) -> dict[str, Any]:
    """The first group could not be scored."""
    first = dict.fromkeys(body["groups"][0])
    body["groups"][0] = {**first, "group_id": body["groups"][0]["group_id"], "error": {"code": "x", "message": "no"}}
    return body
