"""Unions of real intervals in one normal form.

An interval lies between two cuts. A cut is before or behind a point: [1, 2) is from before 1 to before 2.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any, NamedTuple

from ..algebra.fingerprint import constant_key
from ..algebra.numbers import Value, charge, nearest
from ..algebra.tokens import Token


class Endpoint(NamedTuple):
    order: Any  # Fraction or a float infinity: Python orders them exactly
    key: str


@dataclass(frozen=True, slots=True)
class Cut:
    at: Endpoint
    behind: bool

    def __lt__(self, other: Cut) -> bool:
        if self.at.key == other.at.key:
            return self.behind < other.behind
        return bool(self.at.order < other.at.order)


class RealInterval(NamedTuple):
    start: Cut
    end: Cut

    @property
    def point(self) -> bool:
        return self.start.at.key == self.end.at.key


MINUS_INFINITY = Endpoint(float("-inf"), "-oo")
PLUS_INFINITY = Endpoint(float("inf"), "oo")
REALS = RealInterval(Cut(MINUS_INFINITY, behind=True), Cut(PLUS_INFINITY, behind=False))
INFINITE = {MINUS_INFINITY, PLUS_INFINITY}
_INFINITIES = {("oo",): PLUS_INFINITY, ("+", "oo"): PLUS_INFINITY, ("-", "oo"): MINUS_INFINITY}


def infinity(tokens: Sequence[Token]) -> Endpoint | None:
    return _INFINITIES.get(tuple([t.text for t in tokens]))


def interval(low: Endpoint, high: Endpoint, *, closed: str = "") -> RealInterval:
    """From `low` to `high`; `closed` holds "[" and "]" for the ends that belong to it. It may be empty."""
    return RealInterval(
        Cut(low, behind="[" not in closed or low is MINUS_INFINITY),
        Cut(high, behind="]" in closed and high is not PLUS_INFINITY),
    )


def endpoint(value: Value, significant: int = 0) -> Endpoint:
    charge(25)
    return Endpoint(nearest(value), constant_key(value, significant)[1])


def union(pieces: Sequence[RealInterval]) -> list[RealInterval]:
    """Disjoint pieces in order, touching ones joined, empty ones left out."""
    out: list[RealInterval] = []
    for piece in sorted((p for p in pieces if p.start < p.end), key=lambda p: (p.start.at.order, p.start.behind)):
        if out and not out[-1].end < piece.start:
            out[-1] = RealInterval(min(out[-1].start, piece.start), max(out[-1].end, piece.end))
        else:
            out.append(piece)
    return out


def intersect(a: Sequence[RealInterval], b: Sequence[RealInterval]) -> list[RealInterval]:
    return union([RealInterval(max(p.start, q.start), min(p.end, q.end)) for p in a for q in b])


def without(pieces: Sequence[RealInterval], points: Sequence[Endpoint]) -> list[RealInterval]:
    """The pieces with single points taken out."""
    return reduce(intersect, ([interval(MINUS_INFINITY, p), interval(p, PLUS_INFINITY)] for p in points), list(pieces))


def spelled(pieces: Sequence[RealInterval]) -> str:
    """The value of the key: `(-oo;1]u(2;oo)`; points alone are a set."""
    if all(p.point for p in pieces):
        return "{" + ";".join(sorted(p.start.at.key for p in pieces)) + "}"
    return "u".join(f"{'[('[p.start.behind]}{p.start.at.key};{p.end.at.key}{')]'[p.end.behind]}" for p in pieces)
