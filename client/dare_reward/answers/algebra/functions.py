"""The functions that an expression may call, with their arity and cost."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction

from ..kinds import Unreadable
from ..tables import words
from .arithmetic import add, add2, div, exp, ln, log, mul, power, product, root, sqrt, zero
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


def _trig(name: str) -> Callable[[Value], Value]:
    def f(a: Value) -> Value:
        ctx, x = context(), computed(a)
        check_angle(ctx.re(x))
        check_log(abs(ctx.im(x)))
        out = getattr(ctx, name)(x)
        return 0 if abs(out) <= ctx.noise * max(1, abs(x)) and abs(x) >= 0.001 else out  # a small sine is its value

    return f


_sin, _cos = _trig("sin"), _trig("cos")


def _inverse(name: str) -> Callable[[Value], Value]:
    return lambda a: zero(getattr(context(), name)(computed(a)))


def _hyperbolic(name: str) -> Callable[[Value], Value]:
    def f(a: Value) -> Value:
        x = computed(a)
        check_log(abs(context().re(x)))
        check_angle(context().im(x))
        return zero(getattr(context(), name)(x))

    return f


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


# Steps beside those for the size of the result.
COSTS = dict.fromkeys(
    words("exp cis ln lg log sin cos tan cot sec csc sinh cosh tanh coth sech csch sqrt root cbrt pow"), 30
) | {
    **dict.fromkeys(words("arcsin arccos arctan arccot arcsec arccsc arsinh arcosh artanh factorial Gamma binom"), 60),
    "zeta": 400,
}
RULES: dict[str, tuple[int, Callable[..., Value]]] = {
    "add": (0, add),
    "mul": (0, product),
    "div": (2, div),
    "neg": (1, lambda a: -a),
    "pow": (2, power),
    "root": (2, root),
    "sqrt": (1, sqrt),
    "cbrt": (1, lambda a: root(a, 3)),
    "abs": (1, abs),
    "mod": (2, _mod),
    "deg": (1, lambda a: mul(mul(a, Fraction(1, 180)), context().pi * 1)),
    "factorial": (1, _factorial),
    "factorial2": (1, _factorial2),
    "Gamma": (1, lambda a: _factorial(add2(a, -1))),
    "zeta": (1, _zeta),
    "binom": (2, _binom),
    "floor": (1, _round_to("floor")),
    "ceil": (1, _round_to("ceil")),
    "gcd": (0, lambda *a: math.gcd(*_integers(a))),
    "lcm": (0, lambda *a: math.lcm(*_integers(a))),
    "max": (0, _extreme(max)),
    "min": (0, _extreme(min)),
    "exp": (1, exp),
    "cis": (1, lambda a: exp(mul(context().j * 1, a))),
    "ln": (1, ln),
    "lg": (1, log),
    "log": (0, log),
    "sin": (1, _sin),
    "cos": (1, _cos),
    "tan": (1, lambda a: div(_sin(a), _cos(a))),
    "cot": (1, lambda a: div(_cos(a), _sin(a))),
    "sec": (1, lambda a: div(1, _cos(a))),
    "csc": (1, lambda a: div(1, _sin(a))),
    "coth": (1, lambda a: div(1, _hyperbolic("tanh")(a))),
    "sech": (1, lambda a: div(1, _hyperbolic("cosh")(a))),
    "csch": (1, lambda a: div(1, _hyperbolic("sinh")(a))),
    **{
        ("ar" if "h" in name else "arc") + name: (1, _inverse("a" + name))
        for name in words("sin cos tan cot sec csc sinh cosh tanh")
    },
    **{name: (1, _hyperbolic(name)) for name in words("sinh cosh tanh")},
}
