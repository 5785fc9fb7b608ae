"""What a test may say about cost: counted calls, and CPU time beside CPU time of the same run.

No test outside tests/bench asserts a duration, which a slower or a busy machine would fail. Count work where it can be
counted (`assert_calls`). Where it cannot, as inside a regular expression, compare (`assert_linear`, `assert_proportional`, `assert_cheap`): both
sides run in turn in one process, the least of several tries counts, and the bounds are several times what is usual.
This is the only module whose assertions may look at a clock: `tests/unit/test_suite.py` refuses any other.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")
TRIES, HOPELESS = 20, 3  # what costs three times as much as allowed is not tried so often
FACTOR = 8  # how much longer the longer text is
GROWTH = 24  # how much more it may cost: linear work costs 8 times as much, quadratic work 64 times
SCANS = 40  # how many plain scans of a text may be paid for reading it


class TooManyCallsError(AssertionError):
    """Raised inside the code under test, so that work without a bound ends."""


def calls(function: Callable[[], object], limit: float = float("inf"), what: object = "") -> int:
    """How many functions of Python and C it calls: a count that is the same on every machine."""
    count = 0

    def note(frame: object, event: str, argument: object) -> None:
        nonlocal count
        count += event in {"call", "c_call"}
        if count > limit:
            raise TooManyCallsError(f"{what}: more than {limit:,} calls")

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        function()
    finally:
        sys.setprofile(before)
    return count


def assert_calls(function: Callable[[], object], limit: int, what: object = "") -> None:
    """`function` calls at most `limit` functions of Python or C."""
    calls(function, limit, what)


def assert_linear(read: Callable[[str], object], text: Callable[[int], str], size: int, what: object = "") -> None:
    """Reading `text(8 size)` costs about 8 times as much as `text(size)`, and no more than some plain scans of it."""
    short, long = text(size), text(FACTOR * size)

    def share(cost_long: float, cost_short: float, cost_scan: float) -> float:
        cost_scan *= FACTOR
        return cost_long / min(GROWTH * cost_short + cost_scan, SCANS * cost_scan)

    _assert_within(share, what, long=lambda: read(long), short=lambda: read(short), scan=lambda: scan(short))


def assert_proportional(work: Callable[[T], object], made: Callable[[int], T], size: int, what: object = "") -> None:
    """`work(made(8 size))` costs about 8 times as much as `work(made(size))`: what loops goes once through what there is."""
    short, long = made(size), made(FACTOR * size)
    sides = {"long": lambda: work(long), "short": lambda: work(short)}
    _assert_within(lambda cost_long, cost_short: cost_long / (GROWTH * cost_short), what, **sides)


def assert_cheap(call: Callable[[], object], plain: Callable[[], object], *, times: float, what: object = "") -> None:
    """`call` costs at most `times` as much as `plain` does."""
    _assert_within(lambda cost, floor: cost / (times * floor), f"{what}, at most {times} times", call=call, plain=plain)


def scan(text: str) -> int:
    """A plain pass over the characters of `text`: the yardstick of what a reader may cost."""
    count = 0
    for character in text:
        count += character == "x"
    return count


def _assert_within(share: Callable[..., float], what: object, **sides: Callable[[], object]) -> None:
    """Run all sides in turn until the least that each has cost is within the bound; say what they cost if it never is.

    The side that may not cost more comes first: what it loads once counts against it in the first try alone.
    """
    least = dict.fromkeys(sides, float("inf"))
    for attempt in range(1, TRIES + 1):
        for name, run in sides.items():
            least[name] = min(least[name], _cpu(run))
        part = share(*least.values())
        if part <= 1:
            return
        if part > HOPELESS and attempt >= 3:
            break
    figures = ", ".join(f"{name} {1e3 * cost:.2f} ms" for name, cost in least.items())
    raise AssertionError(f"{what}: {figures} of CPU, the least of {attempt} tries; {part:.1f} times what is allowed")


def _cpu(run: Callable[[], object]) -> float:
    """CPU time of this process: waiting for a turn on a busy machine does not count."""
    start = time.process_time()
    run()
    return time.process_time() - start
