"""The rooms of the code: who may import whom inside a package, how wide a folder is, what a class is called."""

import ast
import builtins
import tomllib
from collections import defaultdict
from functools import cache
from graphlib import TopologicalSorter
from importlib.util import resolve_name
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SHIPPED = {"dare_reward": "client", "dare_service": "service", "dare_trainer": "trainer"}
PACKAGES = SHIPPED | {"dare_research": "research"}

# The module that imports whatever lies in a folder, and so depends on none of it by name.
DISCOVERY = {"dare_reward.methods"}

WIDEST = 22
A_FILE_A_PAPER = "dare_reward.estimators"


LOOKED_AT = (ast.Import, ast.ImportFrom, ast.Call, ast.Constant, ast.ClassDef)


@cache
def modules():
    """Each module of the project by its dotted name: its file, its tree, and the nodes of that tree."""
    found = {}
    for package, folder in PACKAGES.items():
        for file in (ROOT / folder / package).rglob("*.py"):
            parts = file.relative_to(ROOT / folder).with_suffix("").parts
            tree = ast.parse(file.read_text())
            name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
            found[name] = (file, tree, [node for node in ast.walk(tree) if isinstance(node, LOOKED_AT)])
    return found


def package_of(module):
    return module if modules()[module][0].name == "__init__.py" else module.rpartition(".")[0]


def absolute(module, name, level=0):
    """The dotted name of `from ..x`, written in `module`."""
    return resolve_name("." * level + (name or ""), package_of(module))


@cache
def home(source, name):
    """The module that `from source import name` needs: a submodule, or where a package's `__init__` has the name from."""
    if f"{source}.{name}" in modules():
        return f"{source}.{name}"
    file, _, nodes = modules()[source]
    if file.name == "__init__.py":
        for node in nodes:
            if isinstance(node, ast.ImportFrom) and name in {alias.asname or alias.name for alias in node.names}:
                inner = absolute(source, node.module, node.level)
                return home(inner, name) if inner in modules() else source
    return source


def strings(module):
    """The modules that `import_module("name")` and `import_module(".name", __package__)` name."""
    _, tree, nodes = modules()[module]
    constants = {}
    for node in tree.body:
        if isinstance(node, ast.Assign | ast.AnnAssign) and isinstance(node.value, ast.Constant):
            target = node.targets[0] if isinstance(node, ast.Assign) else node.target
            constants[ast.unparse(target)] = node.value.value
    for node in nodes:
        called = getattr(node, "func", None)
        if getattr(called, "attr", getattr(called, "id", None)) not in {"import_module", "__import__"}:
            continue
        argument = node.args[0]
        name = constants.get(ast.unparse(argument), getattr(argument, "value", None))
        if not isinstance(name, str):
            assert module in DISCOVERY, f"{module}:{node.lineno} imports a module that no reader can name"
            continue
        yield absolute(module, name)


def entry_points():
    """The functions that the command line loads by name."""
    for file in (ROOT / "pyproject.toml", ROOT / "research" / "pyproject.toml"):
        if file.exists():
            project = tomllib.loads(file.read_text())["project"]
            for target in project.get("entry-points", {}).get("dare_reward.commands", {}).values():
                yield target.partition(":")[0]


@cache
def imports():
    """Each module with the modules of the project that it imports: on top, in functions, for types and by strings."""
    found = {}
    for module, (_, _, nodes) in modules().items():
        needed = set(strings(module))
        for node in nodes:
            if isinstance(node, ast.Import):
                needed |= {alias.name for alias in node.names}
            elif isinstance(node, ast.ImportFrom):
                source = absolute(module, node.module, node.level)
                needed |= {home(source, alias.name) for alias in node.names if source in modules()}
        found[module] = needed & modules().keys()
    found["dare_reward.cli"] |= set(entry_points())
    return found


def reach(start):
    """What is imported from `start` on, directly or through other modules."""
    seen, waiting = set(), [start]
    while waiting:
        new = imports()[waiting.pop()] - seen
        seen |= new
        waiting += new
    return seen


def rooms(folder):
    """The modules and folders in a folder, each with those of its neighbours that it imports."""
    depth = folder.count(".") + 2
    graph = defaultdict(set)
    for module, needed in imports().items():
        if module.startswith(folder + "."):
            name = ".".join(module.split(".")[:depth])
            graph[name] |= {".".join(m.split(".")[:depth]) for m in needed if m.startswith(folder + ".")} - {name}
    return graph


def room(module, name):
    return module == name or module.startswith(name + ".")


def test_imports_are_seen():
    """Of every kind one: on top, re-exported, in a function, by a string, by an entry point."""
    seen = imports()
    assert "dare_reward.answers.keys" in seen["dare_reward.answers.classes"]
    assert "dare_reward.answers.choices" in seen["dare_trainer.launch.questions"]
    assert "dare_reward.client" in seen["dare_reward.commands.score"]
    assert "dare_trainer.vllm.entropy_torch" in seen["dare_trainer.vllm.plugin"]
    assert "dare_service.serve" in seen["dare_reward.cli"]


