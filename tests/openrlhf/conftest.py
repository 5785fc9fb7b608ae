"""The released OpenRLHF client, on a machine without a GPU.

`OPENRLHF_TREE` names the directory that holds a release's `openrlhf` package (scripts/test_stack.py sets
it). Its modules run as they were released; what they import of Ray, vLLM, DeepSpeed and the like is stood in for, and
so are the `__init__` files of packages that would import all of it.
"""

from __future__ import annotations

import asyncio
import contextlib
import importlib
import os
import random
import socket
import sys
import threading
import types
from collections.abc import Callable, Iterator
from importlib.machinery import ModuleSpec
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock

import pytest
import uvicorn

from dare_service.app import create_app
from dare_service.settings import Settings
from dare_service.uvicorn_connection import Connection

HEAVY = (
    "ray",
    "vllm",
    "deepspeed",
    "flash_attn",
    "peft",
    "transformers",
    "datasets",
    "tqdm",
    "torchdata",
    "optree",
    "wandb",
)
BARE = (
    "openrlhf",
    "openrlhf.utils",
    "openrlhf.trainer",
    "openrlhf.trainer.ppo_utils",
    "openrlhf.trainer.ray",
    "openrlhf.models",
)
ABSENT = ("openrlhf.datasets", "openrlhf.utils.deepspeed", "openrlhf.utils.utils", "openrlhf.trainer.ray.launcher")


class Release:
    """Modules of one release."""

    def __init__(self, tree: Path) -> None:
        self.tree = tree
        for name in BARE:
            package = types.ModuleType(name)
            package.__path__ = [str(tree / name.replace(".", "/"))]
            sys.modules[name] = package
        sys.meta_path.insert(0, _StandIns())
        self.agent = importlib.import_module("openrlhf.utils.agent")

    def module(self, name: str) -> types.ModuleType:
        return importlib.import_module(f"openrlhf.{name}")


class _StandIns:
    """Finds modules of HEAVY and ABSENT packages as mocks whose decorators leave classes as they are."""

    def find_spec(self, name: str, path: object = None, target: object = None) -> ModuleSpec | None:
        if name.partition(".")[0] in HEAVY or name.startswith(ABSENT):
            return ModuleSpec(name, self, is_package=True)  # type: ignore[arg-type]
        return None

    def create_module(self, spec: ModuleSpec) -> MagicMock:
        module = MagicMock(name=spec.name)
        module.__path__, module.__spec__, module.__name__ = [], spec, spec.name
        module.remote, module.__version__ = _remote, "99.0"
        return module

    def exec_module(self, module: object) -> None:
        pass


def _remote(*args: Any, **_: Any) -> Any:
    return args[0] if args else _remote


@pytest.fixture(scope="session")
def release() -> Release:
    return Release(Path(os.environ["OPENRLHF_TREE"]))


class Ids(list):
    """Token ids as the executors use them: one per character."""

    def tolist(self) -> list[int]:
        return list(self)


class Tokenizer:
    def __call__(self, text: str, **_: Any) -> dict[str, list[Ids]]:
        return {"input_ids": [Ids(map(ord, text))]}

    def decode(self, ids: list[int], **_: Any) -> str:
        return "".join(map(chr, ids))


class Engine:
    """Generates what `say` returns, after `seconds`."""

    def __init__(self, say: Callable[[str], tuple[str, float]]) -> None:
        self.say = say

    async def generate(self, ids: list[int], sampling_params: Any, **_: Any) -> Any:

        text, seconds = self.say("".join(map(chr, ids)))
        await asyncio.sleep(seconds)
        output = types.SimpleNamespace(token_ids=list(map(ord, text)), finish_reason="stop", logprobs=None)
        return types.SimpleNamespace(outputs=[output])


@pytest.fixture
def execute(release) -> Callable[..., Any]:
    """`await execute(executor, prompt, label, say)`: one rollout through the release's executor."""

    def run(executor: Any, prompt: str, label: Any, say: Callable[[str], tuple[str, float]]) -> Any:
        params = types.SimpleNamespace(max_tokens=64, logprobs=None)
        return executor.execute(prompt, label, params, 4096, Tokenizer(), Engine(say))

    return run


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
        self.settings = Settings(**{"log": "off", "page": "off", **settings})
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
