"""Keys of numbers and expressions: the exact value, or the digits at fixed points."""

from __future__ import annotations

from fractions import Fraction

from ..hashes import hashed, short
from ..kinds import KeyKind
from ..unreadable import Cancelled, Unreadable
from .branches import bends_far_away, doubted, folds, jumps, winds
from .evaluate import evaluate
from .nodes import Node, Op, variables
from .numbers import BASE_DIGITS, DEEP, MAX_LOG, Value, as_fraction, charge, context, digits, magnitude, rational, work
from .sample_points import CLOSE, FAR, POINTS, WHOLE, mixed_points, point, step_points

__all__ = ["constant_key", "expression_key", "values_at", "values_key"]

_SAFE_MAGNITUDE = 18  # so many digits before the point still leave 32 decimals and 10 to spare
_COMPLEX = frozenset({"z", "w"})  # names of complex numbers, where a modulus is taken


def values_at(node: Node, dps: int = BASE_DIGITS) -> list[Value]:
    """The values of an expression at its points: one if it has no variable."""
    if doubted(node):
        raise Unreadable("the sign of an unknown value")
    names = sorted(variables(node))
    if not names:
        return [evaluate(node, {}, dps)]
    steps = (
        [value for env in step_points(names) if (value := _tried(node, env, dps)) is not None] if jumps(node) else []
    )
    if len(steps) > 1 and all(name in WHOLE for name in names):
        return steps  # floor((n+1)/2) is ceil(n/2), of integers
    complex_ = [name for name in names if name in _COMPLEX and _in_bars(node, name)]
    values = [
        evaluate(node, {name: _beside(name, j) if name in complex_ else point(name, j) for name in names}, dps)
        for j in range(POINTS)
    ]
    if bends_far_away(node) or winds(node):
        found = [_tried(node, dict.fromkeys(names, at), dps) for at in FAR + CLOSE]
        values += [value for value in found if value is not None]
    if len(names) > 1 and not complex_ and folds(node, names):
        values += [evaluate(node, env, dps) for env in mixed_points(names)]
    return values + steps


def _tried(node: Node, env: dict[str, Value], dps: int) -> Value | None:
    """The value there, None where it is too large: 2^n far away."""
    try:
        return evaluate(node, env, dps)
    except Unreadable:
        return None


def _in_bars(node: Node, name: str) -> bool:
    """Whether the absolute value of an expression with the variable is taken: |z|^2 is not z^2."""
    if not isinstance(node, Op):
        return False
    return (node.name == "abs" and name in variables(node)) or any(_in_bars(arg, name) for arg in node.args)


def _beside(name: str, index: int) -> Value:
    """A point off the real line."""
    ctx = context()
    return ctx.mpc(*(ctx.mpf(at.numerator) / at.denominator for at in (point(name, index), point("i" + name, index))))


def expression_key(node: Node, significant: int = 0) -> tuple[KeyKind, str]:
    """(kind, value) of the expression's key."""
    work.faint = False
    try:
        values = values_at(node)
    except Cancelled as lost:
        return _cancelled_key(node, lost)
    size = max(magnitude(v) for v in values)
    if work.faint and not significant and (found := _faint_key(node, size)) is not None:
        return found
    if size > _SAFE_MAGNITUDE and not all(isinstance(v, int | Fraction) for v in values):
        values = values_at(node, BASE_DIGITS + size)
        if len(values) == 1 and not significant and not isinstance(values[0], int | Fraction):
            return _large_key(node, values[0], size)
    kind, value = values_key(values, significant)
    if kind == "fingerprint" and 1 < len(set(values)) < len(values):
        value += "/" + ",".join(sorted(variables(node)))  # of |x|/x only the sign of x is seen, which is that of y
    return kind, value


def _cancelled_key(node: Node, lost: Cancelled) -> tuple[KeyKind, str]:
    """The key of what large numbers leave, 2^1006 sqrt(2^2010 + 2) - 2^2011, from as many digits more as they have."""
    more = 100 * (lost.bits // 300 + 1)
    if more > MAX_LOG:
        raise lost
    values = values_at(node, BASE_DIGITS + more)
    return "fingerprint", short("~~" + ";".join(digits(v, BASE_DIGITS) for v in values))


def _large_key(node: Node, value: Value, size: int) -> tuple[KeyKind, str]:
    """The key of a large constant: sqrt(10^80 + 1) is so close to 10^40 that only more digits tell them apart."""
    near = rational(value)
    if near is None:
        return constant_key(value)
    more = min(4 * size, MAX_LOG)
    closer = values_at(node, BASE_DIGITS + more)[0]
    if hasattr(closer, "_mpf_") and abs(as_fraction(closer) - near) * 10 ** (BASE_DIGITS // 2 + more - size) > 1:
        return "fingerprint", short("~~" + digits(closer, more))
    return constant_key(near)


def _faint_key(node: Node, size: int) -> tuple[KeyKind, str] | None:
    """The key where a part is too small for the usual digits, 1 + e^-100; None where that was rounding error."""
    work.faint = False
    values = values_at(node, BASE_DIGITS + DEEP + size)
    if not work.faint:
        return None
    return "fingerprint", short("~~" + ";".join(digits(v, DEEP) for v in values))


def values_key(values: list[Value], significant: int = 0) -> tuple[KeyKind, str]:
    """(kind, value) of an expression with these values at the points."""
    constant = _constant(values)
    if constant is not None:
        return constant_key(constant, significant)
    text = ";".join(digits(v) for v in values)
    return "fingerprint", "f:" + hashed(text)


def constant_key(value: Value, significant: int = 0) -> tuple[KeyKind, str]:
    charge(2 if isinstance(value, int | Fraction) else 25)
    exact = rational(value)
    if significant and not hasattr(value, "_mpc_"):
        exact = _rounded(value, significant)
    if exact is not None:
        return "exact", short(_spelled(exact))
    return "fingerprint", short("~" + digits(value))


def _constant(values: list[Value]) -> Value | None:
    """The one value of an expression that does not depend on its variables."""
    if len(values) == 1:
        return values[0]
    if len({digits(v) for v in values}) == 1:
        return values[0]
    return None


def _spelled(value: int | Fraction) -> str:
    if max(abs(value.numerator).bit_length(), value.denominator.bit_length()) > 13_000:
        # Decimal conversion is quadratic and refused past 4,300 digits.
        return f"{value.numerator:x}/{value.denominator:x}h"
    return str(value)


def _rounded(value: Value, significant: int) -> Fraction:
    number = Fraction(value) if isinstance(value, int | Fraction) else as_fraction(value)
    if number == 0:
        return number
    exponent = int((abs(number.numerator).bit_length() - number.denominator.bit_length()) * 0.30103)
    exponent += (abs(number) >= Fraction(10) ** (exponent + 1)) - (abs(number) < Fraction(10) ** exponent)
    unit = Fraction(10) ** (exponent + 1 - significant)
    # Half away from zero, as in school.
    steps = (abs(number) / unit + Fraction(1, 2)).__floor__()
    return steps * unit * (1 if number > 0 else -1)


def require_real(value: Value) -> Value:
    if hasattr(value, "_mpc_"):
        raise Unreadable("not real")
    return value
