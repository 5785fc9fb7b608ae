"""The rules of the suite itself: no assertion depends on a clock, and what replaces them finds what it is for."""

from __future__ import annotations

import ast
import inspect
import re
import subprocess
import sys
from pathlib import Path

import pytest
from growth import assert_calls, assert_cheap, assert_linear, scan
from rows import each

TESTS = Path(__file__).parents[1]
CLOCKS = {"perf_counter", "process_time", "thread_time", "monotonic", "clock_gettime", "elapsed"}
CLOCKS |= {f"{name}_ns" for name in CLOCKS}
MENTIONS = re.compile("|".join(sorted(CLOCKS)) + r"|\bimport time\b|\bfrom time\b")
TIME = {"time", "time_ns"}  # of the module `time` only: the time of a virtual event loop is no clock
FILES = [
    path for path in sorted(TESTS.rglob("*.py")) if path != TESTS / "growth.py" and TESTS / "bench" not in path.parents
]


def test_the_benchmarks_can_be_collected():
    """Nothing else imports them."""
    command = [sys.executable, "-m", "pytest", "--collect-only", "-q", "-p", "no:cacheprovider", str(TESTS / "bench")]
    done = subprocess.run(command, capture_output=True, text=True, cwd=TESTS.parent)
    assert done.returncode == 0, done.stdout


def asserted_clocks(source: str) -> list[int]:
    """The lines of assertions that depend on a clock: directly, by a name, or by a function of the same file.

    What is tainted in a function stays so to its end. That is stricter than needed now and then: take another name.
    """
    if MENTIONS.search(source) is None:
        return []
    tree = ast.parse(source)
    tainted = _imported(tree)
    functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
    count = -1
    while count != len(tainted):
        count = len(tainted)
        outside = [node for node in tree.body if node not in functions and not isinstance(node, ast.ClassDef)]
        tainted |= _assigned(outside, tainted)
        tainted |= {function.name for function in functions if _gives_time(function, tainted)}
    lines = set()
    for scope in (tree, *functions):
        nodes = [scope] if scope is not tree else tree.body
        inside = tainted | (_assigned(nodes, tainted) if scope is not tree else set())
        for node in _nodes(nodes):
            if isinstance(node, ast.Assert) and _depends(node.test, inside):
                lines.add(node.lineno)
    return sorted(lines)


def _imported(tree: ast.Module) -> set[str]:
    """The names that a file gives to clocks by importing them; the module itself under another name."""
    names = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module == "time":
            names |= {alias.asname or alias.name for alias in node.names if alias.name in CLOCKS | TIME}
        if isinstance(node, ast.Import):
            names |= {alias.asname for alias in node.names if alias.name == "time" and alias.asname}
    return names


def _nodes(nodes: list[ast.AST]) -> list[ast.AST]:
    return [inner for node in nodes for inner in ast.walk(node)]


def _depends(node: ast.AST | None, tainted: set[str]) -> bool:
    for inner in ast.walk(node) if node is not None else ():
        if isinstance(inner, ast.Name) and inner.id in tainted:
            return True
        if isinstance(inner, ast.Attribute):
            of_time = isinstance(inner.value, ast.Name) and inner.value.id == "time"
            if inner.attr in CLOCKS or (of_time and inner.attr in TIME):
                return True
    return False


def _assigned(nodes: list[ast.AST], tainted: set[str]) -> set[str]:
    """The names that take a value from a clock, until there are no more of them."""
    found, count = set(tainted), -1
    while count != len(found):
        count = len(found)
        for node in _nodes(nodes):
            found |= _targets(node, found)
    return found - tainted


def _targets(node: ast.AST, tainted: set[str]) -> set[str]:
    match node:
        case ast.Assign(targets=targets, value=value):
            pass
        case ast.AnnAssign(target=target, value=value) | ast.AugAssign(target=target, value=value):
            targets = [target]
        case ast.NamedExpr(target=target, value=value):
            targets = [target]
        case ast.For(target=target, iter=value) | ast.comprehension(target=target, iter=value):
            targets = [target]
        case ast.Call(func=ast.Attribute(value=ast.Name() as target, attr="append" | "extend" | "add" | "put")):
            targets, value = [target], ast.Tuple(node.args)
        case _:
            return set()
    if not _depends(value, tainted):
        return set()
    return {inner.id for target in targets for inner in ast.walk(target) if isinstance(inner, ast.Name)}


def _gives_time(function: ast.FunctionDef | ast.AsyncFunctionDef, tainted: set[str]) -> bool:
    inside = tainted | _assigned([function], tainted)
    given = (node for node in ast.walk(function) if isinstance(node, ast.Return | ast.Yield))
    return any(_depends(node.value, inside) for node in given)


def test_no_assertion_depends_on_a_clock():
    """Use growth.py; a figure belongs into tests/bench; a deadline that keeps a test from hanging raises."""
    assert len(FILES) > 100
    found = {str(path.relative_to(TESTS)): asserted_clocks(path.read_text(encoding="utf-8")) for path in FILES}
    assert {path: lines for path, lines in found.items() if lines} == {}


