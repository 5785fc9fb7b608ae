"""A released OpenRLHF client on a machine without a GPU: its modules, and an engine that says what it is told to.

`OPENRLHF_TREE` names the directory that holds a release's `openrlhf` package (scripts/test_stack.py sets it). Its
modules run as they were released; what they import of Ray, vLLM, DeepSpeed and the like is stood in for, and so are the
`__init__` files of packages that would import all of it.
"""

from __future__ import annotations

import asyncio
import importlib
import sys
import types
from collections.abc import Callable
from importlib.machinery import ModuleSpec
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock

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


def execute(executor: Any, prompt: str, label: Any, say: Callable[[str], tuple[str, float]]) -> Any:
    """One rollout through the release's executor, to be awaited."""
    params = types.SimpleNamespace(max_tokens=64, logprobs=None)
    return executor.execute(prompt, label, params, 4096, Tokenizer(), Engine(say))
