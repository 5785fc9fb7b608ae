"""Equations and inequalities: solved where they are linear or quadratic, else compared up to a factor.

A name on one side of an equals sign is x, x_1, f(x), AB, P(X > 2); the group rule may leave it out.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from itertools import pairwise
from types import MappingProxyType

from ..._pattern import pattern
from ..algebra.fingerprint import POINTS, constant_key, expression_key, point, values_at, values_key
from ..algebra.numbers import Value, as_fraction, charge, digits, real
from ..algebra.parse import parse
from ..algebra.tokens import Token, spell, split
from ..algebra.tree import CONSTANTS, Node, Op, evaluate, tried, variables
from ..hashes import short
from ..kinds import Unreadable
from ..rules import Rules
from .intervals import REALS, RealInterval, endpoint, infinity, intersect, interval, union, without
from .reading import Reader, Reading, encoded, interval_reading, listing, tagged
from .units import split_unit

RELATIONS = ("=", "~", "<", ">", "<=", ">=", "!=", "in")
_FLIPPED = {"<": ">", ">": "<", "<=": ">=", ">=": "<="}
_PREFERRED = ("z", "y", "x")  # a line or a plane is solved for the last coordinate that it determines
Zeros = tuple[list[Value], bool]
_PROBES = (Fraction(0), Fraction(1), Fraction(-1), Fraction(7, 3), Fraction(-19, 5))
_NOISE = 40  # digits below the largest value at which a coefficient is rounding error
_DERIVATIVE = pattern(r"frac\{(d[\^0-9]*+[A-Za-z]*+)\}\{(d[A-Za-z][\^0-9]*+)\}")
_QUOTIENT = pattern(r"frac\{([a-w]|[A-Z]{1,2})\}\{([a-w]|[A-Z]{1,2})\}")  # of two names, not of coordinates
_SEGMENTS = frozenset(
    {"\\angle", "\\triangle", "\\vec", "\\hat", "\\bar", "\\overrightarrow", "\\Pr", "overline", "|", "["}
)
_NAME_OPS = frozenset({"_", "'", "(", ")", "{", "}", ",", "|", "[", "]", "overline"})
# What a letter may be followed by, one character a token: marks, the sign of an inverse, arguments or an event.
_KINDS = {"let": "a", "num": "0", "text": "t", "word": "w", "fn": "f", "cmd": "c", "set": "s"}
_LETTER = pattern(
    r"a(?:'|_(?:\{(?:[^{}]|\{[^{}]*+\})*+\}|[^{]))*+(?:\^\{-1\}(?=.))?(?:\((?:[a0t1,]*+|(?P<event>[a0t1,=<>|]*+))\))?"
)


def read_relation(tokens: list[Token], rules: Rules, read: Reader) -> Reading:
    parts, ops = split(tokens, RELATIONS)
    if set(ops) <= {"=", "~"}:
        if not parts[0] and len(parts) == 2:
            return read(parts[1])
        try:
            return _equation(parts, ops, rules, read)
        except Unreadable:
            stated = _last_side(parts, ops, rules, read)
            if stated is None:
                raise
            return stated
    if ops == ["in"]:
        return _membership(parts, rules, read)
    if ops == ["!="]:
        return _excluded(parts, rules)
    if set(ops) <= set(_FLIPPED):
        return _inequalities(parts, ops, rules)
    raise Unreadable("a mixture of relations")


def _equation(parts: list[list[Token]], ops: list[str], rules: Rules, read: Reader) -> Reading:
    if not all(parts):
        raise Unreadable("a side is missing")
    name = name_of(parts[0])
    if len(parts) > 2:
        names = [p[0].text for p in parts[:-1] if len(p) == 1 and p[0].kind == "let"]
        if len(parts) - 1 == len(names) == len(set(names)):  # m = n = 1
            return assignments(names, [read(parts[-1])] * len(names))
        sides = [read(p) for p in parts[1 if name else 0 :]]
        exact = [r for r, op in zip(sides, ["=", *ops[1:]] if name else ["=", *ops], strict=True) if op == "="]
        if len({encoded(r) for r in exact}) != 1:
            raise Unreadable("sides that differ")
        return tagged(exact[0], "name=" + name) if name else exact[0]
    left, right = parts
    if name is None and (flipped := name_of(right)) is not None:
        name, left, right = flipped, right, left
    if ops == ["~"] and name is None:
        return read(left)
    if named := _coordinates(left):
        value = read(right)
        if value.items is None or len(value.items) != len(named):
            return tagged(value, "name=(" + ",".join(named) + ")")
        return assignments(named, value.items)
    if name is not None and not _is_plane_curve(left, right):
        return tagged(read(right), "name=" + name)
    return _implicit(parse(left), parse(right), rules)


def _last_side(parts: list[list[Token]], ops: list[str], rules: Rules, read: Reader) -> Reading | None:
    """The value at the end of a chain, `6 + 3 + n = 9 + n = 10`, and of `E[k] = 100`, whose left side is its name.

    None where the first side is a value of its own: 2 = 3 has none.
    """
    if set(ops) != {"="} or not all(parts) or not _is_value(parts[-1]) or _is_value(parts[0]):
        return None
    value = read(parts[-1])
    name = name_of(parts[0]) or (short(spell(parts[0])) if len(parts) == 2 else None)
    return value if name is None else tagged(value, "name=" + name)


def _is_value(tokens: list[Token]) -> bool:
    """Whether a side holds a number, a unit at most, and no variable."""
    found = split_unit(tokens)
    head = tokens if found is None else found[0]
    numbers = [t.kind == "num" or t.text in CONSTANTS for t in head]
    return any(numbers) and all(n or t.kind in {"fn", "op"} for n, t in zip(numbers, head, strict=True))


def _coordinates(tokens: Sequence[Token]) -> list[str]:
    """The names of `(x, y)`."""
    if len(tokens) < 5 or tokens[0].text != "(" or tokens[-1].text != ")":
        return []
    parts = split(tokens[1:-1], [","])[0]
    names = [n for p in parts if (n := name_of(p)) is not None]
    return names if 1 < len(parts) == len(set(names)) else []


def assignments(names: Sequence[str], values: Sequence[Reading]) -> Reading:
    """`x = 1, y = 2` in the order of the names: a tuple with their names as its tag."""
    pairs = sorted(zip(names, values, strict=True), key=lambda p: p[0])
    items = tuple(v for _, v in pairs)
    value = short("(" + ";".join(encoded(v) for v in items) + ")")
    return Reading("structured", value, frozenset({"name=(" + ",".join(n for n, _ in pairs) + ")"}), items=items)


def _is_plane_curve(left: Sequence[Token], right: Sequence[Token]) -> bool:
    """`y = 2x + 1`: an equation between coordinates; and `x = x^2 - 2`, which has no solved side."""
    here = {t.text for t in left if t.kind == "let"}
    if len(left) != 1 or not here:
        return False
    there = {c for t in right if t.kind in {"let", "word"} for c in ([t.text] if t.kind == "let" else t.text)}
    return bool(here & there) or (here <= set(_PREFERRED) and bool(there & set(_PREFERRED)))


def _implicit(left: Node, right: Node, rules: Rules) -> Reading:
    """`L = R` with variables on both sides: solved for a variable in which it is linear, else L - R up to a factor."""
    difference = _minus(left, right)
    names = sorted(variables(difference))
    if not names:
        if expression_key(difference) != ("exact", "0"):
            raise Unreadable("a false equation")
        if left == right:
            raise Unreadable("an equation that says nothing")  # 1 = 1 is not x = 1
        return Reading(*expression_key(left, rules.significant))
    if (stated := _stated(left, right, names, rules) or _stated(right, left, names, rules)) is not None:
        return stated
    for name in names if len(names) == 1 else [n for n in _PREFERRED if n in names]:
        sides = [b for a, b in ((left, right), (right, left)) if a == name and name not in variables(b)]
        solved = values_at(sides[0]) if sides else _solved(difference, name, names)
        # A coordinate that does not depend on the others comes from a product or an unknown function, not from a line.
        if solved is not None and (len(names) == 1 or len({digits(v) for v in solved}) > 1):
            kind, value = values_key(solved, rules.significant)
            return Reading(kind, value, frozenset({"name=" + name}))
    if len(names) == 1 and (found := _zeros(difference, names[0])) is not None:
        zeros, tags = [Reading(*constant_key(v, rules.significant)) for v in found[0]], frozenset({"name=" + names[0]})
        if zeros[0] == zeros[1]:
            return tagged(zeros[0], *tags)  # a double one is one solution
        return Reading("structured", listing(zeros, ordered=False, distinct=True), tags, items=tuple(zeros))
    return Reading("structured", "eq:" + short(_ratios(difference, names, signed=False)))


def _minus(left: Node, right: Node) -> Node:
    return Op("add", (left, Op("neg", (right,))))


def _stated(left: Node, right: Node, names: Sequence[str], rules: Rules) -> Reading | None:
    """`a + b = 5`, `V/\\pi = 75`: the value of an expression, which is no equation to solve and no curve."""
    # V and E[k] are quantities, of which one speaks; x is an unknown, for which one solves.
    spoken = len(names) > 1 or names[0].isupper() or (isinstance(left, Op) and left.name.startswith("call "))
    if variables(right) or set(names) <= set(_PREFERRED) or not spoken:
        return None
    kind, value = expression_key(right, rules.significant)
    return None if value == "0" else Reading(kind, value, frozenset({"name=" + expression_key(left)[1]}))


def _points(names: Sequence[str]) -> list[dict[str, Value]]:
    return [{name: point(name, j) for name in names} for j in range(POINTS)]


def _solved(difference: Node, name: str, names: Sequence[str]) -> list[Value] | None:
    """The values of `name` at the points of the other variables, where the equation is linear in it."""
    others = [n for n in names if n != name]
    solved: list[Value] = []
    for env in _points(others) if others else [{}]:
        found = _zeros(difference, name, env)
        if found is None or len(found[0]) > 1:
            return None
        solved += found[0]
    return solved


def _zeros(difference: Node, name: str, env: Mapping[str, Value] = MappingProxyType({})) -> Zeros | None:
    """The zeros of a function of `name`, in order, and whether it ends above zero; None where it is no polynomial.

    It is one if it is linear, or quadratic with rational coefficients. The two zeros may be one, or no real ones.
    """
    charge(30)
    values = [tried(difference, {**env, name: probe}) for probe in _PROBES]
    if any(v is None or hasattr(v, "_mpc_") for v in values):
        return None
    rational = all(isinstance(v, int | Fraction) for v in values)
    at = [as_fraction(v) for v in values]
    noise = 0 if rational else max(map(abs, at)) / 10**_NOISE
    a, b, c = (at[1] + at[2]) / 2 - at[0], (at[1] - at[2]) / 2, at[0]
    if abs(a) <= noise:
        a = Fraction(0)
    if any(abs(a * x * x + b * x + c - v) > noise for x, v in zip(_PROBES, at, strict=True)):
        return None
    if not a and abs(b) > noise:
        return [-c / b if rational else real(-c / b)], b > 0
    if not a or not rational:
        return None
    spread, middle = Op("sqrt", ((b * b / 4 - a * c) / (a * a),)), -b / (2 * a)
    return [evaluate(Op("add", (middle, side)), {}) for side in (Op("neg", (spread,)), spread)], a > 0


def _ratios(node: Node, names: Sequence[str], *, signed: bool) -> str:
    """The values at the points up to one factor (up to a positive one where `signed`)."""
    values = [evaluate(node, env) for env in _points(names)]
    if values[0] == 0 or any(hasattr(v, "_mpc_") for v in values):
        raise Unreadable("no scale, or not real everywhere")
    first, *others = map(as_fraction, values)
    head = ("+" if first > 0 else "-") if signed else ""
    return head + ";".join(digits(v / first) for v in others)


def _membership(parts: list[list[Token]], rules: Rules, read: Reader) -> Reading:
    if (names := _coordinates(parts[0])) and parts[1]:
        return tagged(read(parts[1]), "name=(" + ",".join(names) + ")")
    name = name_of(parts[0])
    if name is None or not parts[1]:
        raise Unreadable("a membership without a name")
    inner = read(parts[1])
    if inner.items is not None and len(inner.items) == 2 and inner.value.startswith("("):
        items = inner.items if inner.pieces is None else None  # with numbers for its ends, an interval and no point
        inner = inner._replace(tags=inner.tags | {"open"}, items=items)
    return tagged(inner, "name=" + name)


def _excluded(parts: list[list[Token]], rules: Rules) -> Reading:
    if name_of(parts[0]) is None:
        parts.reverse()  # 1 is not x
    name = name_of(parts[0])
    if name is None:
        raise Unreadable("an inequality without a name")
    points = [endpoint(evaluate(parse(p), {}), rules.significant) for p in split(parts[1], [","])[0]]
    return tagged(interval_reading(without([REALS], points)), "name=" + name)


def _inequalities(parts: list[list[Token]], ops: list[str], rules: Rules) -> Reading:
    sides = [None if infinity(p) else parse(p) for p in parts]  # an infinite one bounds nothing
    names = sorted(set().union(*(variables(s) for s in sides if s is not None)))
    links = [
        (left, op, right)
        for left, op, right in zip(sides[:-1], ops, sides[1:], strict=True)
        if left is not None and right is not None
    ]
    if not names or (len(names) > 1 and None in sides):
        raise Unreadable("an inequality of numbers, or an infinite bound")
    if len(names) == 1:
        pieces = [REALS]
        for link in links:
            solutions = _solutions(*link, names[0], rules)
            if solutions is None:
                break
            pieces = intersect(pieces, solutions)
        else:
            return tagged(interval_reading(pieces), "name=" + names[0])
    return Reading("structured", short("ineq:" + "&".join(sorted(_curved(*link, names) for link in links))))


def _solutions(left: Node, op: str, right: Node, name: str, rules: Rules) -> list[RealInterval] | None:
    """The solutions of an inequality that is linear or quadratic in `name`, or bounds one absolute value."""
    if isinstance(right, Op) and right.name == "abs":
        left, op, right = right, _FLIPPED[op], left
    if isinstance(left, Op) and left.name == "abs" and not variables(right):
        first = _solutions(left.args[0], op, right, name, rules)
        second = _solutions(left.args[0], _FLIPPED[op], Op("neg", (right,)), name, rules)
        if first is None or second is None:
            return None
        return intersect(first, second) if op[0] == "<" else union([*first, *second])
    if (found := _zeros(_minus(left, right), name)) is None:
        return None
    zeros = [endpoint(zero, rules.significant) for zero in found[0] if not hasattr(zero, "_mpc_")]
    closed = "[]" if op.endswith("=") else ""
    # From the right, the function changes its sign at each zero.
    between = [*pairwise([REALS.start.at, *zeros, REALS.end.at])][::-1]
    wanted = between[0 if found[1] == (op[0] == ">") else 1 :: 2]
    pieces = [interval(*ends, closed=closed) for ends in wanted]
    return union([*pieces, *(interval(at, at, closed=closed) for at in zeros)])


def _curved(left: Node, op: str, right: Node, names: Sequence[str]) -> str:
    if op[0] == "<":
        left, right, op = right, left, _FLIPPED[op]
    return op + _ratios(_minus(left, right), names, signed=True)


def name_of(tokens: Sequence[Token]) -> str | None:
    """The name on one side of `=`: a letter with its marks, f(x), a word, a segment; None for an expression."""
    if not tokens:
        return None
    first = tokens[0]
    texts = "".join(t.text for t in tokens)
    if first.kind == "let":  # x, x_1, f'(x), f^{-1}(x), P(X > 2), AB
        shape = "".join(["1" if t.text == "1" else _KINDS.get(t.kind) or t.text[0] for t in tokens])
        m = _LETTER.fullmatch(shape)
        if m and (m["event"] is None or texts[0].isupper()):
            return texts.replace("{", "").replace("}", "")
        return texts if all(t.kind == "let" and t.text.isupper() for t in tokens) else None
    if all(t.kind in {"word", "text", "let"} for t in tokens):
        if len(tokens) == 1 and first.kind == "word" and len(first.text) < 4 and first.text.islower():
            return None
        return " ".join(t.text for t in tokens) if texts.isupper() else " ".join(t.text for t in tokens).lower()
    if first.text == "|" and not (texts[1:3].isupper() or "vec." in texts or "overrightarrow." in texts):
        return None  # |x| = 3 has two solutions, |AB| = 3 is a length
    if first.text in _SEGMENTS and all(t.kind in {"let", "word", "cmd"} or t.text in _NAME_OPS for t in tokens):
        return texts
    m = _DERIVATIVE.fullmatch(texts) or _QUOTIENT.fullmatch(texts)
    return f"{m[1]}/{m[2]}" if m else None
