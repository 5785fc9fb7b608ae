"""The shape of the package: no import circle, one meaning a class name, links that lead somewhere."""

import ast
import doctest
import re
import subprocess
import sys
from collections import Counter
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

HERE = Path(__file__).parents[1]
ROOT = HERE.parent
FILES = {
    ".".join(f.relative_to(HERE).with_suffix("").parts).removesuffix(".__init__"): f
    for f in sorted((HERE / "dare_research").rglob("*.py"))
}
PAGES = [HERE / "README.md", *sorted((HERE / "docs").glob("*.md"))]


def imported(name, file):
    """Modules of this package that a module imports, at its top or inside a function."""
    package = name.split(".") if file.name == "__init__.py" else name.split(".")[:-1]
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.ImportFrom):
            start = package[: len(package) - node.level + 1] if node.level else []
            module = ".".join([*start, *([node.module] if node.module else [])])
            found = [f"{module}.{alias.name}" for alias in node.names] + [module]
            yield from {next((m for m in (f, module) if m in FILES), None) for f in found} - {None, name}
        elif isinstance(node, ast.Import):
            yield from {alias.name for alias in node.names} & set(FILES)


def test_no_module_imports_itself_by_way_of_others():
    graph = {name: set(imported(name, file)) for name, file in FILES.items()}
    assert sum(map(len, graph.values())) > 60
    TopologicalSorter(graph).prepare()  # raises CycleError


def classes(*folders):
    for folder in folders:
        for file in (ROOT / folder).rglob("*.py"):
            yield from (n.name for n in ast.parse(file.read_text()).body if isinstance(n, ast.ClassDef))


def test_a_class_name_means_one_thing():
    own = Counter(classes("research/dare_research"))
    assert max(own.values()) == 1, own.most_common(3)
    assert not set(own) & set(classes("client", "service", "trainer"))


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.name)
def test_links_lead_somewhere(page):
    for target in re.findall(r"\]\(([^)#]+?)(?:#[^)]*)?\)", page.read_text()):
        if not target.startswith("http"):
            assert (page.parent / target).exists(), target


def test_outputs_and_sessions_of_the_analysis_page():
    """`python scripts/docs.py research/docs/analysis.md` renews the outputs."""
    page = HERE / "docs" / "analysis.md"
    assert doctest.testfile(str(page), module_relative=False).failed == 0
    subprocess.run([sys.executable, ROOT / "scripts" / "docs.py", "--check", page], check=True)
