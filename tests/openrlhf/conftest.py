"""The released OpenRLHF client against a service in this process."""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
import socket
import threading
import types
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import uvicorn
from released import Engine, Release, Tokenizer, execute

from dare_service.app import create_app
from dare_service.settings import Settings
from dare_service.uvicorn_connection import Connection


@pytest.fixture(scope="session")
def release() -> Release:
    return Release(Path(os.environ["OPENRLHF_TREE"]))


@pytest.fixture(name="execute")
def one_rollout(release) -> Callable[..., Any]:
    return execute


@pytest.fixture
def step(release) -> Callable[..., Any]:
    """`await step(url, prompts, n)`: what `generate_responses` of the release returns for each prompt."""

    async def run(url: str, prompts: list[tuple[str, Any]], n: int, *, say=None, seed: int = 0) -> list[list[dict]]:

        rng = random.Random(seed)
        say = say or (lambda prompt: (f"It is \\boxed{{{rng.choice([1, 1, 2, 3])}}}.<|im_end|>", rng.random() * 0.5))
        actor = types.SimpleNamespace(
            executor=release.agent.SingleTurnAgentExecutor([url]), generate=Engine(say).generate
        )
        module = vars(release.module("trainer.ray.vllm_engine"))  # the actor's name differs between releases
        responses = next(
            c.generate_responses for c in module.values() if "generate_responses" in getattr(c, "__dict__", ())
        )
        params = types.SimpleNamespace(max_tokens=64, logprobs=None)
        calls = (responses(actor, p, label, params, 4096, Tokenizer(), num_samples=n) for p, label in prompts)
        return list(await asyncio.gather(*calls))

    return run


class Live:
    """The service on a loopback socket, in a thread; it can be stopped as if killed, and started again on its port."""

    def __init__(self, **settings: Any) -> None:
        self.settings = Settings(**{"log": "off", "page": "off", "join_runs": "any", **settings})
        self.port = 0
        self.start()

    def start(self) -> None:

        self.app = create_app(self.settings)
        listener = socket.create_server(("127.0.0.1", self.port), backlog=4096)
        self.port = listener.getsockname()[1]
        config = uvicorn.Config(self.app, http=Connection, log_config=None, access_log=False, lifespan="off")
        self.server = uvicorn.Server(config)
        self.thread = threading.Thread(target=lambda: asyncio.run(self.server.serve(sockets=[listener])))
        self.thread.start()
        while not self.server.started:
            assert self.thread.is_alive()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/reward"

    @property
    def waiting(self) -> int:
        return self.app.state.dare.openrlhf.join.waiting

    def kill(self) -> None:
        """Connections break without a reply."""
        self.server.force_exit = True
        self.server.should_exit = True
        self.thread.join(10)
        assert not self.thread.is_alive()


@pytest.fixture
def live() -> Iterator[Callable[..., Live]]:
    with contextlib.ExitStack() as stack:

        def start(**settings: Any) -> Live:
            service = Live(**settings)
            stack.callback(service.kill)
            return service

        yield start
