"""What a preregistered contrast has to show, and the word for whether it did."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from ..statistics.contrasts import MARGIN, Contrast, Ends


@dataclass(frozen=True, slots=True)
class Bar:
    """What a contrast has to show: which estimates are on the bar's right side, and which intervals (with p) say so."""

    words: str
    side: Callable[[float], bool]
    shown: Callable[[Ends, float], bool]


BETTER: Final = Bar("better", lambda estimate: estimate > 0, lambda ends, p: ends.low > 0 and p < 0.05)
WORSE: Final = Bar("worse", lambda estimate: estimate < 0, lambda ends, p: ends.high < 0 and p < 0.05)
GAIN: Final = Bar("at least +8, and better", lambda estimate: estimate >= 0.08, BETTER.shown)
LEVEL: Final = Bar(
    "within 1 point",
    lambda estimate: -MARGIN < estimate < MARGIN,
    lambda ends, _: ends.low90 > -MARGIN and ends.high90 < MARGIN,
)
FLOOR: Final = Bar("not worse by 1 point", lambda estimate: estimate > -MARGIN, lambda ends, _: ends.low > -MARGIN)


def verdict(bar: Bar, found: Contrast, p: float, p_bases: float) -> str:
    """Of a bar by both intervals; p values are corrected. Where every run of both arms is the same, none could fail."""
    if found.estimate == found.deciding.low == found.deciding.high == 0 and bar.side(0.0):
        return "met by identity"
    if not bar.side(found.estimate):
        return "missed"
    if not bar.shown(found.deciding, p):
        return "open"
    return "met" if bar.shown(found.over_bases, p_bases) else "met by the bootstrap alone"
