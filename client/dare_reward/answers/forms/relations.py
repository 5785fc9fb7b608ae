"""Equations and inequalities: solved where they are linear or quadratic, else compared up to a factor."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from itertools import pairwise

from ..algebra.evaluate import evaluate
from ..algebra.fingerprint import expression_key, values_at, values_key
from ..algebra.nodes import Node, Number, Op, Variable, variables
from ..algebra.numbers import Value, as_fraction, charge, digits, real
from ..algebra.parse import parse
from ..algebra.points import POINTS, point
from ..algebra.tokens import Token, spell, split
from ..hashes import short
from ..kinds import Unreadable
from ..rules import Rules
from .intervals import (
    MINUS_INFINITY,
    PLUS_INFINITY,
    REALS,
    Endpoint,
    RealInterval,
    endpoint,
    infinity,
    intersect,
    interval,
    union,
    without,
)
from .names import name_of
from .reading import Reader, Reading, encoded, interval_reading, listing, tagged
from .units import split_unit

RELATIONS = ("=", "~", "<", ">", "<=", ">=", "!=", "in")
_FLIPPED = {"<": ">", ">": "<", "<=": ">=", ">=": "<="}
_PREFERRED = ("z", "y", "x")  # a line or a plane is solved for the last coordinate that it determines
_CONSTANTS = frozenset({"pi", "e", "i"})
_PROBES = (Fraction(0), Fraction(1), Fraction(-7, 3), Fraction(19, 5))
_NOISE = 40


def read_relation(tokens: list[Token], rules: Rules, depth: int, read: Reader) -> Reading:
    parts, ops = split(tokens, RELATIONS)
    if set(ops) <= {"=", "~"}:
        if not parts[0] and len(parts) == 2:
            return read(parts[1], rules, depth + 1)
        try:
            return _equation(parts, ops, rules, depth, read)
        except Unreadable:
            stated = _last_side(parts, ops, rules, depth, read)
            if stated is None:
                raise
            return stated
    if ops == ["in"]:
        return _membership(parts, rules, depth, read)
    if ops == ["!="]:
        return _excluded(parts, rules)
    if set(ops) <= set(_FLIPPED):
        return _inequalities(parts, ops, rules)
    raise Unreadable("a mixture of relations")


def _equation(parts: list[list[Token]], ops: list[str], rules: Rules, depth: int, read: Reader) -> Reading:
    if not all(parts):
        raise Unreadable("a side is missing")
    name = name_of(parts[0])
    if len(parts) > 2:
        if (names := _names(parts[:-1])) is not None:
            return assignments(names, [read(parts[-1], rules, depth + 1)] * len(names))
        sides = [read(p, rules, depth + 1) for p in parts[1 if name else 0 :]]
        exact = [r for r, op in zip(sides, ["=", *ops[1:]] if name else ["=", *ops], strict=True) if op == "="]
        if len({encoded(r) for r in exact}) != 1:
            raise Unreadable("sides that differ")
        return tagged(exact[0], "name=" + name) if name else exact[0]
    left, right = parts
    if name is None and (flipped := name_of(right)) is not None:
        name, left, right = flipped, right, left
    if ops == ["~"] and name is None:
        return read(left, rules, depth + 1)
    if (names := coordinates(left)) is not None:
        return _named_tuple(names, read(right, rules, depth + 1))
    if name is not None and not _is_plane_curve(left, right):
        return tagged(read(right, rules, depth + 1), "name=" + name)
    return _implicit(parse(left), parse(right), rules)


def _last_side(parts: list[list[Token]], ops: list[str], rules: Rules, depth: int, read: Reader) -> Reading | None:
    """The value at the end of a chain, `6 + 3 + n = 9 + n = 10`, and of `E[k] = 100`, whose left side is its name.

    None where the first side is a value of its own: 2 = 3 has none.
    """
    if set(ops) != {"="} or not all(parts) or not _is_value(parts[-1]) or _is_value(parts[0]):
        return None
    value = read(parts[-1], rules, depth + 1)
    name = name_of(parts[0]) or (short(spell(parts[0])) if len(parts) == 2 else None)
    return value if name is None else tagged(value, "name=" + name)


def _is_value(tokens: list[Token]) -> bool:
    """Whether a side holds a number, a unit at most, and no variable."""
    found = split_unit(tokens)
    head = tokens if found is None else found[0]
    return all(t.kind in {"num", "fn"} or t.text in _CONSTANTS or t.kind == "op" for t in head) and any(
        t.kind == "num" or t.text in _CONSTANTS for t in head
    )


def _names(parts: list[list[Token]]) -> list[str] | None:
    """The letters of `m = n = 1`."""
    names = [p[0].text for p in parts if len(p) == 1 and p[0].kind == "let"]
    return names if len(names) == len(parts) == len(set(names)) else None


def coordinates(tokens: Sequence[Token]) -> list[str] | None:
    """The names of `(x, y)`."""
    if len(tokens) < 5 or tokens[0].text != "(" or tokens[-1].text != ")":
        return None
    names = [name_of(p) for p in split(tokens[1:-1], [","])[0]]
    if len(names) < 2 or len(set(names)) != len(names):
        return None
    return [n for n in names if n is not None] if all(names) else None


def _named_tuple(names: list[str], value: Reading) -> Reading:
    if value.items is None or len(value.items) != len(names):
        return tagged(value, "name=(" + ",".join(names) + ")")
    return assignments(names, value.items)


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
    difference = Op("add", (left, Op("neg", (right,))))
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
        sides = [b for a, b in ((left, right), (right, left)) if a == Variable(name) and name not in variables(b)]
        solved = values_at(sides[0]) if sides else _solved(difference, name, names)
        # A coordinate that does not depend on the others comes from a product or an unknown function, not from a line.
        if solved is not None and (len(names) == 1 or len({digits(v) for v in solved}) > 1):
            kind, value = values_key(solved, rules.significant)
            return Reading(kind, value, frozenset({"name=" + name}))
    if len(names) == 1 and (roots := _roots(difference, names[0], rules)) is not None:
        return roots
    values = [evaluate(difference, _at(names, j)) for j in range(POINTS)]
    return Reading("structured", "eq:" + short(_ratios(values, signed=False)))


def _stated(left: Node, right: Node, names: Sequence[str], rules: Rules) -> Reading | None:
    """`a + b = 5`, `V/\\pi = 75`: the value of an expression, which is no equation to solve and no curve."""
    if variables(right) or set(names) <= set(_PREFERRED) or (len(names) == 1 and not _is_quantity(left, names[0])):
        return None
    kind, value = expression_key(right, rules.significant)
    return None if value == "0" else Reading(kind, value, frozenset({"name=" + expression_key(left)[1]}))


def _is_quantity(node: Node, name: str) -> bool:
    """V and E[k] are quantities, of which one speaks; x is an unknown, for which one solves."""
    return name.isupper() or (isinstance(node, Op) and node.name.startswith("call "))


def _at(names: Sequence[str], j: int) -> dict[str, Value]:
    return {name: point(name, j) for name in names}


def _solved(difference: Node, name: str, names: Sequence[str]) -> list[Value] | None:
    """The values of `name` at the points of the other variables, where the equation is linear in it."""
    others = [n for n in names if n != name]
    roots = [_root(difference, name, _at(others, j)) for j in range(POINTS if others else 1)]
    return None if None in roots else [r[0] for r in roots if r is not None]


def _root(difference: Node, name: str, env: Mapping[str, Value]) -> tuple[Value, bool] | None:
    """Where a linear function of `name` is zero and whether it rises; None where it bends, is constant or undefined."""
    charge(30)
    try:
        values = [evaluate(difference, {**env, name: probe}) for probe in _PROBES]
    except Unreadable:
        return None
    if any(hasattr(v, "_mpc_") for v in values):
        return None
    exact = [v if isinstance(v, int | Fraction) else as_fraction(v) for v in values]
    offset = exact[0]
    slope = exact[1] - offset
    scale = max(abs(Fraction(v)) for v in exact)
    if abs(slope) * 10**_NOISE <= scale:
        return None
    for probe, v in zip(_PROBES[2:], exact[2:], strict=True):
        if abs(offset + slope * probe - v) * 10**_NOISE > scale:
            return None
    root = -Fraction(offset) / slope
    if all(isinstance(v, int | Fraction) for v in values):
        return root, slope > 0
    return real(root), slope > 0


def _ratios(values: Sequence[Value], *, signed: bool) -> str:
    """Values up to one factor (up to a positive one where `signed`)."""
    first = values[0]
    if first == 0 or any(hasattr(v, "_mpc_") for v in values[:1]):
        raise Unreadable("no scale")
    exact = [None if hasattr(v, "_mpc_") else v if isinstance(v, int | Fraction) else as_fraction(v) for v in values]
    if any(v is None for v in exact):
        raise Unreadable("not real everywhere")
    numbers = [Fraction(v) for v in exact if v is not None]
    head = ("+" if numbers[0] > 0 else "-") if signed else ""
    return head + ";".join(digits(v / numbers[0]) for v in numbers[1:])


def _membership(parts: list[list[Token]], rules: Rules, depth: int, read: Reader) -> Reading:
    if (names := coordinates(parts[0])) is not None and parts[1]:
        return tagged(read(parts[1], rules, depth + 1), "name=(" + ",".join(names) + ")")
    name = name_of(parts[0])
    if name is None or not parts[1]:
        raise Unreadable("a membership without a name")
    inner = read(parts[1], rules, depth + 1)
    if inner.items is not None and len(inner.items) == 2 and inner.value.startswith("("):
        items = inner.items if inner.pieces is None else None  # with numbers for its ends, an interval and no point
        inner = Reading(inner.kind, inner.value, inner.tags | {"open"}, inner.pieces, items)
    return tagged(inner, "name=" + name)


def _excluded(parts: list[list[Token]], rules: Rules) -> Reading:
    if name_of(parts[0]) is None and name_of(parts[1]) is not None:
        parts = [parts[1], parts[0]]  # 1 is not x
    name = name_of(parts[0])
    if name is None:
        raise Unreadable("an inequality without a name")
    points = [_scalar_endpoint(p, rules) for p in split(parts[1], [","])[0]]
    return tagged(interval_reading(without([REALS], points)), "name=" + name)


def _scalar_endpoint(tokens: list[Token], rules: Rules) -> Endpoint:
    return endpoint(evaluate(parse(tokens), {}), rules.significant)


def _inequalities(parts: list[list[Token]], ops: list[str], rules: Rules) -> Reading:
    sides = [_side(p) for p in parts]
    nodes = [s for s in sides if not isinstance(s, Endpoint)]
    names = sorted(set().union(*(variables(n) for n in nodes)))
    if not names:
        raise Unreadable("an inequality of numbers")
    links = list(zip(sides[:-1], ops, sides[1:], strict=True))
    if len(names) == 1:
        pieces = [REALS]
        for left, op, right in links:
            solutions = _solutions(left, op, right, names[0], rules)
            if solutions is None:
                break
            pieces = intersect(pieces, solutions)
        else:
            return tagged(interval_reading(pieces), "name=" + names[0])
    values = sorted(_curved(left, op, right, names) for left, op, right in links)
    return Reading("structured", short("ineq:" + "&".join(values)))


def _side(tokens: list[Token]) -> Node | Endpoint:
    return infinity(tokens) or parse(tokens)


def _solutions(
    left: Node | Endpoint, op: str, right: Node | Endpoint, name: str, rules: Rules
) -> list[RealInterval] | None:
    """The solutions of an inequality that is linear or quadratic in `name`, or bounds one absolute value."""
    if isinstance(left, Endpoint) or isinstance(right, Endpoint):
        return [REALS]
    if isinstance(right, Op) and right.name == "abs":
        left, op, right = right, _FLIPPED[op], left
    if isinstance(left, Op) and left.name == "abs" and not variables(right):
        inside = left.args[0]
        first = _solutions(inside, op, right, name, rules)
        second = _solutions(inside, _FLIPPED[op], Op("neg", (right,)), name, rules)
        if first is None or second is None:
            return None
        return intersect(first, second) if op[0] == "<" else union([*first, *second])
    difference = Op("add", (left, Op("neg", (right,))))
    return _between_roots(difference, op, name, rules)


def _roots(difference: Node, name: str, rules: Rules) -> Reading | None:
    """Both solutions of a quadratic equation, as a list of them reads; a double one is one solution."""
    found = _coefficients(difference, name)
    if found is None:
        return None
    tags = frozenset({"name=" + name})
    ends = [expression_key(end, rules.significant) for end in _ends(*found)]
    if ends[0] == ends[1]:
        return Reading(*ends[0], tags)
    items = tuple(Reading(*end) for end in ends)
    return Reading("structured", listing(items, ordered=False, distinct=True), tags, items=items)


def _ends(a: Fraction, b: Fraction, c: Fraction) -> tuple[Node, Node]:
    """The two roots of a quadratic."""
    spread = Op("sqrt", (Number(b * b - 4 * a * c),))
    low, high = (Op("div", (Op("add", (Number(-b), side)), Number(2 * a))) for side in (Op("neg", (spread,)), spread))
    return low, high


def _coefficients(difference: Node, name: str) -> tuple[Fraction, Fraction, Fraction] | None:
    """a, b, c of a quadratic a x^2 + b x + c with rational coefficients, which a polynomial of no other degree is."""
    charge(30)
    try:
        values = [evaluate(difference, {name: probe}) for probe in (0, 1, -1, Fraction(7, 3), Fraction(-19, 5))]
    except Unreadable:
        return None
    if not all(isinstance(v, int | Fraction) for v in values):
        return None
    c, plus, minus = (Fraction(v) for v in values[:3])
    a, b = (plus + minus) / 2 - c, (plus - minus) / 2
    if a == 0 or any(
        a * x * x + b * x + c != v for x, v in ((Fraction(7, 3), values[3]), (Fraction(-19, 5), values[4]))
    ):
        return None
    return a, b, c


def _between_roots(difference: Node, op: str, name: str, rules: Rules) -> list[RealInterval] | None:
    """Where a linear or quadratic function is on the wanted side of zero: by its sign between its roots."""
    if (found := _root(difference, name, {})) is not None:
        roots, rising = [endpoint(found[0], rules.significant)], [found[1]]
    elif (quadratic := _coefficients(difference, name)) is not None:
        a, b, c = quadratic
        ends = _ends(*quadratic) if b * b >= 4 * a * c else ()
        roots = [endpoint(evaluate(end, {}), rules.significant) for end in (ends if a > 0 else ends[::-1])]
        rising = [a < 0, a > 0] if roots else [a > 0]
    else:
        return None
    cuts = [MINUS_INFINITY, *roots, PLUS_INFINITY]
    positive = [not rising[0], *rising] if roots else rising
    closed = "[]" if op.endswith("=") else ""
    wanted = [
        interval(*ends, closed=closed)
        for ends, sign in zip(pairwise(cuts), positive, strict=True)
        if sign == (op[0] == ">")
    ]
    return union([*wanted, *(interval(at, at, closed=closed) for at in roots)])


def _curved(left: Node | Endpoint, op: str, right: Node | Endpoint, names: Sequence[str]) -> str:
    if isinstance(left, Endpoint) or isinstance(right, Endpoint):
        raise Unreadable("an infinite bound")
    if op[0] == "<":
        left, right, op = right, left, _FLIPPED[op]
    difference = Op("add", (left, Op("neg", (right,))))
    values = [evaluate(difference, _at(names, j)) for j in range(POINTS)]
    return op + _ratios(values, signed=True)