REFUSED = {
    "directly": "begun = time.perf_counter()\nwork()\nassert time.perf_counter() - begun < 5",
    "by a name": "start = time.monotonic()\nwork()\ntook = time.monotonic() - start\nassert took < 5",
    "by a name of a name": "start = clock()\ntook = clock() - start\nworst = max(took, 0)\nassert not worst > 5",
    "the best of several": "best = 9\nfor _ in range(3):\n    start = time.thread_time()\n    best = min(best, time.thread_time() - start)\nassert best < 1",
    "a list of times": "times = []\nfor _ in range(3):\n    times.append(time.process_time())\nassert max(times) < 1",
    "a comprehension": "times = [(time.time(), work()) for _ in range(3)]\nassert all(t < 1 for t, _ in times)",
    "a loop over times": "times = [time.perf_counter_ns()]\nfor t in times:\n    assert t < 1",
    "a ratio": "a, b = time.process_time(), time.process_time()\nassert a / b < 9",
    "a deadline": "end = time.monotonic() + 9\nwhile work():\n    assert time.monotonic() < end",
    "a function": "def took():\n    start = time.process_time()\n    return time.process_time() - start\nassert took() < 1",
    "a lambda": "now = lambda: time.time()\nassert now() < 1",
    "a clock by another name": "tick = time.perf_counter\nbegun = tick()\nassert tick() - begun < 1",
    "the module by another name": "import time as t\nassert t.time() < 1",
    "a walrus": "begun = time.monotonic()\nif (took := time.monotonic() - begun):\n    assert took < 1",
    "what httpx has measured": "response = client.get(url)\nassert response.elapsed.total_seconds() < 1",
}
ALLOWED = {
    "a deadline that raises": "end = time.monotonic() + 9\nwhile not ready():\n    if time.monotonic() > end:\n        pytest.fail('hangs')\nassert ready()",
    "a loop with a deadline": "end = time.monotonic() + 9\nwhile time.monotonic() < end and not (found := look()):\n    time.sleep(0.1)\nassert found",
    "a printed figure": "begun = time.perf_counter()\nwork()\nprint(time.perf_counter() - begun)\nassert work()",
    "virtual time": "begun = loop.time()\nassert loop.time() - begun == 3",
    "the module of a name": "moment = datetime.time(1)\nassert moment.hour == 1",
    "the helper": "assert_cheap(work, plain, times=9)\nassert work()",
}


@pytest.mark.parametrize("name", REFUSED)
@pytest.mark.parametrize("inside", [False, True])
def test_an_asserted_clock_is_found(name, inside):
    head, code = "import time\nfrom time import monotonic as clock\n", REFUSED[name]
    if inside:
        code = "def test_it():\n    " + code.replace("\n", "\n    ")
    last = (head + code).count("\n") + 1
    assert asserted_clocks(head + code) == [last]


@pytest.mark.parametrize("name", ALLOWED)
def test_other_uses_of_a_clock_are_allowed(name):
    assert asserted_clocks("import time\ndef test_it():\n    " + ALLOWED[name].replace("\n", "\n    ")) == []


def test_the_time_of_one_test_does_not_taint_another():
    text = "import time\ndef test_a():\n    took = time.time()\n    print(took)\ndef test_b():\n    took = 3\n    assert took == 3\n"
    assert asserted_clocks(text) == []


BACKTRACKS = re.compile(r" +x")


def test_quadratic_reading_is_found_and_linear_reading_is_not():
    assert_linear(scan, lambda n: "x" * n, 5_000)
    with pytest.raises(AssertionError, match=r"long .* ms, short .* ms, scan .* ms of CPU"):
        assert_linear(BACKTRACKS.search, lambda n: " " * n, 500)


def test_reading_that_is_linear_and_dear_is_found():
    with pytest.raises(AssertionError, match="dear: long"):
        assert_linear(lambda text: [scan(text) for _ in range(400)], lambda n: "x" * n, 1_000, "dear")


def test_a_dear_call_is_found_and_a_cheap_one_is_not():
    assert_cheap(lambda: scan("x" * 1_000), lambda: scan("x" * 10_000), times=1)
    with pytest.raises(AssertionError, match=r"too dear, at most 5 times: call .* ms, plain .* ms"):
        assert_cheap(lambda: scan("x" * 50_000), lambda: scan("x" * 1_000), times=5, what="too dear")


def test_work_without_a_bound_is_ended():
    def forever():
        while True:
            len("")

    assert_calls(lambda: [len("") for _ in range(90)], 100)
    with pytest.raises(AssertionError, match="forever: more than 1,000 calls"):
        assert_calls(forever, 1_000, "forever")


def test_every_row_that_fails_is_reported():
    seen = []

    @each(("a", "b"), [(1, 1), (1, 2), (0, 0), ("\ud800", 3)])
    def check(a, b, extra):
        seen.append((a, b, extra))
        assert a == b
        assert 1 / b

    with pytest.raises(pytest.fail.Exception) as caught:
        check(extra=7)
    text = str(caught.value)
    assert [row[2] for row in seen] == [7, 7, 7, 7]
    assert re.findall(r"row \d|^3 of 4 rows|\w+Error", text) == [
        "3 of 4 rows", "row 1", "AssertionError", "row 2", "ZeroDivisionError", "row 3", "AssertionError",
    ]  # fmt: skip


def test_rows_leave_the_other_parameters_to_pytest():
    @each("a", [(1, 2), (3, 4)])
    def check(a, tmp_path):
        assert len(a) == tmp_path

    assert list(inspect.signature(check).parameters) == ["tmp_path"]
    check(tmp_path=2)
    with pytest.raises(pytest.fail.Exception, match="2 of 2 rows"):
        check(tmp_path=3)
    with pytest.raises(AssertionError, match="no rows"):
        each("a", [])
