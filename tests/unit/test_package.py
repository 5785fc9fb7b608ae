"""The shape of the package: what loading it costs, what it exports. Who imports whom: test_rooms.py."""

import importlib
import inspect
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

import dare_reward
import dare_reward.client
import dare_reward.errors
from dare_reward.errors import DareError, path

ROOT = Path(__file__).parents[2]


# What is done one after the other in one interpreter, and of what each loads nothing; `None`: the standard library alone.
STAGES = {
    "the trainer's package": ("import dare_trainer", {"numpy", "httpx", "dare_reward"}),
    # The entry point is imported by each vLLM process of the environment, used or not.
    "what vLLM loads at every start": ("import dare_trainer.openrlhf.patch", {"httpx", "dare_reward"}),
    "numpy": ("import numpy", set()),
    "the package and its methods": ("import dare_reward, dare_reward.methods; dare_reward.methods()", None),
    "scoring without hard answers": (
        "import dare_reward; dare_reward.estimate([{'rollouts': [{'answer': '1', 'mean_entropy': 0.1}]}])",
        None,
    ),
    "a command": (
        "from dare_reward.cli import command_line; command_line('score')",
        {"dare_reward.commands.report", "dare_service.serve", "dare_trainer.launch.doctor"},
    ),
    "the adapters": (
        "from dare_reward.stacks import trl, verl, slime",
        {"torch", "trl", "verl", "swift", "slime", "accelerate", "httpx", "transfer_queue"},
    ),
    "the clients": ("import dare_reward; dare_reward.Client", set()),
    "a service": (
        "from dare_service.server import serve; from dare_service.app import create_app; create_app()",
        {"pydantic.v1"},
    ),
}
PROGRAM = """
import json, sys
loaded = {}
for name, code in json.load(sys.stdin).items():
    before = set(sys.modules)
    exec(code)
    loaded[name] = sorted(set(sys.modules) - before)
print(json.dumps(loaded))
"""


@pytest.fixture(scope="module")
def loaded():
    """The modules that each stage loads beyond those before it."""
    told = json.dumps({name: code for name, (code, _) in STAGES.items()})
    done = subprocess.run([sys.executable, "-c", PROGRAM], input=told, check=True, capture_output=True, text=True)
    return {name: set(modules) for name, modules in json.loads(done.stdout).items()}


@pytest.mark.parametrize("stage", STAGES)
def test_what_loading_costs(loaded, stage):
    _, without = STAGES[stage]
    if without is not None:
        assert not loaded[stage] & without
        return
    packages = {name.partition(".")[0] for name in loaded[stage]}
    # A package of methods, such as dare_research, loads where it is installed, by its entry points.
    assert packages - sys.stdlib_module_names - {"dare_research"} <= {"dare_reward"}


def test_the_clients_bring_httpx_and_a_command_its_own_module(loaded):
    assert "httpx" in loaded["the clients"]
    assert "dare_reward.commands.score" in loaded["a command"]


def test_exports():
    assert sorted(dare_reward.__all__) == list(dare_reward.__all__)
    for name in dare_reward.__all__:
        assert getattr(dare_reward, name) is not None
    with pytest.raises(AttributeError):
        dare_reward.nothing  # noqa: B018


def test_every_error_carries_a_status():
    errors = [e for e in vars(dare_reward.errors).values() if isinstance(e, type) and issubclass(e, DareError)]
    assert len(errors) >= 10
    assert {e.__name__ for e in errors} == set(dare_reward.errors.__all__)
    assert {e.status for e in errors if hasattr(e, "status")} <= {400, 409, 413, 422, 500, 502, 503}


def test_paths_read_like_code():
    assert path(("groups", 0, "rollouts", 3, "text")) == "groups[0].rollouts[3].text"
    assert path(()) == ""


def resolved(name):
    """What a dotted name means: a module, or a name in one."""
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError:
        module, _, last = name.rpartition(".")
        return getattr(importlib.import_module(module), last)


def public():
    """The names that the Python reference lists; a module stands for the names of its `__all__`."""
    listed = re.findall(r"^::: (\S+)$", (ROOT / "docs/reference/python.md").read_text(), re.MULTILINE)
    assert len(set(listed)) == len(listed)
    for name in listed:
        found = resolved(name)
        yield from (f"{name}.{n}" for n in found.__all__) if inspect.ismodule(found) else (name,)


def test_the_reference_lists_what_the_package_exports():
    known = {id(resolved(name)) for name in public()}
    assert len(known) < 80, "a list that a person reads in two minutes"
    assert [n for n in dare_reward.__all__ if n != "__version__" and id(getattr(dare_reward, n)) not in known] == []


def test_documents_import_what_is_public_alone():
    known = {id(resolved(name)) for name in public()}
    seen = 0
    examples = [p for p in (ROOT / "examples").rglob("*.py") if p.parent.name != "real_model"]  # a tool of the project
    for file in (ROOT / "README.md", *(ROOT / "docs").rglob("*.md"), *examples):
        for module, names in re.findall(r"^\s*from (dare_\w+[\w.]*) import ([\w, ]+)$", file.read_text(), re.MULTILINE):
            for name in names.split(","):
                seen += 1
                assert id(resolved(f"{module}.{name.strip()}")) in known, f"{file.name}: {module}.{name.strip()}"
    assert seen > 5
