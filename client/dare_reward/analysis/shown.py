"""What is said of labelled rollouts as text: terminal, report and pages draw one object, and round nothing."""

from __future__ import annotations

from dataclasses import dataclass

from .bootstrap import Interval


@dataclass(frozen=True, slots=True)
class Shown:
    """A finding as text, figures included.

    headline, why   what to do or what was found, and why, in a sentence each
    line            to train with; empty if there is none
    head, rows      a table: each row begins with its name
    """

    headline: str
    why: str
    notes: tuple[str, ...] = ()
    line: str = ""
    head: tuple[str, ...] = ()
    rows: tuple[tuple[str, ...], ...] = ()


def percent(share: float) -> str:
    """A share of prompts as `70.0`."""
    return f"{100 * share:.1f}"


def signed(difference: float) -> str:
    """A difference of shares in points, as `+2.5`."""
    return f"{round(100 * difference, 1) + 0.0:+.1f}"


def points(difference: Interval) -> str:
    """A difference with its interval: `+2.5 points (0.0 to +5.0)`."""
    return f"{signed(difference.estimate)} points ({signed(difference.low)} to {signed(difference.high)})"
