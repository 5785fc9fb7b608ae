"""Numbers that are exact while they are rational, else computed; the precision, the budget of work, the digits.

Nothing here knows a clock. Every step checks the size of what it is about to make, so the cost of any tree is bounded
and its value does not depend on the machine.
"""

from __future__ import annotations

import math
import threading
from fractions import Fraction
from functools import lru_cache
from typing import Any

from ..kinds import Unreadable

Value = Any  # int | Fraction | mpf | mpc
BUDGET = 8_000  # steps of about a microsecond that one answer may take
BASE_DIGITS = 60
KEY_DIGITS = 32
_DENSE = 10**15  # above it a fraction with nine digits below is close to every number
_LARGE = 18  # digits before the point that leave 10 of the 60 to spare
MAX_BITS = 20_400  # 2,100! has 20,166
MAX_LOG = 2_000
MAX_DIGITS = 4_000  # Python refuses int() past 4,300
MAX_ZEROS = 40
MAX_MAG = int(MAX_LOG / math.log(2))
_DECIMAL_BITS = 8_000
NOISE = 45  # digits below the larger operand at which a difference is rounding error

# One context behind one lock: mpmath keeps its constants in module-level caches that threads would race on, and
# pure Python computes in one thread at a time anyway.
lock = threading.RLock()


class _Work(threading.local):
    left = BUDGET
    spent = 0  # steps of all answers that were read in this thread
    faint = ""  # what was added to an expression and is too small for the digits of its key


work = _Work()


def start_budget() -> None:
    """Called once for each answer."""
    work.left = BUDGET


def charge(steps: int) -> None:
    """Counts work that is about to be done. A count, unlike a clock, is the same on every machine."""
    work.left -= steps
    if work.left < 0:
        raise Unreadable("over the budget of work")


@lru_cache(maxsize=1)
def context() -> Any:
    from mpmath import MPContext  # noqa: PLC0415 - only fingerprints need it

    ctx = MPContext()
    # The constants at the highest precision that is ever asked for, so that their caches never change again.
    ctx.dps = 2 * BASE_DIGITS
    for constant in (ctx.pi, ctx.e, ctx.ln2, ctx.ln10):
        _ = +constant
    ctx.dps = BASE_DIGITS
    ctx.noise = ctx.mpf(10) ** -NOISE
    return ctx


def digits(value: Value) -> str:
    """32 digits and 32 decimals at least, 50 digits at most: the same for an exact and a computed value."""
    charge(10)
    if hasattr(value, "_mpc_"):
        return f"{digits(value.real)},{digits(value.imag)}i"
    if not isinstance(value, int | Fraction) and not context().isfinite(value):
        raise Unreadable("not finite")
    exact = as_fraction(value)
    if exact == 0:
        return "0"
    below = int((exact.denominator.bit_length() - abs(exact.numerator).bit_length()) * 0.30103)
    places = KEY_DIGITS + (below if below > 0 else min(0, below + _LARGE))
    scaled = round(exact * Fraction(10) ** places)
    # Python refuses decimal strings past 4,300 digits.
    return f"{scaled}e-{places}" if scaled.bit_length() < _DECIMAL_BITS else f"{scaled:x}h-{places}"


def rational(value: Value) -> int | Fraction | None:
    """The rational number that a computed value is, if it is one with a small denominator."""
    if isinstance(value, int | Fraction):
        return value
    if hasattr(value, "_mpc_"):
        return None
    exact = as_fraction(value)
    if exact == 0:
        return 0
    near = exact.limit_denominator(10**9) if abs(exact) < _DENSE else Fraction(round(exact))
    if abs(near - exact) * 10**NOISE > abs(exact) or abs(near - exact) * 10**4 > 1:
        return None
    return near.numerator if near.denominator == 1 else near


def as_fraction(value: Any) -> Fraction:
    """A real number as it is held, to its last bit."""
    if isinstance(value, int | Fraction):
        return Fraction(value)
    if hasattr(value, "_mpc_"):
        raise Unreadable("not real")
    sign, man, exp, _ = value._mpf_
    man = -int(man) if sign else int(man)
    return Fraction(man * 2**exp) if exp >= 0 else Fraction(man, 2**-exp)


def nearest(value: Value) -> Fraction:
    """The rational number that a value is, else the value as it is held."""
    near = rational(value)
    return as_fraction(value if near is None else near)


def real(value: Fraction) -> Value:
    """The computed number nearest to `value`, for one that came from computed numbers."""
    with lock:
        return context().mpf(value.numerator) / value.denominator


def bounded(value: Value) -> Value:
    if type(value) is int and -1_000_000 < value < 1_000_000:
        return value
    if isinstance(value, int | Fraction):
        bits = max(value.numerator.bit_length(), value.denominator.bit_length())
        if bits > MAX_BITS:
            raise Unreadable("too large")
        charge(bits * bits >> 21)  # what a greatest common divisor of that size takes
        return value.numerator if value.denominator == 1 else value
    ctx = context()
    charge(ctx.prec >> 6)
    if hasattr(value, "_mpc_"):
        re, im = value.real, value.imag
        scale = max(abs(re), abs(im)) * ctx.noise
        if abs(im) <= scale:
            return bounded(re)
        if re and abs(re) <= scale:
            value = ctx.mpc(0, im)
    if not ctx.isfinite(value) or (value and abs(ctx.mag(value)) > MAX_MAG):
        raise Unreadable("too large")
    return value


def is_exact(*values: Value) -> bool:
    return all(isinstance(v, int | Fraction) for v in values)


def computed(value: Value) -> Any:
    ctx = context()
    if isinstance(value, Fraction):
        if value.numerator.bit_length() > MAX_MAG * 2 or value.denominator.bit_length() > MAX_MAG * 2:
            raise Unreadable("too large")
        out = ctx.mpf(value.numerator) / value.denominator
        if value.denominator.bit_length() > ctx.prec and ctx.isint(out):
            raise Unreadable("too small a part")  # 1 + 2^-2009 is not 1
        return out
    if isinstance(value, int) and value.bit_length() > MAX_MAG:
        raise Unreadable("too large")
    return ctx.convert(value)


def number(text: str) -> int | Fraction:
    """The exact value of a decimal, `1e5`, or repeating decimal `0.1(6)`."""
    if len(text) < MAX_ZEROS and text.isdigit():
        return int(text)  # by far the most common
    if len(text) > MAX_DIGITS:
        raise Unreadable("too many digits")
    if text.startswith("0" * MAX_ZEROS):
        raise Unreadable("too many zeros")
    mantissa, _, exponent = text.lower().partition("e")
    if len(exponent) > 9 or abs(int(exponent or "0")) > MAX_DIGITS:
        raise Unreadable("too large an exponent")
    start, _, cycle = mantissa.rstrip(")").partition("(")
    value = Fraction(f"{start}e{exponent or 0}")
    if cycle:
        value += Fraction(int(cycle), (10 ** len(cycle) - 1) * 10 ** len(start.partition(".")[2]))
    return value.numerator if value.denominator == 1 else value
