"""Keys of numbers and expressions: the exact value, or the digits at fixed points."""

from __future__ import annotations

from decimal import ROUND_HALF_UP, Context, Decimal
from fractions import Fraction

from ..hashes import hashed, short
from ..kinds import KeyKind
from .numbers import Value, as_fraction, charge, context, digits, rational, work
from .points import POINTS, WHOLE, hidden, jumps, point, step_points
from .tree import Node, evaluate, operations, tried, variables

_COMPLEX = frozenset({"z", "w"})  # names of complex numbers, where a modulus is taken


def values_at(node: Node) -> list[Value]:
    """The values of an expression at its points: one if it has no variable."""
    names = sorted(variables(node))
    if not names:
        return [evaluate(node, {})]
    steps = [value for env in step_points(names) if (value := tried(node, env)) is not None] if jumps(node) else []
    if len(steps) > 1 and all(name in WHOLE for name in names):
        return steps  # floor((n+1)/2) is ceil(n/2), of integers
    # Where an absolute value is taken of z, |z|^2 is not z^2.
    complex_ = {name for op in operations(node) if op.name == "abs" for name in _COMPLEX & variables(op)}
    values = [
        evaluate(node, {name: _beside(name, j) if name in complex_ else point(name, j) for name in names})
        for j in range(POINTS)
    ]
    further = [] if complex_ else hidden(node, names)
    return values + [value for env in further if (value := tried(node, env)) is not None] + steps


def _beside(name: str, index: int) -> Value:
    """A point off the real line."""
    ctx = context()
    return ctx.mpc(*(ctx.mpf(at.numerator) / at.denominator for at in (point(name, index), point("i" + name, index))))


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
        exact = _rounded(value, significant)
    if exact is not None:
        return "exact", short(_spelled(exact))
    return "fingerprint", short("~" + digits(value))


def _spelled(value: int | Fraction) -> str:
    if max(abs(value.numerator).bit_length(), value.denominator.bit_length()) > 13_000:
        # Decimal conversion is quadratic and refused past 4,300 digits.
        return f"{value.numerator:x}/{value.denominator:x}h"
    return str(value)


def _rounded(value: Value, significant: int) -> Fraction:
    number = as_fraction(value)
    school = Context(prec=significant, rounding=ROUND_HALF_UP)  # half away from zero
    return Fraction(school.divide(Decimal(number.numerator), Decimal(number.denominator)))
