"""Rewards for trainers that normalise within a group in float32.

`(r - mean) / (std + 1e-9)` in float32 turns a group of equal rewards into spurious advantages of up to 1: for about
half of all values the float32 mean is one unit in the last place off, and that difference is then divided by itself.
Multiples of 2^-16 have exact sums and means there, for groups of any usual size.
"""

from __future__ import annotations

from collections.abc import Iterable

__all__ = ["GRID", "on_grid"]

GRID = 2.0**-16


def on_grid(rewards: Iterable[float]) -> tuple[float, ...]:
    """Each reward as the nearest multiple of 2^-16: equal rewards stay equal, no zero is negative."""
    return tuple(round(r / GRID) * GRID + 0.0 for r in rewards)
