"""The shape of the package: who imports whom, what loading it costs, what it exports."""

import ast
import builtins
import importlib
import inspect
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
PRODUCT = {"dare_reward": "client", "dare_service": "service", "dare_trainer": "trainer"}
PACKAGES = {**PRODUCT, "dare_research": "research/dare_research"}  # the last is not in an sdist


def imports(file):
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name.partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and not node.level:
            yield node.module.partition(".")[0]


@pytest.mark.parametrize("package", PACKAGES)
def test_the_direction_of_dependence(package):
    allowed = PACKAGES.keys() if package == "dare_research" else {"dare_reward", package}
    files = list((ROOT / PACKAGES[package]).rglob("*.py"))
    assert files or package not in PRODUCT
    for file in files:
        assert {i for i in imports(file) if i in PACKAGES} <= allowed, file


def test_nothing_that_is_shipped_names_the_studies_package():
    """Nor as a string that is imported later."""
    for folder in PRODUCT.values():
        for file in (ROOT / folder).rglob("*.py"):
            assert "dare_research" not in file.read_text(), file


def modules_of(file):
    """Every module that a file names in an import, wherever it stands, with the names that are taken from it."""
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and not node.level:
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value.startswith("dare_reward."):
            yield node.value


@pytest.mark.parametrize("package", sorted(PACKAGES.keys() - {"dare_reward"}))
def test_what_has_an_underscore_stays_in_its_package(package):
    names = {m for file in (ROOT / PACKAGES[package]).rglob("*.py") for m in modules_of(file)}
    names = {name for name in names if name.startswith("dare_reward.")}
    assert names or package not in PRODUCT
    assert {n for n in names if any(p.startswith("_") and p != "__version__" for p in n.split(".")[1:])} == set()


def loaded(code):
    program = f"import sys\n{code}\nprint(*sorted(m for m in sys.modules if '.' not in m))"
    return set(
        subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True).stdout.split()
    )


PLUGINS = {"dare_research"}  # loads where it is installed, by its entry points


def test_importing_loads_numpy_alone():
    """Beside the standard library; what an interpreter of this environment loads by itself does not count."""
    extra = loaded("import dare_reward, dare_reward.methods; dare_reward.methods()") - loaded("import numpy")
    assert extra - sys.stdlib_module_names - PLUGINS == {"dare_reward"}


def test_scoring_without_hard_answers_loads_no_more():
    code = "import dare_reward; dare_reward.estimate([{'rollouts': [{'answer': '1', 'mean_entropy': 0.1}]}])"
    assert loaded(code) - loaded("import numpy") - sys.stdlib_module_names - PLUGINS == {"dare_reward"}


def test_the_clients_bring_httpx():
    assert "httpx" in loaded("import dare_reward; dare_reward.Client")


def test_only_the_client_imports_httpx():
    users = {f.name for f in (ROOT / "client").rglob("*.py") if "httpx" in set(imports(f))}
    assert users <= {"client.py"}


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


# vLLM loads their modules at its start, used or not, and must not load this package with them.
OF_VLLM = {"EntropyError", "PluginError"}
# A verdict of the answers' parser, which no caller of `dare_reward.answers` ever sees.
OF_THE_PARSER = {"Unreadable"}


def test_errors_are_of_one_tree_or_private():
    bases = {}
    for room, package in (("client", "dare_reward"), ("service", "dare_service"), ("trainer", "dare_trainer")):
        for file in (ROOT / room / package).rglob("*.py"):
            for node in ast.walk(ast.parse(file.read_text())):
                if isinstance(node, ast.ClassDef):
                    bases[node.name] = {b.id for b in node.bases if isinstance(b, ast.Name)}

    def ancestors(name):
        return {name}.union(*(ancestors(b) for b in bases.get(name, ()) if b != name))

    builtin = {n for n, e in vars(builtins).items() if isinstance(e, type) and issubclass(e, BaseException)}
    errors = {n for n in bases if ancestors(n) & builtin}
    assert errors >= {"DareError", "FrameError", "SettingsError", "SiblingError", "Held"}
    outside = {n for n in errors if "DareError" not in ancestors(n) and not n.startswith("_")}
    assert outside <= OF_VLLM | OF_THE_PARSER


def test_paths_read_like_code():
    assert path(("groups", 0, "rollouts", 3, "text")) == "groups[0].rollouts[3].text"
    assert path(()) == ""


# --- what is public --------------------------------------------------------------------------------------------------


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
