"""The value of an expression tree."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from functools import lru_cache
from hashlib import blake2b
from itertools import permutations

from .functions import COSTS, RULES
from .nodes import Constant, Node, Number, Op, Variable
from .numeric import BASE_DIGITS, Value, bounded, charge, context, digits, lock, work
from .tokens import Unreadable

__all__ = ["FAR", "POINTS", "WHOLE", "bends_far_away", "evaluate", "jumps", "point", "step_points", "variables"]

POINTS = 3
FAR = (Fraction(10_000_019, 3), Fraction(-10_000_079, 7))


@lru_cache(maxsize=4096)
def point(name: str, index: int) -> Fraction:
    """Where a variable is evaluated: a hash of its name over a prime, the first near 1, the last negative.

    The others are larger, so that |x - 3| is neither x - 3 nor 3 - x at all of them; and the numerators differ
    modulo 4, so that (-1)^n and (-1)^{n(n+1)/2}, odd roots at such points, have both signs.
    """
    seed = _seed(f"{name}/{index}")
    top = seed % 90_001 + 30_011 if index == 0 else seed % 80_001 + 160_009
    at = 4 * _INTEGERS.index(name) if name in _INTEGERS else _seed(name) % len(_RESIDUES)
    top += (_RESIDUES[at][index] - top) % 4
    return Fraction(-top if index == POINTS - 1 else top, 49_999)


# By parities, of which the usual names of integers have different ones: (-1)^n is not (-1)^m.
_RESIDUES = sorted(permutations(range(4), POINTS), key=lambda residues: [r % 2 for r in residues])
_INTEGERS = ("n", "m", "k", "x", "j", "r")


def _seed(text: str) -> int:
    return int.from_bytes(blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).digest(), "big")


def variables(node: Node, into: set[str] | None = None) -> set[str]:
    found = set() if into is None else into
    if isinstance(node, Variable):
        found.add(node.name)
    elif isinstance(node, Op):
        for arg in node.args:
            variables(arg, found)
    return found


def bends_far_away(node: Node) -> bool:
    """Whether an absolute value in `node` is one expression at all points and another one far from them: |x - 30|."""
    if not isinstance(node, Op):
        return False
    folded = _folded(node)
    if folded is not None and (inner := variables(folded)):
        near = {_rises(folded, {name: point(name, j) for name in inner}) for j in range(POINTS)}
        far = {_rises(folded, dict.fromkeys(inner, at)) for at in FAR}
        if len(near) == 1 and near != far and None not in near | far:
            return True
    return any(bends_far_away(arg) for arg in node.args)


def jumps(node: Node) -> bool:
    """Whether the floor or the ceiling of something with a variable is taken."""
    if not isinstance(node, Op):
        return False
    return (node.name in {"floor", "ceil"} and bool(variables(node))) or any(jumps(arg) for arg in node.args)


def step_points(names: Sequence[str]) -> list[dict[str, Value]]:
    """Where functions with jumps are told apart: ceil(x) and floor(x) + 1 differ at the integers alone.

    Of the usual names of integers, a run of twelve integers, in an order that depends on the name, and a far one that
    all small numbers divide; of others, integers and a half as well as the ordinary points.
    """
    if all(name in WHOLE for name in names):
        near = [{name: _whole(name, j) for name in names} for j in range(_RUN)]
        return [*near, {name: _MANIFOLD * (10**6 + _seed(name) % 10**6) for name in names}]
    tops = {name: _MANIFOLD * (1 + _seed(name) % 997) for name in names}
    return [{name: factor * top + shift for name, top in tops.items()} for factor, shift in _PLACES]


_PLACES = ((1, Fraction(0)), (-2, Fraction(0)), (1, Fraction(1, 2)))
# Where the run of an integer starts and how it steps through the remainders: no two names go together.
WHOLE = {"n": (5, 1), "m": (3, 5), "k": (4, 7), "j": (6, 11), "N": (8, 5), "M": (2, 7), "K": (7, 1)}
_RUN = 12
_MANIFOLD = 27_720  # divisible by all up to 12


def _whole(name: str, j: int) -> int:
    start, step = WHOLE[name]
    return start + j * step % _RUN


def _folded(node: Op) -> Node | None:
    """Of what `node` is the absolute value: |a|, sqrt(a^2)."""
    arg = node.args[0]
    if node.name == "abs":
        return arg
    if node.name == "sqrt" and isinstance(arg, Op) and arg.name == "pow" and arg.args[1] == Number(2):
        return arg.args[0]
    return None


def _rises(node: Node, env: Mapping[str, Value]) -> bool | None:
    """Whether a real value is positive; None where there is none."""
    try:
        value = evaluate(node, env)
    except Unreadable:
        return None
    return None if hasattr(value, "_mpc_") else bool(value > 0)


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
    if name in {"max", "min"} and variables(node):
        return _unknown(name, sorted(args, key=digits))  # which one it is depends on where one looks
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
    return Fraction(_seed(text) % 999_983 + 100_003, 99_991)
