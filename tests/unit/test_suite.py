"""The rules of the suite itself: no assertion depends on a clock, and what replaces them finds what it is for."""

from __future__ import annotations

import inspect
import re
from pathlib import Path

import pytest
from by_path import load
from growth import assert_calls, assert_cheap, assert_linear, scan
from rows import each

TESTS = Path(__file__).parents[1]
FILES = [path for path in sorted(TESTS.rglob("*.py")) if TESTS / "bench" not in path.parents]
CLOCK = re.compile(
    r"^.*\b(?:perf_counter|process_time|thread_time|monotonic|clock_gettime|elapsed|time\.time)(?:_ns)?\b.*$",
    re.MULTILINE,
)
# Who may name one: the yardsticks, a stand-in, a deadline that raises, a figure that is printed.
TIMED = {
    "growth.py", "serving.py", "unit/test_suite.py", "trainer/test_openrlhf_group.py", "service/joins/test_join.py",
    "faults/births.py", "faults/table.py", "browser/conftest.py", "browser/test_browser.py", "e2e/openrlhf/loop.py",
    "e2e/openrlhf/generate.py",
}  # fmt: skip


@pytest.mark.parametrize("file", sorted((TESTS / "bench").glob("*.py")), ids=lambda file: file.stem)
def test_the_benchmarks_can_be_imported(file, monkeypatch):
    """Nothing else imports them."""
    monkeypatch.syspath_prepend(file.parent)
    load(file, f"bench_{file.stem}")


def test_no_assertion_depends_on_a_clock():
    """Use growth.py; a figure belongs into tests/bench; a deadline that keeps a test from hanging raises."""
    found = {path.relative_to(TESTS).as_posix(): CLOCK.findall(path.read_text(encoding="utf-8")) for path in FILES}
    assert {name for name, lines in found.items() if lines} == TIMED
    assert [line for name in TIMED - {"growth.py"} for line in found[name] if "assert " in line] == []


BACKTRACKS = re.compile(r" +x")


def test_quadratic_and_dear_reading_is_found_and_linear_reading_is_not():
    assert_linear(scan, lambda n: "x" * n, 5_000)
    with pytest.raises(AssertionError, match=r"long .* ms, short .* ms, scan .* ms of CPU"):
        assert_linear(BACKTRACKS.search, lambda n: " " * n, 500)
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


def test_every_row_that_fails_is_reported_and_other_parameters_are_left_to_pytest():
    seen = []

    @each(("a", "b"), [(1, 1), (1, 2), (0, 0), ("\ud800", 3)])
    def check(a, b, extra):
        seen.append((a, b, extra))
        assert a == b
        assert 1 / b

    assert list(inspect.signature(check).parameters) == ["extra"]
    with pytest.raises(pytest.fail.Exception) as caught:
        check(extra=7)
    assert [row[2] for row in seen] == [7, 7, 7, 7]
    assert re.findall(r"row \d|^3 of 4 rows|\w+Error", str(caught.value)) == [
        "3 of 4 rows", "row 1", "AssertionError", "row 2", "ZeroDivisionError", "row 3", "AssertionError",
    ]  # fmt: skip
    with pytest.raises(AssertionError, match="no rows"):
        each("a", [])
