"""A released OpenRLHF client on a machine without a GPU: its modules. What drives them is tests/trainer/fakes.py.

`OPENRLHF_TREE` names the directory that holds a release's `openrlhf` package (scripts/test_stack.py sets it). Its
modules run as they were released; what they import of Ray, vLLM, DeepSpeed and the like is stood in for, and so are the
`__init__` files of packages that would import all of it.
"""

from __future__ import annotations

import importlib
import sys
import types
from importlib.machinery import ModuleSpec
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock

import pytest

HEAVY = (
    "ray", "vllm", "deepspeed", "flash_attn", "peft", "transformers", "datasets", "tqdm", "torchdata", "optree", "wandb",
)  # fmt: skip
BARE = ("openrlhf", *(f"openrlhf.{n}" for n in ("utils", "trainer", "trainer.ppo_utils", "trainer.ray", "models")))
ABSENT = ("openrlhf.datasets", "openrlhf.utils.deepspeed", "openrlhf.utils.utils", "openrlhf.trainer.ray.launcher")

# Of the tests of a release.
MARKS = [
    pytest.mark.openrlhf,
    pytest.mark.anyio,
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),  # torch's own
]


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

    @property
    def samples(self) -> types.ModuleType:
        """The module of SamplesGenerator, which before 0.9.9 is the experience maker's."""
        own = "samples_generator" if list(self.tree.rglob("samples_generator.py")) else "experience_maker"
        return self.module(f"trainer.ppo_utils.{own}")


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
