"""What an expression computes: sums, powers, logarithms and the functions that it may call, with arity and cost."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from functools import partial, reduce

from ..kinds import Unreadable
from ..tables import words
from .numbers import MAX_BITS, MAX_LOG, Value, bounded, charge, computed, context, digits, is_exact, nearest, work

MAX_FACTORIAL = 2_100
MAX_BINOMIAL = 5_000
MAX_ANGLE = 10**12
_UNSEEN = 40  # bits of what is left that have to be seen before it is called zero
_ROOTS = 1_000  # the largest power of a square root that is not taken by its logarithm
_FAINT = 100  # bits below one and below the other summand, where the digits of a key end


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


def check_log(size: Value) -> None:
    if size > MAX_LOG:
        raise Unreadable("too large")


def check_angle(x: Value) -> None:
    if abs(x) > MAX_ANGLE:
        raise Unreadable("too large an angle")


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


def _wave(name: str, a: Value) -> Value:
    """A sine or cosine, which turns with its argument's real part and grows with the other: `h` the other way."""
    ctx, x = context(), computed(a)
    turns, grows = (ctx.im(x), ctx.re(x)) if name.endswith("h") else (ctx.re(x), ctx.im(x))
    check_angle(turns)
    check_log(abs(grows))
    out = getattr(ctx, name)(x)
    return 0 if abs(out) <= ctx.noise * max(1, abs(x)) and abs(x) >= 0.001 else out  # a small sine is its value


def _inverse(name: str, a: Value) -> Value:
    return getattr(context(), name)(computed(a))


def _waves(end: str) -> dict[str, Callable[[Value], Value]]:
    """The six functions of an angle; with `h` for `end`, the hyperbolic ones."""
    sin, cos = partial(_wave, "sin" + end), partial(_wave, "cos" + end)
    named: dict[str, Callable[[Value], Value]] = {
        "sin": sin,
        "cos": cos,
        "tan": lambda a: div(sin(a), cos(a)),
        "cot": lambda a: div(cos(a), sin(a)),
    }
    named |= {"sec": lambda a: div(1, cos(a)), "csc": lambda a: div(1, sin(a))}
    return {name + end: function for name, function in named.items()}


def _factorial(a: Value, step: int = 1) -> Value:
    """`step` 2: of every second number."""
    if isinstance(a, int) or step == 2:
        if not isinstance(a, int) or not 0 <= a <= MAX_FACTORIAL:
            raise Unreadable("no such factorial")
        return math.factorial(a) if step == 1 else math.prod(range(a, 0, -step))
    x = computed(a)
    if abs(x) > 500:
        raise Unreadable("too large")
    return context().gamma(x + 1)


def _binom(n: Value, k: Value) -> Value:
    if isinstance(k, int) and isinstance(n, int) and n >= 0:
        if n > MAX_BINOMIAL or k < 0:
            raise Unreadable("too large")
        return math.comb(n, k)
    if isinstance(k, int) and 0 <= k <= 60:
        charge(5 * k)
        return reduce(lambda out, j: bounded(div(mul(out, add2(n, -j)), j + 1)), range(k), 1)
    return div(_factorial(n), mul(_factorial(k), _factorial(add2(n, -k))))


def _integers(args: tuple[Value, ...]) -> tuple[int, ...]:
    if not all(isinstance(a, int) for a in args):
        raise Unreadable("not integers")
    return args


def _exact(args: tuple[Value, ...]) -> tuple[Value, ...]:
    if not is_exact(*args):
        raise Unreadable("not comparable")
    return args


def _mod(*args: Value) -> Value:
    a, b = _integers(args)
    if b <= 0:
        raise Unreadable("no such modulus")
    return a % b


def _zeta(a: Value) -> Value:
    if not is_exact(a) or not 1 < a <= 60:
        raise Unreadable("no such zeta value")
    return context().zeta(computed(a))


# How many arguments a function takes, 0 for any number; its steps beside those for the size of the result.
RULES: dict[str, tuple[int, int, Callable[..., Value]]] = {
    "add": (0, 2, lambda *a: reduce(lambda a, b: bounded(add2(a, b)), a)),
    "mul": (0, 2, lambda *a: reduce(lambda a, b: bounded(mul(a, b)), a)),
    "div": (2, 2, div),
    "neg": (1, 2, lambda a: -a),
    "pow": (2, 30, power),
    "root": (2, 30, lambda a, n: power(a, div(1, n))),
    "sqrt": (1, 30, lambda a: power(a, Fraction(1, 2))),
    "cbrt": (1, 30, lambda a: power(a, Fraction(1, 3))),
    "abs": (1, 2, abs),
    "mod": (2, 2, _mod),
    "deg": (1, 2, lambda a: mul(mul(a, Fraction(1, 180)), context().pi * 1)),
    "factorial": (1, 60, _factorial),
    "factorial2": (1, 2, partial(_factorial, step=2)),
    "Gamma": (1, 60, lambda a: _factorial(add2(a, -1))),
    "zeta": (1, 400, _zeta),
    "binom": (2, 60, _binom),
    "floor": (1, 2, lambda a: math.floor(nearest(a))),
    "ceil": (1, 2, lambda a: math.ceil(nearest(a))),
    "gcd": (0, 2, lambda *a: math.gcd(*_integers(a))),
    "lcm": (0, 2, lambda *a: math.lcm(*_integers(a))),
    "max": (0, 2, lambda *a: max(_exact(a))),
    "min": (0, 2, lambda *a: min(_exact(a))),
    "exp": (1, 30, lambda a: power(context().e * 1, a)),
    "cis": (1, 30, lambda a: power(context().e * 1, mul(context().j * 1, a))),
    "ln": (1, 30, ln),
    "lg": (1, 30, log),
    "log": (0, 30, log),
    **{name: (1, 30, function) for name, function in (_waves("") | _waves("h")).items()},
    **{
        ("ar" if "h" in name else "arc") + name: (1, 60, partial(_inverse, "a" + name))
        for name in words("sin cos tan cot sec csc sinh cosh tanh")
    },
}
