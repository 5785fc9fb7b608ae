"""Keys of numbers and expressions: the exact value, or the digits at points that depend on nothing but the names.

What an expression hides at the ordinary points, signs under absolute values and steps, further points show.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from decimal import ROUND_HALF_UP, Context, Decimal
from fractions import Fraction
from functools import lru_cache
from itertools import permutations

from ..hashes import hashed, seed, short
from ..kinds import KeyKind
from .numbers import Value, as_fraction, charge, context, digits, rational, real, work
from .tree import Node, Op, evaluate, operations, tried, variables

POINTS = 3
_FAR = (Fraction(10_000_019, 3), Fraction(-10_000_079, 7))  # |x - 30| is 30 - x at the ordinary points
_CLOSE = (Fraction(1, 10_007), Fraction(-1, 10_009))  # to zero: there |ln x^2| is not ln x^2
_MIXED = 3  # so many variables at most take turns in being negative
_COMPLEX = frozenset({"z", "w"})  # names of complex numbers, where a modulus is taken


def values_at(node: Node) -> list[Value]:
    """The values of an expression at its points: one if it has no variable."""
    names = sorted(variables(node))
    if not names:
        return [evaluate(node, {})]
    # Where the floor or the ceiling of something with a variable is taken, the value jumps.
    jumps = any(op.name in {"floor", "ceil"} and variables(op) for op in operations(node))
    steps = _values(node, step_points(names)) if jumps else []
    if len(steps) > 1 and WHOLE.keys() >= {*names}:
        return steps  # floor((n+1)/2) is ceil(n/2), of integers
    # Where an absolute value is taken of z, |z|^2 is not z^2.
    complex_ = {name for op in operations(node) if op.name == "abs" for name in _COMPLEX & variables(op)}
    values = [
        evaluate(node, {name: _beside(name, j) if name in complex_ else point(name, j) for name in names})
        for j in range(POINTS)
    ]
    return values + ([] if complex_ else _values(node, _hidden(node, names))) + steps


def _values(node: Node, envs: Sequence[Mapping[str, Value]]) -> list[Value]:
    """The values at those of the points at which there is one."""
    return [value for env in envs if (value := tried(node, env)) is not None]


def _beside(name: str, index: int) -> Value:
    """A point off the real line."""
    return context().mpc(real(point(name, index)), real(point("i" + name, index)))


def expression_key(node: Node, significant: int = 0) -> tuple[KeyKind, str]:
    """(kind, value) of the expression's key."""
    work.faint = ""
    values = values_at(node)
    faint = work.faint
    kind, value = values_key(values, significant)
    if faint and not significant:
        return "fingerprint", short(value + faint)
    if kind == "fingerprint" and 1 < len(set(values)) < len(values):
        value += "/" + ",".join(sorted(variables(node)))  # of |x|/x only the sign of x is seen, which is that of y
    return kind, value


def values_key(values: list[Value], significant: int = 0) -> tuple[KeyKind, str]:
    """(kind, value) of an expression with these values at the points."""
    said = [digits(v) for v in values] if len(values) > 1 else [""]
    if len({*said}) == 1:  # one value, that depends on no variable
        return constant_key(values[0], significant)
    return "fingerprint", "f:" + hashed(";".join(said))


def constant_key(value: Value, significant: int = 0) -> tuple[KeyKind, str]:
    charge(2 if isinstance(value, int | Fraction) else 25)
    exact = rational(value)
    if significant and not hasattr(value, "_mpc_"):
        number = as_fraction(value)
        school = Context(prec=significant, rounding=ROUND_HALF_UP)  # half away from zero
        exact = Fraction(school.divide(Decimal(number.numerator), Decimal(number.denominator)))
    if exact is not None:
        long = max(abs(exact.numerator).bit_length(), exact.denominator.bit_length()) > 13_000
        # Decimal conversion is quadratic and refused past 4,300 digits.
        return "exact", short(f"{exact.numerator:x}/{exact.denominator:x}h" if long else str(exact))
    return "fingerprint", short("~" + digits(value))


@lru_cache(maxsize=4096)
def point(name: str, index: int) -> Fraction:
    """Where a variable is evaluated: a hash of its name over a prime, the first near 1, the last negative.

    The others are larger, so that |x - 3| is neither x - 3 nor 3 - x at all of them; and the numerators differ
    modulo 4, so that (-1)^n and (-1)^{n(n+1)/2}, odd roots at such points, have both signs.
    """
    drawn = seed(f"{name}/{index}")
    top = drawn % 90_001 + 30_011 if index == 0 else drawn % 80_001 + 160_009
    at = 4 * _INTEGERS.index(name) if name in _INTEGERS else seed(name) % len(_RESIDUES)
    sign = -1 if index == POINTS - 1 else 1
    top += (sign * _RESIDUES[at][index] - top) % 4
    return Fraction(sign * top, 49_999)


