"""Learning curves: when a threshold is first reached."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

Curve = Sequence[tuple[int, float]]


def steps_to_threshold(curve: Curve, thresholds: Sequence[float]) -> list[int | None]:
    """First evaluated step with accuracy >= each threshold, None if never; `curve` is (step, accuracy).

    Compare curves that were evaluated at the same steps only, and say how far apart these are (`evaluation_interval`).
    """
    ordered = sorted(curve)
    return [next((step for step, accuracy in ordered if accuracy >= t), None) for t in thresholds]


def evaluation_interval(curve: Curve) -> int | None:
    """The widest gap between two evaluations: steps to a threshold are known to within it. None for a single one."""
    steps = sorted(step for step, _ in curve)
    return max((b - a for a, b in pairwise(steps)), default=None)
