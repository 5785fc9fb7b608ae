"""The tree of an expression and its value: exact while it is rational, else computed, and never over the budget.

A number is a leaf as it is, a variable and the constants pi, e and i are leaves by their names.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from fractions import Fraction
from typing import NamedTuple

from ..hashes import seed
from ..kinds import Unreadable
from .functions import RULES
from .numbers import Value, bounded, charge, context, digits, lock

CONSTANTS = {"pi": "pi", "e": "e", "i": "j"}  # the last: in mpmath


class Op(NamedTuple):
    name: str
    args: tuple[Node, ...]


Node = int | Fraction | str | Op


def variables(node: Node) -> set[str]:
    """The names of the variables in `node`."""
    if isinstance(node, Op):
        return set().union(*map(variables, node.args))
    return {node} if isinstance(node, str) and node not in CONSTANTS else set()


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
    if isinstance(node, str):
        if node in CONSTANTS:
            return getattr(context(), CONSTANTS[node]) * 1
        if node not in env:
            raise Unreadable("a variable where a number must stand")
        return env[node]
    if not isinstance(node, Op):
        return node
    name, args = node.name, [_value(a, env) for a in node.args]
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