# By parities, of which the usual names of integers have different ones: (-1)^n is not (-1)^m.
_RESIDUES = sorted(permutations(range(4), POINTS), key=lambda residues: [r % 2 for r in residues])
_INTEGERS = ("n", "m", "k", "x", "j", "r")


def step_points(names: Sequence[str]) -> list[dict[str, Value]]:
    """Where functions with jumps are told apart: ceil(x) and floor(x) + 1 differ at the integers alone.

    Of the usual names of integers, the first twelve, in an order that depends on the name, and a far one that all small
    numbers divide; of others, far integers, a half and small decimals as well as the ordinary points.
    """
    if WHOLE.keys() >= {*names}:
        near = [{name: 1 + (WHOLE[name][0] + j * WHOLE[name][1]) % _RUN for name in names} for j in range(_RUN)]
        return [*near, {name: _MANIFOLD * (10**6 + seed(name) % 10**6) for name in names}]
    tops = {name: _MANIFOLD * (1 + seed(name) % 997) for name in names}
    far = [{name: factor * top + shift for name, top in tops.items()} for factor, shift in _PLACES]
    return far + [{name: _small(name, j) for name in names} for j in range(_SMALL)]


_PLACES = ((1, Fraction(0)), (-2, Fraction(0)), (1, Fraction(1, 2)))
_SMALL = 8
# The place in its run where an integer starts, and how it steps through it: no two names go together.
WHOLE = {"n": (0, 1), "m": (1, 5), "k": (3, 7), "j": (7, 11), "N": (5, 1), "M": (8, 5), "K": (10, 7)}
_RUN = 12
_MANIFOLD = 27_720  # divisible by all up to 12


def _small(name: str, j: int) -> Fraction:
    """Between -5 and 5, with two decimals; every fourth time an integer, every fourth between -1 and 1."""
    value = Fraction(seed(f"{name}~{j}") % 999 - 499, 100)
    return Fraction(round(value) or 1) if j % 4 == 0 else value / 5 if j % 4 == 1 else value


def _hidden(node: Node, names: Sequence[str]) -> list[dict[str, Value]]:
    """Further points, if what stands under absolute values has signs there that no ordinary point shows together.

    They are far away, close to zero, and where one of several variables is negative: ordinary points have one sign
    each. So |x - 30| is not 30 - x, and |x| + |y| not |x + y|; |x|^2 is x^2, and |x^2 + 1| needs no further point.
    """
    insides = [*_insides(node)]
    if not insides:
        return []
    first, *ordinary = ({name: point(name, j) for name in names} for j in range(POINTS))
    shown = {_signs(insides, env) for env in (first, *ordinary)}
    mixed = [first | {odd: -first[odd]} for odd in names[:_MIXED] if len(names) > 1]
    further = [*mixed, *(dict.fromkeys(names, at) for at in (*_FAR, *_CLOSE))]
    return further if any(None not in (signs := _signs(insides, env)) and signs not in shown for env in further) else []


def _signs(nodes: Sequence[Node], env: Mapping[str, Value]) -> tuple[bool | None, ...]:
    """Whether each is positive; None where it has no real value."""
    values = [tried(node, env) for node in nodes]
    return tuple([None if value is None or hasattr(value, "_mpc_") else bool(value > 0) for value in values])


def _insides(node: Node) -> Iterator[Node]:
    """Of what `node` takes absolute values, |a| and the root of a^2 b; not of |a|^2."""
    if not isinstance(node, Op):
        return
    base = node.args[0] if node.args else None
    if node.name == "pow" and isinstance(base, Op) and base.name == "abs" and node.args[1] in _EVEN:
        yield from _insides(base.args[0])
        return
    if node.name == "abs" and variables(node):
        yield node.args[0]
    elif node.name == "sqrt" or (node.name == "pow" and node.args[1] == _HALF):
        yield from _squared(node.args[0], 2)
    elif node.name == "root" and node.args[1] in _EVEN:
        yield from _squared(node.args[0], int(node.args[1]))
    for arg in node.args:
        yield from _insides(arg)


_EVEN = (2, 4, 6)
_HALF = Op("div", (1, 2))


def _squared(node: Node, degree: int) -> Iterator[Node]:
    """The bases of the factors of `node` whose roots of this degree may have either sign: x of x^2 y, not of x^4."""
    if isinstance(node, Op) and node.name == "pow":
        base, power = node.args
        if isinstance(power, int | Fraction) and power % (2 * degree) == degree and variables(base):
            yield base
    elif isinstance(node, Op) and node.name in {"mul", "div"}:
        for arg in node.args:
            yield from _squared(arg, degree)
