"""The value of an expression tree."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from functools import lru_cache
from hashlib import blake2b

from .functions import COSTS, RULES
from .numeric import BASE_DIGITS, Value, bounded, charge, context, digits, lock, work
from .parse import Constant, Node, Number, Op, Variable
from .tokens import Unreadable

__all__ = ["POINTS", "evaluate", "point", "variables"]

POINTS = 3


@lru_cache(maxsize=4096)
def point(name: str, index: int) -> Fraction:
    """Where a variable is evaluated: a hash of its name, with prime denominator, the last one negative."""
    seed = int.from_bytes(blake2b(f"{name}/{index}".encode("utf-8", "surrogatepass"), digest_size=8).digest(), "big")
    value = Fraction(seed % 90_001 + 30_011, 49_999)
    return -value if index == POINTS - 1 else value


def variables(node: Node, into: set[str] | None = None) -> set[str]:
    found = set() if into is None else into
    if isinstance(node, Variable):
        found.add(node.name)
    elif isinstance(node, Op):
        for arg in node.args:
            variables(arg, found)
    return found


def evaluate(node: Node, env: Mapping[str, Value], dps: int = BASE_DIGITS) -> Value:
    """The value of `node` with its variables from `env`; Unreadable where it has none or is over budget."""
    charge(5)
    with lock:
        try:
            if dps == BASE_DIGITS:
                return _value(node, env)
            ctx = context()
            ctx.dps = dps
            work.factor = int((dps / BASE_DIGITS) ** 1.5) + 1
            try:
                return _value(node, env)
            finally:
                ctx.dps = BASE_DIGITS
                work.factor = 1
        except (ArithmeticError, ValueError, TypeError) as error:
            raise Unreadable("no value") from error


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
    charge(COSTS.get(name, 2) * work.factor)
    rule = RULES.get(name)
    if rule is None:
        raise Unreadable("no such function")
    arity, function = rule
    if arity and len(args) != arity:
        raise Unreadable("a wrong number of arguments")
    return bounded(function(*args))


def _unknown(name: str, args: list[Value]) -> Fraction:
    """A function that nobody defined has a value of its own at each argument."""
    text = name + "(" + ";".join(digits(a) for a in args)
    seed = int.from_bytes(blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).digest(), "big")
    return Fraction(seed % 999_983 + 100_003, 99_991)
