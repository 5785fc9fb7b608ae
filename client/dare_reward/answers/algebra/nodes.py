"""The tree of an expression."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

__all__ = ["Constant", "Node", "Number", "Op", "Variable"]


@dataclass(frozen=True, slots=True)
class Number:
    value: int | Fraction


@dataclass(frozen=True, slots=True)
class Variable:
    name: str


@dataclass(frozen=True, slots=True)
class Constant:
    name: str  # pi e i


@dataclass(frozen=True, slots=True)
class Op:
    name: str
    args: tuple[Node, ...]


Node = Number | Variable | Constant | Op
