"""The value of an expression tree."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from functools import lru_cache
from hashlib import blake2b
from itertools import permutations

from .functions import COSTS, RULES
from .nodes import Constant, Node, Number, Op, Variable
from .numbers import BASE_DIGITS, Value, bounded, charge, context, digits, lock, work
from .tokens import Unreadable

__all__ = [
    "CLOSE",
    "FAR",
    "POINTS",
    "WHOLE",
    "bends_far_away",
    "doubted",
    "evaluate",
    "folds",
    "jumps",
    "mixed_points",
    "point",
    "step_points",
    "variables",
    "winds",
]

POINTS = 3
FAR = (Fraction(10_000_019, 3), Fraction(-10_000_079, 7))  # |x - 30| is 30 - x at the ordinary points
CLOSE = (Fraction(1, 10_007), Fraction(-1, 10_009))  # to zero: there |ln x^2| is not ln x^2


@lru_cache(maxsize=4096)
def point(name: str, index: int) -> Fraction:
    """Where a variable is evaluated: a hash of its name over a prime, the first near 1, the last negative.

    The others are larger, so that |x - 3| is neither x - 3 nor 3 - x at all of them; and the numerators differ
    modulo 4, so that (-1)^n and (-1)^{n(n+1)/2}, odd roots at such points, have both signs.
    """
    seed = _seed(f"{name}/{index}")
    top = seed % 90_001 + 30_011 if index == 0 else seed % 80_001 + 160_009
    at = 4 * _INTEGERS.index(name) if name in _INTEGERS else _seed(name) % len(_RESIDUES)
    sign = -1 if index == POINTS - 1 else 1
    top += (sign * _RESIDUES[at][index] - top) % 4
    return Fraction(sign * top, 49_999)


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
        far = {_rises(folded, dict.fromkeys(inner, at)) for at in (FAR + CLOSE if _logarithm(folded) else FAR)}
        if len(near) == 1 and near != far and None not in near | far:
            return True
    return any(bends_far_away(arg) for arg in node.args)


def winds(node: Node) -> bool:
    """Whether the ordinary points see one branch only: arctan(tan(ln x)) is ln x there, and tan|x| is |tan x|."""
    if not isinstance(node, Op):
        return False
    if node.name in _ODD and any(_holds(arg, _FOLDS) for arg in node.args):
        return True
    if node.name in _ARCS and any(_holds(arg, _PERIODIC) for arg in node.args):
        return True
    return any(winds(arg) for arg in node.args)


_ODD = frozenset({"sin", "tan", "cot", "csc"})
_PERIODIC = _ODD | {"cos", "sec"}
_ARCS = frozenset({"arcsin", "arccos", "arctan", "arccot", "arcsec", "arccsc"})
_FOLDS = frozenset({"abs"})


def _holds(node: Node, names: frozenset[str]) -> bool:
    """Whether one of these functions is taken of something with a variable."""
    if not isinstance(node, Op):
        return False
    found = node.name in names or ("abs" in names and _folded(node) is not None)
    return (found and bool(variables(node))) or any(_holds(arg, names) for arg in node.args)


def _logarithm(node: Node) -> bool:
    return isinstance(node, Op) and (node.name in {"ln", "lg", "log"} or any(_logarithm(arg) for arg in node.args))


def folds(node: Node, names: Sequence[str]) -> bool:
    """Whether an absolute value changes with the signs of several variables: |xy|, sqrt(x^2 y^2); not |x|^2 + |y|^2."""
    if not isinstance(node, Op):
        return False
    if node.name == "abs" and _turns(node.args[0], names):
        return True
    degree = _degree(node)
    if degree % 2 == 0 and _has_power(node.args[0], degree):
        return True
    return any(folds(arg, names) for arg in _unsquared(node))


def _unsquared(node: Op) -> Sequence[Node]:
    """The arguments; of |a|^2, that of the absolute value."""
    base = node.args[0] if node.args else None
    if node.name == "pow" and isinstance(base, Op) and base.name == "abs" and node.args[1] in _EVEN:
        return base.args
    return node.args


_EVEN = (Number(2), Number(4), Number(6))


def _turns(node: Node, names: Sequence[str]) -> bool:
    """Whether a real value has both signs: at the ordinary points, those with mixed signs, far away, close to zero."""
    places = [{name: point(name, j) for name in names} for j in range(POINTS)]
    far = [dict.fromkeys(names, at) for at in FAR + CLOSE]
    return len({_rises(node, env) for env in (*places, *mixed_points(names), *far)}) > 1


def _has_power(node: Node, degree: int) -> bool:
    """Whether a power is a factor of `node` whose root of this degree may have either sign."""
    if not isinstance(node, Op):
        return False
    if node.name == "pow":
        power = node.args[1]
        return isinstance(power, Number) and power.value % (2 * degree) == degree and bool(variables(node.args[0]))
    return node.name in {"mul", "div"} and any(_has_power(arg, degree) for arg in node.args)


def _degree(node: Op) -> int:
    """Of the root that `node` takes, 1 where it takes none."""
    if node.name == "sqrt":
        return 2
    if node.name not in {"root", "pow"}:
        return 1
    at = node.args[1]
    if node.name == "pow" and isinstance(at, Op) and at.name == "div":
        at = at.args[1]
    elif node.name == "pow":
        return 1
    return int(at.value) if isinstance(at, Number) else 1


def _is_even(node: Node) -> bool:
    """Whether a power of two is a factor of `node`, and no root is taken of a sum."""
    if not isinstance(node, Op):
        return False
    if node.name == "pow":
        return isinstance(node.args[1], Number) and node.args[1].value % 2 == 0 and bool(variables(node.args[0]))
    return node.name in {"mul", "div"} and any(_is_even(a) for a in node.args)


def mixed_points(names: Sequence[str]) -> list[dict[str, Value]]:
    """Where one of several variables is negative: at the ordinary points all have one sign, |x| + |y| is |x + y|."""
    return [{name: -point(name, 0) if name == odd else point(name, 0) for name in names} for odd in names[:_MIXED]]


_MIXED = 3


def jumps(node: Node) -> bool:
    """Whether the floor or the ceiling of something with a variable is taken."""
    if not isinstance(node, Op):
        return False
    return (node.name in {"floor", "ceil"} and bool(variables(node))) or any(jumps(arg) for arg in node.args)


def step_points(names: Sequence[str]) -> list[dict[str, Value]]:
    """Where functions with jumps are told apart: ceil(x) and floor(x) + 1 differ at the integers alone.

    Of the usual names of integers, the first twelve, in an order that depends on the name, and a far one that all small
    numbers divide; of others, far integers, a half and small decimals as well as the ordinary points.
    """
    if all(name in WHOLE for name in names):
        near = [{name: _whole(name, j) for name in names} for j in range(_RUN)]
        return [*near, {name: _MANIFOLD * (10**6 + _seed(name) % 10**6) for name in names}]
    tops = {name: _MANIFOLD * (1 + _seed(name) % 997) for name in names}
    far = [{name: factor * top + shift for name, top in tops.items()} for factor, shift in _PLACES]
    return far + [{name: _small(name, j) for name in names} for j in range(_SMALL)]


_PLACES = ((1, Fraction(0)), (-2, Fraction(0)), (1, Fraction(1, 2)))
_SMALL = 8
# The place in its run where an integer starts, and how it steps through it: no two names go together.
WHOLE = {"n": (0, 1), "m": (1, 5), "k": (3, 7), "j": (7, 11), "N": (5, 1), "M": (8, 5), "K": (10, 7)}
_RUN = 12
_MANIFOLD = 27_720  # divisible by all up to 12


def _whole(name: str, j: int) -> int:
    start, step = WHOLE[name]
    return 1 + (start + j * step) % _RUN


def _small(name: str, j: int) -> Fraction:
    """Between -5 and 5, with two decimals; every fourth time an integer, every fourth between -1 and 1."""
    value = Fraction(_seed(f"{name}~{j}") % 999 - 499, 100)
    return Fraction(round(value) or 1) if j % 4 == 0 else value / 5 if j % 4 == 1 else value


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
    """A function that nobody defined has a value of its own, of either sign, at each argument."""
    seed = _seed(name + "(" + ";".join(digits(a) for a in args))
    return Fraction(seed % 999_983 + 100_003, 99_991)


def doubted(node: Node) -> bool:
    """Whether something depends on the sign or size of such a function, which nobody knows: |f(2)|, max(f(1), 0)."""
    if not isinstance(node, Op):
        return False
    if node.name in _SIZES and any(_undefined(arg, node.name) for arg in node.args):
        return True
    if _degree(node) % 2 == 0 and _undefined(node.args[0], "sqrt"):
        return True
    return any(doubted(arg) for arg in node.args)


_SIZES = frozenset({"abs", "floor", "ceil", "max", "min"})


def _undefined(node: Node, inside: str) -> bool:
    if not isinstance(node, Op):
        return False
    extreme = node.name in {"max", "min"} and inside not in {"max", "min"} and bool(variables(node))
    return extreme or node.name.startswith("call ") or any(_undefined(arg, inside) for arg in node.args)
