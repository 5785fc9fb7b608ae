"""The tree of an expression."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction


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


def variables(node: Node, into: set[str] | None = None) -> set[str]:
    """The names of the variables in `node`, added to `into` if that is given."""
    found = set() if into is None else into
    if isinstance(node, Variable):
        found.add(node.name)
    elif isinstance(node, Op):
        for arg in node.args:
            variables(arg, found)
    return found


def operations(node: Node) -> Iterator[Op]:
    """`node` and all in it that has arguments."""
    if isinstance(node, Op):
        yield node
        for arg in node.args:
            yield from operations(arg)
