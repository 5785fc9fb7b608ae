"""The tree of an expression and its value: exact while it is rational, else computed, and never over the budget."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction

from ..hashes import seed
from ..kinds import Unreadable
from .functions import RULES
from .numbers import Value, bounded, charge, context, digits, lock


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


def evaluate(node: Node, env: Mapping[str, Value]) -> Value:
    """The value of `node` with its variables from `env`; Unreadable where it has none or is over budget."""
    charge(5)
    with lock:
        try:
            return _value(node, env)
        except (ArithmeticError, ValueError, TypeError) as error:
            raise Unreadable("no value") from error


def tried(node: Node, env: Mapping[str, Value]) -> Value | None:
    """The value there, None where it has none: 2^n far away."""
    try:
        return evaluate(node, env)
    except Unreadable:
        return None


def _value(node: Node, env: Mapping[str, Value]) -> Value:
    if isinstance(node, Number):
        return node.value
    if isinstance(node, Variable):
        if node.name not in env:
            raise Unreadable("a variable where a number must stand")
        return env[node.name]
    if isinstance(node, Constant):
        ctx = context()
        return {"pi": ctx.pi, "e": ctx.e, "i": ctx.j}[node.name] * 1
    name = node.name
    args = [_value(a, env) for a in node.args]
    if name.startswith("call "):
        return _unknown(name, args)
    if name in _SIZES and _undecided(node):
        return _unknown(name, sorted(args, key=digits))
    if name not in RULES:
        raise Unreadable("no such function")
    arity, cost, function = RULES[name]
    charge(cost)
    if arity and len(args) != arity:
        raise Unreadable("a wrong number of arguments")
    return bounded(function(*args))


_SIZES = frozenset({"abs", "floor", "ceil", "max", "min"})


def _undecided(node: Op) -> bool:
    """Whether nobody knows which of two variables is larger, or the sign of a function that is not defined."""
    return any(op.name.startswith("call ") or (op.name in {"max", "min"} and variables(op)) for op in operations(node))


def _unknown(name: str, args: list[Value]) -> Fraction:
    """A function that nobody defined has a value of its own, of either sign, at each argument."""
    drawn = seed(name + "(" + ";".join(digits(a) for a in args))
    return Fraction(drawn % 999_983 + 100_003, 99_991)
