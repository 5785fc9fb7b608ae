"""Sums, products, powers, roots and logarithms of exact and computed numbers."""

from __future__ import annotations

import math
from fractions import Fraction
from functools import reduce

from ..kinds import Unreadable
from .numbers import (
    MAX_BITS,
    Value,
    bounded,
    check_angle,
    check_log,
    computed,
    context,
    digits,
    is_exact,
    work,
)

_UNSEEN = 40  # bits of what is left that have to be seen before it is called zero
_ROOTS = 1_000  # the largest power of a square root that is not taken by its logarithm
_FAINT = 100  # bits below one and below the other summand, where the digits of a key end


def add(*args: Value) -> Value:
    return reduce(lambda a, b: bounded(add2(a, b)), args)


def add2(a: Value, b: Value) -> Value:
    if is_exact(a, b):
        return a + b
    a, b = computed(a), computed(b)
    out = a + b
    ctx = context()
    noise = ctx.noise
    if hasattr(out, "_mpc_"):
        re, im = out.real, out.imag
        if abs(re) <= noise * max(abs(ctx.re(a)), abs(ctx.re(b))):
            re = ctx.zero
        if abs(im) <= noise * max(abs(ctx.im(a)), abs(ctx.im(b))):
            im = ctx.zero
        return ctx.mpc(re, im) if im else re or 0
    if abs(out) > noise * max(abs(a), abs(b)):
        sizes = ctx.mag(a), ctx.mag(b)
        if -math.inf < min(sizes) < min(0, max(sizes)) - _FAINT:
            work.faint += f";{digits(min(a, b, key=abs))}"  # 1 + e^-100 is not 1 + e^-101
        return out
    if max(ctx.mag(a), ctx.mag(b)) > ctx.prec - _UNSEEN:
        raise Unreadable("a difference of large numbers")
    return 0


def product(*args: Value) -> Value:
    return reduce(lambda a, b: bounded(mul(a, b)), args)


def mul(a: Value, b: Value) -> Value:
    if is_exact(a, b):
        return a * b
    if a == 0 or b == 0:
        return 0
    return computed(a) * computed(b)


def div(a: Value, b: Value) -> Value:
    if b == 0:
        raise Unreadable("division by zero")
    if is_exact(a, b):
        return Fraction(a) / b
    return 0 if a == 0 else computed(a) / computed(b)


def power(a: Value, b: Value) -> Value:
    if b == 0:
        if a == 0:
            raise Unreadable("0^0")
        return 1
    if a == 0:
        if hasattr(b, "_mpc_") or b < 0:
            raise Unreadable("a power of zero")
        return 0
    if isinstance(b, int):
        return _int_pow(a, b)
    if isinstance(b, Fraction) and (root := _root_pow(a, b)) is not None:
        return root
    ctx = context()
    exponent = ctx.log(computed(a)) * computed(b)
    check_log(abs(ctx.re(exponent)))
    check_angle(ctx.im(exponent))
    return ctx.exp(exponent)


def _root_pow(a: Value, b: Fraction) -> Value | None:
    """A power of a root that is real, rational or square."""
    p, q = b.numerator, b.denominator
    if not hasattr(a, "_mpc_") and a < 0 and q % 2:
        return power(-a, b) * (-1 if p % 2 else 1)
    if is_exact(a) and a > 0:
        top, bottom = _iroot(a.numerator, q), _iroot(a.denominator, q)
        if top is not None and bottom is not None:
            return _int_pow(Fraction(top, bottom), p)
    if q == 2 and abs(p) <= _ROOTS:
        return context().sqrt(computed(a)) ** p
    if q == 2 and is_exact(a) and a < 0:
        raise Unreadable("too large")
    return None


def _int_pow(a: Value, b: int) -> Value:
    if not is_exact(a):
        check_log(abs(b) * abs(context().log(abs(a))))
        return a**b
    if a in {1, -1}:
        return 1 if a == 1 or b % 2 == 0 else -1
    bits = max(abs(a.numerator).bit_length(), a.denominator.bit_length())
    if (bits - 1) * abs(b) > MAX_BITS:
        raise Unreadable("too large")
    return Fraction(a) ** b if b < 0 else a**b


def _iroot(n: int, q: int) -> int | None:
    """The exact q-th root of n >= 0, if there is one."""
    if n < 2:
        return n
    bits = n.bit_length()
    if q == 2:
        root = math.isqrt(n)
        return root if root * root == n else None
    if q >= bits or bits > MAX_BITS // 8:
        return None
    root = 1 << -(-bits // q)
    while True:
        step = ((q - 1) * root + n // root ** (q - 1)) // q
        if step >= root:
            break
        root = step
    return root if root**q == n else None


def sqrt(a: Value) -> Value:
    return power(a, Fraction(1, 2))


def exp(a: Value) -> Value:
    x = computed(a)
    check_log(abs(context().re(x)))
    check_angle(context().im(x))
    return context().exp(x)


def ln(a: Value) -> Value:
    if a == 0:
        raise Unreadable("logarithm of zero")
    ctx = context()
    if is_exact(a) and a > 0:  # exact numbers may be larger than a computed value may be
        return ctx.log(ctx.mpf(a.numerator)) - ctx.log(ctx.mpf(a.denominator))
    out = ctx.log(computed(a))
    return 0 if abs(out) <= ctx.noise else out


def log(a: Value, base: Value = 10) -> Value:
    return div(ln(a), ln(base))
