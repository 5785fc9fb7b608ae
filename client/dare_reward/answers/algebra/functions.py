"""The functions that an expression may call, with their arity and cost."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction

from ..kinds import Unreadable
from ..tables import words
from .arithmetic import add, add2, div, exp, ln, log, mul, power, product, sqrt
from .numbers import (
    Value,
    bounded,
    charge,
    check_angle,
    check_log,
    computed,
    context,
    is_exact,
    rational,
)

MAX_FACTORIAL = 2_100
MAX_BINOMIAL = 5_000


def _wave(name: str, *, turned: bool = False) -> Callable[[Value], Value]:
    """A sine or cosine, which turns with its argument's real part and grows with the other; `turned`: hyperbolic."""

    def f(a: Value) -> Value:
        ctx, x = context(), computed(a)
        turns, grows = (ctx.im(x), ctx.re(x)) if turned else (ctx.re(x), ctx.im(x))
        check_angle(turns)
        check_log(abs(grows))
        out = getattr(ctx, name)(x)
        return 0 if abs(out) <= ctx.noise * max(1, abs(x)) and abs(x) >= 0.001 else out  # a small sine is its value

    return f


_sin, _cos = _wave("sin"), _wave("cos")
_sinh, _cosh = _wave("sinh", turned=True), _wave("cosh", turned=True)


def _one(_: Value) -> Value:
    return 1


def _inverse(name: str) -> Callable[[Value], Value]:
    return lambda a: getattr(context(), name)(computed(a))


def _factorial(a: Value) -> Value:
    if isinstance(a, int):
        if not 0 <= a <= MAX_FACTORIAL:
            raise Unreadable("no such factorial")
        return math.factorial(a)
    x = computed(a)
    if abs(x) > 500:
        raise Unreadable("too large")
    return context().gamma(x + 1)


def _factorial2(a: Value) -> Value:
    if not isinstance(a, int) or not 0 <= a <= MAX_FACTORIAL:
        raise Unreadable("no such factorial")
    return math.prod(range(a, 0, -2))


def _binom(n: Value, k: Value) -> Value:
    if isinstance(k, int) and isinstance(n, int) and n >= 0:
        if n > MAX_BINOMIAL or k < 0:
            raise Unreadable("too large")
        return math.comb(n, k)
    if isinstance(k, int) and 0 <= k <= 60:
        charge(5 * k)
        out: Value = 1
        for j in range(k):
            out = bounded(div(mul(out, add2(n, -j)), j + 1))
        return out
    return div(_factorial(n), mul(_factorial(k), _factorial(add2(n, -k))))


def _round_to(name: str) -> Callable[[Value], Value]:
    def f(a: Value) -> Value:
        near = rational(a)
        if near is not None:
            return math.floor(near) if name == "floor" else math.ceil(near)
        if hasattr(a, "_mpc_"):
            raise Unreadable("floor of a complex number")
        return int(getattr(context(), name)(a))

    return f


def _integers(args: tuple[Value, ...]) -> tuple[int, ...]:
    if not all(isinstance(a, int) for a in args):
        raise Unreadable("not integers")
    return args


def _mod(a: Value, b: Value) -> Value:
    a, b = _integers((a, b))
    if b <= 0:
        raise Unreadable("no such modulus")
    return a % b


def _extreme(pick: Callable[..., Value]) -> Callable[..., Value]:
    def f(*args: Value) -> Value:
        if not all(is_exact(a) for a in args):
            raise Unreadable("not comparable")
        return pick(args)

    return f


def _zeta(a: Value) -> Value:
    if not is_exact(a) or not 1 < a <= 60:
        raise Unreadable("no such zeta value")
    return context().zeta(computed(a))


# How many arguments a function takes, 0 for any number; its steps beside those for the size of the result.
RULES: dict[str, tuple[int, int, Callable[..., Value]]] = {
    "add": (0, 2, add),
    "mul": (0, 2, product),
    "div": (2, 2, div),
    "neg": (1, 2, lambda a: -a),
    "pow": (2, 30, power),
    "root": (2, 30, lambda a, n: power(a, div(1, n))),
    "sqrt": (1, 30, sqrt),
    "cbrt": (1, 30, lambda a: power(a, Fraction(1, 3))),
    "abs": (1, 2, abs),
    "mod": (2, 2, _mod),
    "deg": (1, 2, lambda a: mul(mul(a, Fraction(1, 180)), context().pi * 1)),
    "factorial": (1, 60, _factorial),
    "factorial2": (1, 2, _factorial2),
    "Gamma": (1, 60, lambda a: _factorial(add2(a, -1))),
    "zeta": (1, 400, _zeta),
    "binom": (2, 60, _binom),
    "floor": (1, 2, _round_to("floor")),
    "ceil": (1, 2, _round_to("ceil")),
    "gcd": (0, 2, lambda *a: math.gcd(*_integers(a))),
    "lcm": (0, 2, lambda *a: math.lcm(*_integers(a))),
    "max": (0, 2, _extreme(max)),
    "min": (0, 2, _extreme(min)),
    "exp": (1, 30, exp),
    "cis": (1, 30, lambda a: exp(mul(context().j * 1, a))),
    "ln": (1, 30, ln),
    "lg": (1, 30, log),
    "log": (0, 30, log),
    "sin": (1, 30, _sin),
    "cos": (1, 30, _cos),
    "sinh": (1, 30, _sinh),
    "cosh": (1, 30, _cosh),
    **{
        name + h: (1, 30, lambda a, top=top, bottom=bottom: div(top(a), bottom(a)))
        for h, sin, cos in (("", _sin, _cos), ("h", _sinh, _cosh))
        for name, top, bottom in (("tan", sin, cos), ("cot", cos, sin), ("sec", _one, cos), ("csc", _one, sin))
    },
    **{
        ("ar" if "h" in name else "arc") + name: (1, 60, _inverse("a" + name))
        for name in words("sin cos tan cot sec csc sinh cosh tanh")
    },
}
