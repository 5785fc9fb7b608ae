"""Reward services for the tests: the real one as a process, and ones that misbehave."""

from __future__ import annotations

import contextlib
import json
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

from serving import answering, free_port, service

import dare_reward

SETTINGS = {"max_groups": 1024, "max_json_bytes": 1 << 26, "max_body_bytes": 1 << 27}


class Live:
    """`dare-reward serve` in a process of its own."""

    def __init__(self) -> None:
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self.running = contextlib.ExitStack()
        self.start()

    def start(self) -> None:
        self.running.enter_context(service(port=self.port, DARE_DRAIN=0))

    def stop(self) -> None:
        self.running.close()

    def restart_after(self, seconds: float) -> threading.Thread:
        """Gone now, back later."""
        self.stop()
        thread = threading.Thread(target=lambda: (time.sleep(seconds), self.start()))
        thread.start()
        return thread


@contextlib.contextmanager
def live() -> Iterator[Live]:
    server = Live()
    try:
        yield server
    finally:
        server.stop()


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
