"""The rule of the suite itself: no assertion depends on a clock, which is another one on every machine."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest
from growth import assert_calls, assert_cheap, assert_linear, scan

TESTS = Path(__file__).parents[1]
# A clock of time, and what a reply or a run says of its own duration.
CLOCKS = {"perf_counter", "process_time", "thread_time", "monotonic", "clock_gettime", "elapsed"}
CLOCKS |= {f"{name}_ns" for name in CLOCKS}
ALLOWED = {TESTS / "growth.py"}
FILES = [p for p in sorted(TESTS.rglob("*.py")) if "bench" not in p.relative_to(TESTS).parts and p not in ALLOWED]


def asserted_clocks(source: str) -> list[int]:
    """The lines of the assertions that depend on a clock: directly, by a name, or by a function of the same file.

    Names are not told apart by scope, and a name stays tainted once it is: too strict for some code, which then takes
    another name.
    """
    tree = ast.parse(source)
    aliases = {
        alias.asname or alias.name
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and node.module == "time"
        for alias in node.names
        if alias.name in CLOCKS | {"time", "time_ns"}
    }
    total = set()
    for scope in ast.walk(tree):
        if isinstance(scope, ast.FunctionDef | ast.AsyncFunctionDef) and _tainted(scope, aliases, set())[1]:
            total.add(scope.name)
    return sorted({line for scope in ast.walk(tree) for line in _lines(scope, aliases, total)})
