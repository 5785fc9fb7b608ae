"""Unions of real intervals in one normal form."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from ..algebra.fingerprint import constant_key, require_real
from ..algebra.numbers import Value, as_fraction, charge, rational


@dataclass(frozen=True, slots=True)
class Endpoint:
    order: Any  # Fraction or a float infinity: Python orders them exactly
    key: str


@dataclass(frozen=True, slots=True)
class RealInterval:
    low: Endpoint
    high: Endpoint
    low_closed: bool
    high_closed: bool

    @property
    def empty(self) -> bool:
        if self.low.key == self.high.key:
            return not (self.low_closed and self.high_closed)
        return bool(self.low.order > self.high.order)

    @property
    def point(self) -> bool:
        return self.low.key == self.high.key


MINUS_INFINITY = Endpoint(float("-inf"), "-oo")
PLUS_INFINITY = Endpoint(float("inf"), "oo")
REALS = RealInterval(MINUS_INFINITY, PLUS_INFINITY, low_closed=False, high_closed=False)


def endpoint(value: Value, significant: int = 0) -> Endpoint:
    require_real(value)
    charge(25)
    near = rational(value)
    order = Fraction(near) if near is not None else as_fraction(value)
    return Endpoint(order, constant_key(value, significant)[1])


def union(pieces: Sequence[RealInterval]) -> list[RealInterval]:
    """Disjoint pieces in order, touching ones joined."""
    out: list[RealInterval] = []
    for piece in sorted((p for p in pieces if not p.empty), key=lambda p: (p.low.order, not p.low_closed)):
        if out and _touches(out[-1], piece):
            out[-1] = _joined(out[-1], piece)
        else:
            out.append(piece)
    return out


def intersect(a: Sequence[RealInterval], b: Sequence[RealInterval]) -> list[RealInterval]:
    return union([_common(p, q) for p in a for q in b])


def without(pieces: Sequence[RealInterval], points: Sequence[Endpoint]) -> list[RealInterval]:
    """The pieces with single points taken out."""
    out = list(pieces)
    for p in points:
        below = RealInterval(MINUS_INFINITY, p, low_closed=False, high_closed=False)
        above = RealInterval(p, PLUS_INFINITY, low_closed=False, high_closed=False)
        out = intersect(out, [below, above])
    return out


def spelled(pieces: Sequence[RealInterval]) -> str:
    """The value of the key: `(-oo;1]u(2;oo)`; points alone are a set."""
    if all(p.point for p in pieces):
        return "{" + ";".join(sorted(p.low.key for p in pieces)) + "}"
    return "u".join(
        ("[" if p.low_closed else "(") + f"{p.low.key};{p.high.key}" + ("]" if p.high_closed else ")") for p in pieces
    )


def _touches(a: RealInterval, b: RealInterval) -> bool:
    if a.high.key == b.low.key:
        return a.high_closed or b.low_closed
    return bool(b.low.order < a.high.order)


def _joined(a: RealInterval, b: RealInterval) -> RealInterval:
    if a.high.key == b.high.key:
        return RealInterval(
            a.low, a.high, a.low_closed or (a.low.key == b.low.key and b.low_closed), a.high_closed or b.high_closed
        )
    high, closed = (a.high, a.high_closed) if a.high.order > b.high.order else (b.high, b.high_closed)
    return RealInterval(a.low, high, a.low_closed or (a.low.key == b.low.key and b.low_closed), closed)


def _common(a: RealInterval, b: RealInterval) -> RealInterval:
    if a.low.key == b.low.key:
        low, low_closed = a.low, a.low_closed and b.low_closed
    else:
        low, low_closed = (a.low, a.low_closed) if a.low.order > b.low.order else (b.low, b.low_closed)
    if a.high.key == b.high.key:
        high, high_closed = a.high, a.high_closed and b.high_closed
    else:
        high, high_closed = (a.high, a.high_closed) if a.high.order < b.high.order else (b.high, b.high_closed)
    return RealInterval(low, high, low_closed, high_closed)
