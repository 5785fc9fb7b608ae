"""The value of an expression: exact while it is rational, else to 60 digits and more in a private mpmath context.

Nothing here knows a clock. Every step checks the size of what it is about to make, so the cost of any tree is bounded
and its value does not depend on the machine.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Mapping
from fractions import Fraction
from functools import lru_cache
from hashlib import blake2b
from typing import Any

from .parse import Constant, Node, Number, Op, Variable
from .tokens import Unreadable
from .words import words

__all__ = [
    "POINTS",
    "Value",
    "as_fraction",
    "charge",
    "digits",
    "evaluate",
    "lock",
    "point",
    "rational",
    "real",
    "start_budget",
    "variables",
]

Value = Any  # int | Fraction | mpf | mpc

POINTS = 3
BUDGET = 10_000  # steps of about a microsecond that one answer may take
BASE_DIGITS = 60
KEY_DIGITS = 32
MAX_BITS = 20_400  # 2,100! has 20,166
MAX_FACTORIAL = 2_100
MAX_BINOMIAL = 3_000
MAX_LOG = 2_000
MAX_ANGLE = 10**12
_MAX_MAG = int(MAX_LOG / math.log(2))
_DECIMALS = 40
_NOISE = 45  # digits below the larger operand at which a difference is rounding error

# One context behind one lock: mpmath keeps its constants in module-level caches that threads would race on, and
# pure Python computes in one thread at a time anyway.
lock = threading.RLock()


class _Work(threading.local):
    left = BUDGET
    factor = 1  # what a function costs at the present precision


_work = _Work()


def start_budget() -> None:
    """Called once for each answer."""
    _work.left = BUDGET


def charge(steps: int) -> None:
    """Counts work that is about to be done. A count, unlike a clock, is the same on every machine."""
    _work.left -= steps
    if _work.left < 0:
        raise Unreadable("over the budget of work")


@lru_cache(maxsize=1)
def context() -> Any:
    from mpmath import MPContext  # type: ignore[import-untyped]  # noqa: PLC0415 - only fingerprints need it

    ctx = MPContext()
    # The constants at the highest precision that is ever asked for, so that their caches never change again.
    ctx.dps = BASE_DIGITS + MAX_LOG
    for constant in (ctx.pi, ctx.e, ctx.ln2, ctx.ln10):
        _ = +constant
    ctx.dps = BASE_DIGITS
    return ctx


@lru_cache(maxsize=4096)
def point(name: str, index: int) -> Fraction:
    """Where a variable is evaluated: a hash of its name, with prime denominator, the last one negative."""
    seed = int.from_bytes(blake2b(f"{name}/{index}".encode("utf-8", "surrogatepass"), digest_size=8).digest(), "big")
    value = Fraction(seed % 90_001 + 30_011, 49_999)
    return -value if index == POINTS - 1 else value


def variables(node: Node, into: set[str] | None = None) -> set[str]:
    found = set() if into is None else into
    if isinstance(node, Variable):
        found.add(node.name)
    elif isinstance(node, Op):
        for arg in node.args:
            variables(arg, found)
    return found


def evaluate(node: Node, env: Mapping[str, Value], dps: int = BASE_DIGITS) -> Value:
    """The value of `node` with its variables from `env`; Unreadable where it has none or is over budget."""
    charge(5)
    with lock:
        try:
            if dps == BASE_DIGITS:
                return _value(node, env)
            ctx = context()
            ctx.dps = dps
            _work.factor = int((dps / BASE_DIGITS) ** 1.5) + 1
            try:
                return _value(node, env)
            finally:
                ctx.dps = BASE_DIGITS
                _work.factor = 1
        except (ArithmeticError, ValueError, TypeError) as error:
            raise Unreadable("no value") from error


def digits(value: Value) -> str:
    """32 significant digits and 32 decimals at least, correctly rounded; the same for an exact and a computed value."""
    charge(10)
    if isinstance(value, int | Fraction):
        return _exact_digits(value)
    ctx = context()
    if hasattr(value, "_mpc_"):
        return f"{digits(value.real)},{digits(value.imag)}i"
    if not ctx.isfinite(value):
        raise Unreadable("not finite")
    if value == 0:
        return "0"
    return _exact_digits(as_fraction(value))


def rational(value: Value) -> int | Fraction | None:
    """The rational number that a computed value is, if it is one with a small denominator."""
    if isinstance(value, int | Fraction):
        return value
    if hasattr(value, "_mpc_"):
        return None
    exact = as_fraction(value)
    if exact == 0:
        return 0
    near = exact.limit_denominator(10**9)
    # Computed values have 60 digits and, where they are large, 40 decimals.
    if abs(near - exact) * 10**_NOISE > abs(exact) or abs(near - exact) * 10**_DECIMALS > 1:
        return None
    return near.numerator if near.denominator == 1 else near


def magnitude(value: Value) -> int:
    """Decimal digits before the point, 0 for values below one."""
    if isinstance(value, int | Fraction):
        return max(0, int((abs(value.numerator).bit_length() - value.denominator.bit_length()) * 0.302))
    if hasattr(value, "_mpc_"):
        return max(magnitude(value.real), magnitude(value.imag))
    return max(0, int(context().mag(value) * 0.302)) if value else 0


def as_fraction(value: Any) -> Fraction:
    sign, man, exp, _ = value._mpf_
    man = -int(man) if sign else int(man)
    return Fraction(man * 2**exp) if exp >= 0 else Fraction(man, 2**-exp)


def real(value: Fraction) -> Value:
    """The computed number nearest to `value`, for one that came from computed numbers."""
    return context().mpf(value.numerator) / value.denominator


def _exact_digits(value: int | Fraction) -> str:
    if value == 0:
        return "0"
    value = Fraction(value)
    below = value.denominator.bit_length() - abs(value.numerator).bit_length()
    places = KEY_DIGITS + max(0, int(below * 0.30103))
    return f"{round(value * 10**places)}e-{places}"


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
    charge(_COSTS.get(name, 2) * _work.factor)
    rule = _RULES.get(name)
    if rule is None:
        raise Unreadable("no such function")
    arity, function = rule
    if arity and len(args) != arity:
        raise Unreadable("a wrong number of arguments")
    return _bounded(function(*args))


def _bounded(value: Value) -> Value:
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
        scale = max(abs(re), abs(im)) * ctx.mpf(10) ** -_NOISE
        if abs(im) <= scale:
            return _bounded(re)
        if re and abs(re) <= scale:
            value = ctx.mpc(0, im)
    if not ctx.isfinite(value) or (value and abs(ctx.mag(value)) > _MAX_MAG):
        raise Unreadable("too large")
    return value


def _exact(*values: Value) -> bool:
    return all(isinstance(v, int | Fraction) for v in values)


def _mp(value: Value) -> Any:
    ctx = context()
    if isinstance(value, Fraction):
        if value.numerator.bit_length() > _MAX_MAG * 2 or value.denominator.bit_length() > _MAX_MAG * 2:
            raise Unreadable("too large")
        return ctx.mpf(value.numerator) / value.denominator
    if isinstance(value, int) and value.bit_length() > _MAX_MAG:
        raise Unreadable("too large")
    return ctx.convert(value)


def _add(*args: Value) -> Value:
    total = args[0]
    for x in args[1:]:
        total = _bounded(_add2(total, x))
    return total


def _add2(a: Value, b: Value) -> Value:
    if _exact(a, b):
        return a + b
    a, b = _mp(a), _mp(b)
    out = a + b
    ctx = context()
    noise = ctx.mpf(10) ** -_NOISE
    if hasattr(out, "_mpc_"):
        re, im = out.real, out.imag
        if abs(re) <= noise * max(abs(ctx.re(a)), abs(ctx.re(b))):
            re = ctx.zero
        if abs(im) <= noise * max(abs(ctx.im(a)), abs(ctx.im(b))):
            im = ctx.zero
        return ctx.mpc(re, im) if im else _zero(re)
    return 0 if abs(out) <= noise * max(abs(a), abs(b)) else out


def _zero(x: Value) -> Value:
    return x or 0


def _product(*args: Value) -> Value:
    out = args[0]
    for x in args[1:]:
        out = _bounded(_mul(out, x))
    return out


def _mul(a: Value, b: Value) -> Value:
    if _exact(a, b):
        return a * b
    if _is_zero(a) or _is_zero(b):
        return 0
    return _mp(a) * _mp(b)


def _is_zero(a: Value) -> bool:
    return bool(a == 0)


def _div(a: Value, b: Value) -> Value:
    if _is_zero(b):
        raise Unreadable("division by zero")
    if _exact(a, b):
        return Fraction(a) / b
    return 0 if _is_zero(a) else _mp(a) / _mp(b)


def _neg(a: Value) -> Value:
    return -a


def _pow(a: Value, b: Value) -> Value:
    if _is_zero(b):
        if _is_zero(a):
            raise Unreadable("0^0")
        return 1
    if _is_zero(a):
        if hasattr(b, "_mpc_") or b < 0:
            raise Unreadable("a power of zero")
        return 0
    if _exact(a, b):
        if isinstance(b, int):
            return _int_pow(a, b)
        return _rational_pow(a, b)
    if isinstance(b, int):
        if abs(b) > MAX_BITS:
            raise Unreadable("too large")
        base = _mp(a)
        _check_log(abs(b) * abs(context().log(abs(base))))
        return base**b
    if isinstance(b, Fraction) and not hasattr(a, "_mpc_") and a < 0 and b.denominator % 2:
        out = _pow(-a, b)
        return -out if b.numerator % 2 else out
    ctx = context()
    exponent = ctx.log(_mp(a)) * _mp(b)
    _check_log(abs(ctx.re(exponent)))
    _check_angle(ctx.im(exponent))
    return ctx.exp(exponent)


def _check_log(size: Value) -> None:
    if size > MAX_LOG:
        raise Unreadable("too large")


def _check_angle(x: Value) -> None:
    if abs(x) > MAX_ANGLE:
        raise Unreadable("too large an angle")


def _int_pow(a: int | Fraction, b: int) -> Value:
    if a in {1, -1}:
        return 1 if a == 1 or b % 2 == 0 else -1
    bits = max(abs(a.numerator).bit_length(), a.denominator.bit_length())
    if (bits - 1) * abs(b) > MAX_BITS:
        raise Unreadable("too large")
    return Fraction(a) ** b if b < 0 else a**b


def _rational_pow(a: int | Fraction, b: Fraction) -> Value:
    p, q = b.numerator, b.denominator
    sign = 1
    if a < 0:
        if q % 2 == 0:
            if q == 2:
                root = _rational_pow(-a, Fraction(1, 2))
                return _int_or_mp_pow(context().mpc(0, 1) * _mp(root), p)
            return context().exp(context().log(_mp(a)) * _mp(b))
        sign = -1 if p % 2 else 1
        a = -a
    top, bottom = _iroot(a.numerator, q), _iroot(a.denominator, q)
    if top is not None and bottom is not None:
        return sign * Fraction(_int_pow(Fraction(top, bottom), p))
    ctx = context()
    exponent = ctx.log(_mp(a)) * _mp(b)
    _check_log(abs(exponent))
    if q == 2 and abs(p) < 64:
        return sign * ctx.sqrt(_mp(a)) ** p
    return sign * ctx.exp(exponent)


def _int_or_mp_pow(a: Value, p: int) -> Value:
    if abs(p) > 1_000:
        raise Unreadable("too large")
    return a**p


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


def _root(a: Value, n: Value) -> Value:
    if not isinstance(n, int) or n == 0:
        if isinstance(n, Fraction) or not _is_zero(n):
            return _pow(a, _div(1, n))
        raise Unreadable("no such root")
    return _pow(a, Fraction(1, n))


def _sqrt(a: Value) -> Value:
    if _exact(a):
        return 0 if a == 0 else _rational_pow(a, Fraction(1, 2))
    return context().sqrt(a)


def _exp(a: Value) -> Value:
    if _is_zero(a):
        return 1
    x = _mp(a)
    _check_log(abs(context().re(x)))
    _check_angle(context().im(x))
    return context().exp(x)


def _ln(a: Value) -> Value:
    if _is_zero(a):
        raise Unreadable("logarithm of zero")
    ctx = context()
    if _exact(a):
        if a == 1:
            return 0
        if a > 0:
            # Exact numbers may be larger than a computed value may be.
            return ctx.log(ctx.mpf(a.numerator)) - ctx.log(ctx.mpf(a.denominator))
    x = _mp(a)
    out = ctx.log(x)
    return 0 if abs(out) <= ctx.mpf(10) ** -_NOISE else out


def _log10(a: Value) -> Value:
    return _div(_ln(a), _ln(10))


def _log(a: Value, base: Value = 10) -> Value:
    return _div(_ln(a), _ln(base))


def _angle(a: Value) -> Any:
    x = _mp(a)
    _check_angle(context().re(x))
    _check_log(abs(context().im(x)))
    return x


def _trig(name: str) -> Callable[[Value], Value]:
    def f(a: Value) -> Value:
        ctx = context()
        out = getattr(ctx, name)(_angle(a))
        return 0 if abs(out) <= ctx.mpf(10) ** -_NOISE * max(1, abs(_mp(a))) and not _tiny(a) else out

    return f


def _tiny(a: Value) -> bool:
    """So small that a small sine is its value, not rounding error."""
    return bool(abs(_mp(a)) < 0.001)


_sin, _cos = _trig("sin"), _trig("cos")


def _inverse(name: str) -> Callable[[Value], Value]:
    def f(a: Value) -> Value:
        return _zero(getattr(context(), name)(_mp(a)))

    return f


def _hyperbolic(name: str) -> Callable[[Value], Value]:
    def f(a: Value) -> Value:
        x = _mp(a)
        _check_log(abs(context().re(x)))
        _check_angle(context().im(x))
        return _zero(getattr(context(), name)(x))

    return f


def _factorial(a: Value) -> Value:
    if isinstance(a, int):
        if not 0 <= a <= MAX_FACTORIAL:
            raise Unreadable("no such factorial")
        return math.factorial(a)
    x = _mp(a)
    _only_at_base_precision()
    if abs(x) > 500:
        raise Unreadable("too large")
    return context().gamma(x + 1)


def _only_at_base_precision() -> None:
    """Gamma and zeta take a second at 1,000 digits."""
    if _work.factor > 1:
        raise Unreadable("too many digits")


def _gamma(a: Value) -> Value:
    return _factorial(_add2(a, -1))


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
            out = _bounded(_div(_mul(out, _add2(n, -j)), j + 1))
        return out
    return _div(_factorial(n), _mul(_factorial(k), _factorial(_add2(n, _neg(k)))))


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
        if not all(_exact(a) for a in args):
            raise Unreadable("not comparable")
        return pick(args)

    return f


def _abs(a: Value) -> Value:
    return abs(a)


def _degrees(a: Value) -> Value:
    return _mul(_mul(a, Fraction(1, 180)), context().pi * 1)


def _zeta(a: Value) -> Value:
    if not _exact(a) or not 1 < a <= 60:
        raise Unreadable("no such zeta value")
    _only_at_base_precision()
    return context().zeta(_mp(a))


def _unknown(name: str, args: list[Value]) -> Fraction:
    """A function that nobody defined has a value of its own at each argument."""
    text = name + "(" + ";".join(digits(a) for a in args)
    seed = int.from_bytes(blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).digest(), "big")
    return Fraction(seed % 999_983 + 100_003, 99_991)


def _reciprocal(f: Callable[[Value], Value], g: Callable[[Value], Value]) -> Callable[[Value], Value]:
    return lambda a: _div(g(a), f(a))


def _one(_: Value) -> Value:
    return 1


# Steps beside those for the size of the result.
_COSTS = dict.fromkeys(
    words("exp ln lg log sin cos tan cot sec csc sinh cosh tanh coth sech csch sqrt root cbrt pow"), 30
) | {
    **dict.fromkeys(words("arcsin arccos arctan arccot arcsec arccsc arsinh arcosh artanh factorial Gamma binom"), 60),
    "zeta": 400,
}

_RULES: dict[str, tuple[int, Callable[..., Value]]] = {
    "add": (0, _add),
    "mul": (0, _product),
    "div": (2, _div),
    "neg": (1, _neg),
    "pow": (2, _pow),
    "root": (2, _root),
    "sqrt": (1, _sqrt),
    "cbrt": (1, lambda a: _root(a, 3)),
    "abs": (1, _abs),
    "mod": (2, _mod),
    "deg": (1, _degrees),
    "factorial": (1, _factorial),
    "factorial2": (1, _factorial2),
    "Gamma": (1, _gamma),
    "zeta": (1, _zeta),
    "binom": (2, _binom),
    "floor": (1, _round_to("floor")),
    "ceil": (1, _round_to("ceil")),
    "gcd": (0, lambda *a: math.gcd(*_integers(a))),
    "lcm": (0, lambda *a: math.lcm(*_integers(a))),
    "max": (0, _extreme(max)),
    "min": (0, _extreme(min)),
    "exp": (1, _exp),
    "ln": (1, _ln),
    "lg": (1, _log10),
    "log": (0, _log),
    "sin": (1, _sin),
    "cos": (1, _cos),
    "tan": (1, _reciprocal(_cos, _sin)),
    "cot": (1, _reciprocal(_sin, _cos)),
    "sec": (1, _reciprocal(_cos, _one)),
    "csc": (1, _reciprocal(_sin, _one)),
    "arcsin": (1, _inverse("asin")),
    "arccos": (1, _inverse("acos")),
    "arctan": (1, _inverse("atan")),
    "arccot": (1, _inverse("acot")),
    "arcsec": (1, _inverse("asec")),
    "arccsc": (1, _inverse("acsc")),
    "arsinh": (1, _inverse("asinh")),
    "arcosh": (1, _inverse("acosh")),
    "artanh": (1, _inverse("atanh")),
    "sinh": (1, _hyperbolic("sinh")),
    "cosh": (1, _hyperbolic("cosh")),
    "tanh": (1, _hyperbolic("tanh")),
    "coth": (1, lambda a: _div(1, _hyperbolic("tanh")(a))),
    "sech": (1, lambda a: _div(1, _hyperbolic("cosh")(a))),
    "csch": (1, lambda a: _div(1, _hyperbolic("sinh")(a))),
}