@pytest.mark.parametrize("package", PACKAGES)
def test_the_direction_of_dependence(package):
    allowed = PACKAGES.keys() if package == "dare_research" else {"dare_reward", package}
    own = {module for module in modules() if room(module, package)}
    assert own or package not in SHIPPED
    for module in own:
        needed = imports()[module] - (set(entry_points()) if module == "dare_reward.cli" else set())
        assert {name.partition(".")[0] for name in needed} <= allowed, module


def test_nothing_that_is_shipped_names_the_studies_package():
    """Nor as a string that is imported later."""
    for module, (file, *_) in modules().items():
        assert not module.startswith(tuple(SHIPPED)) or "dare_research" not in file.read_text(), file


def named_by(module):
    """Every module of the base package that a module names, in an import or a string, with the names taken from it."""
    for node in modules()[module][2]:
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and not node.level:
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value.startswith("dare_reward."):
            yield node.value


@pytest.mark.parametrize("package", sorted(PACKAGES.keys() - {"dare_reward"}))
def test_what_has_an_underscore_stays_in_its_package(package):
    names = {name for module in modules() if room(module, package) for name in named_by(module)}
    names = {name for name in names if name.startswith("dare_reward.")}
    assert names or package not in SHIPPED
    assert {n for n in names if any(p.startswith("_") and p != "__version__" for p in n.split(".")[1:])} == set()


def test_only_the_client_imports_httpx():
    users = {module for module in modules() if room(module, "dare_reward") and "httpx" in set(named_by(module))}
    assert users <= {"dare_reward.client"}


# vLLM loads their modules at its start, used or not, and must not load this package with them.
OF_VLLM = {"EntropyError", "PluginError"}
# A verdict of the answers' parser, which no caller of `dare_reward.answers` ever sees.
OF_THE_PARSER = {"Unreadable"}


def classes():
    """Those of what is shipped, each with its module."""
    shipped = {module: nodes for module, (_, _, nodes) in modules().items() if module.partition(".")[0] in SHIPPED}
    return [(module, node) for module, nodes in shipped.items() for node in nodes if isinstance(node, ast.ClassDef)]


def test_errors_are_of_one_tree_or_private():
    bases = {node.name: {base.id for base in node.bases if isinstance(base, ast.Name)} for _, node in classes()}

    def ancestors(name):
        return {name}.union(*(ancestors(b) for b in bases.get(name, ()) if b != name))

    builtin = {n for n, e in vars(builtins).items() if isinstance(e, type) and issubclass(e, BaseException)}
    errors = {n for n in bases if ancestors(n) & builtin}
    assert errors >= {"DareError", "FrameError", "SettingsError", "SiblingError", "Held"}
    outside = {n for n in errors if "DareError" not in ancestors(n) and not n.startswith("_")}
    assert outside <= OF_VLLM | OF_THE_PARSER


def test_no_import_goes_in_a_circle():
    TopologicalSorter(imports()).prepare()  # which names a circle


def test_no_room_imports_one_that_imports_it():
    """At every level a folder is one room, with all that lies in it."""
    folders = {package_of(module) for module in modules()}
    assert {"dare_reward", "dare_reward.answers", "dare_service", "dare_trainer"} <= folders
    for folder in folders:
        TopologicalSorter(rooms(folder)).prepare()


@pytest.mark.parametrize(
    ("below", "above"),
    [
        ("extraction", ("algebra", "forms", "keys", "classes")),
        ("algebra", ("extraction", "forms", "keys", "classes")),
        ("forms", ("extraction", "keys", "classes")),
    ],
)
def test_the_rooms_of_the_answers(below, above):
    """What a rollout claims and when two answers are one are told apart; what is below knows nothing of what is above."""
    inside = [module for module in modules() if room(module, f"dare_reward.answers.{below}")]
    assert len(inside) > 5
    for high in (f"dare_reward.answers.{name}" for name in above):
        assert any(room(module, high) for module in modules())
        assert [(module, m) for module in inside for m in reach(module) if room(m, high)] == []


def test_only_the_classes_import_the_keys():
    """The floors above all rooms: keys, then classes, then the package."""
    users = defaultdict(set)
    for module, needed in imports().items():
        if room(module, "dare_reward.answers"):
            for name in needed:
                users[name].add(module)
    # Labels ask only whether there is a key.
    assert users["dare_reward.answers.keys"] == {f"dare_reward.answers{m}" for m in ("", ".classes", ".labels")}
    assert users["dare_reward.answers.classes"] == {f"dare_reward.answers{m}" for m in ("", ".rollouts", ".labels")}


def test_no_folder_is_too_wide():
    width = defaultdict(int)
    for module, (file, *_) in modules().items():
        width[package_of(module)] += file.name != "__init__.py"
    assert len(width) > 15
    assert {folder: n for folder, n in width.items() if n > WIDEST and folder != A_FILE_A_PAPER} == {}


def test_a_class_name_means_one_thing():
    defined = defaultdict(set)
    for module, node in classes():
        if not node.name.startswith("_"):
            defined[node.name].add(module)
    assert len(defined) > 100
    shared = {name: sorted(where) for name, where in defined.items() if len(where) > 1}
    assert shared == {}
