"""What a preregistered contrast has to show, and the word for whether it did."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from ..statistics.contrasts import Contrast, Ends


@dataclass(frozen=True, slots=True)
class Bar:
    """What a contrast has to show: which estimates are on the bar's right side, and which intervals (with p) say so."""

    words: str
    side: Callable[[float], bool]
    shown: Callable[[Ends, float], bool]


def gain(points: int) -> Bar:
    least = points / 100
    return Bar(f"at least +{points}, and better", lambda estimate: estimate >= least, BETTER.shown)


def within(points: int) -> Bar:
    margin = points / 100
    return Bar(
        f"within {_points(points)}",
        lambda estimate: -margin < estimate < margin,
        lambda ends, _: ends.low90 > -margin and ends.high90 < margin,
    )


def floor(points: int) -> Bar:
    lowest = -points / 100
    return Bar(f"not worse by {_points(points)}", lambda estimate: estimate > lowest, lambda ends, _: ends.low > lowest)


def count(least: int) -> Bar:
    """Of a number that is counted, not estimated."""
    return Bar(f"at least {least}", lambda counted: counted >= least, lambda *_: True)


def _points(points: int) -> str:
    return f"{points} point{'s' * (points > 1)}"


BETTER: Final = Bar("better", lambda estimate: estimate > 0, lambda ends, p: ends.low > 0 and p < 0.05)
WORSE: Final = Bar("worse", lambda estimate: estimate < 0, lambda ends, p: ends.high < 0 and p < 0.05)
GAIN: Final = gain(8)
LEVEL: Final = within(1)
FLOOR: Final = floor(1)
# Of a share less .75 (`registered.RolloutsGenerated`).
BELOW: Final = Bar("below .75", lambda above: above < 0, lambda ends, _: ends.high < 0)


def verdict(bar: Bar, found: Contrast, p: float, p_bases: float, *, same: bool | None = None) -> str:
    """Of a bar by both intervals; p values are corrected. Where every run of both arms is the same, none could fail:
    `same` says so, or where that is None the numbers do."""
    if same is None:
        same = found.estimate == found.deciding.low == found.deciding.high == 0
    if same and bar.side(0.0):
        return "met by identity"
    if not bar.side(found.estimate):
        return "missed"
    if not bar.shown(found.deciding, p):
        return "open"
    return "met" if bar.shown(found.over_bases, p_bases) else "met by the bootstrap alone"
