"""Readers of everything that is more than one expression: lists, tuples, sets, intervals, matrices, quantities."""

from __future__ import annotations

from functools import partial
from itertools import product

from ..algebra.fingerprint import expression_key
from ..algebra.numbers import charge
from ..algebra.parse import parse
from ..algebra.tokens import Token, closes_at_end, split
from ..algebra.tree import Number, Op, evaluate, variables
from ..hashes import short
from ..kinds import Unreadable
from ..rules import Rules
from .intervals import INFINITE, Endpoint, RealInterval, endpoint, infinity, interval, union, without
from .lists import MAX_ITEMS, items_of, read_list
from .names import name_of
from .prose import text_value
from .quantities import read_base, read_fixed, read_ratio
from .reading import Reader, Reading, encoded, interval_reading, listing, tagged
from .relations import RELATIONS, read_relation
from .units import split_unit

MAX_CELLS = 400
MAX_SIGNS = 4
MAX_DEPTH = 12
_CONNECTIVES = (",", ";", "and", "or", "iff", "row", "land", "lor")
_MATRICES = frozenset({"pmatrix", "bmatrix", "matrix", "Bmatrix", "smallmatrix", "array", "vmatrix", "Vmatrix"})
_IF = frozenset({"if", "for", "when", "where"})
_ROWS = frozenset({"cases", "aligned", "align", "align*", "gathered", "gather*"})


def read(tokens: list[Token], rules: Rules, depth: int = 0) -> Reading:
    """What the tokens are. Raises Unreadable where they are nothing that this room knows."""
    if depth > MAX_DEPTH:
        raise Unreadable("too deep")
    charge(4)
    inner = partial(read, rules=rules, depth=depth + 1)
    tokens = _unwrapped(tokens)
    if all(t.kind == "text" for t in tokens):
        return _words(tokens)
    if tokens[0].text.startswith("begin ") and closes_at_end(tokens):
        return _environment(tokens, 0, rules, inner)
    tokens = _minus_set(_rounded(tokens))
    parts, connectives = split(tokens, _CONNECTIVES)
    if connectives:
        return read_list(parts, connectives, rules, inner)
    if any(t.text in {"+-", "-+"} for t in tokens) and not (tokens[0].text == "\\{" and closes_at_end(tokens)):
        return _signs(tokens, inner)
    for reader in (_related, _set_algebra, _bracketed, read_fixed, read_base, read_ratio):
        if (found := reader(tokens, rules, inner)) is not None:
            return found
    return _quantity(tokens, rules, inner)


def _unwrapped(tokens: list[Token]) -> list[Token]:
    """Without braces around the whole, which only LaTeX sees, and without `...` alone at the end of nothing."""
    while len(tokens) > 1 and tokens[0].text == "{" and closes_at_end(tokens):
        tokens = tokens[1:-1]
    return tokens


def _rounded(tokens: list[Token]) -> list[Token]:
    """`]1,2[` as `(1,2)` and `<1,2>` as a vector, where that is what the ends say."""
    first, last = tokens[0].text, tokens[-1].text
    if len(tokens) < 5:
        return tokens
    if first == "<" and last == ">":
        return [Token("op", "langle"), *tokens[1:-1], Token("op", "rangle")]
    if (first == "]" and last in "[])") or (last == "[" and first in "(["):
        left = Token("op", "(" if first == "]" else first)
        return [left, *tokens[1:-1], Token("op", ")" if last == "[" else last)]
    return tokens


def _related(tokens: list[Token], rules: Rules, read: Reader) -> Reading | None:
    """Equations and inequalities, also joined by the sign of union."""
    if not split(tokens, RELATIONS)[1]:
        return None
    parts, cups = split(tokens, ("cup",))
    if cups and all(split(p, RELATIONS)[1] for p in parts):
        return read_list(parts, ["or"] * len(cups), rules, read)
    return read_relation(tokens, rules, read)


def _minus_set(tokens: list[Token]) -> list[Token]:
    """`R - {1}` as a difference of sets."""
    places = [n for n in range(1, len(tokens) - 1) if tokens[n].text == "-" and tokens[n + 1].text == "\\{"]
    return [Token("op", "setminus") if n in places and tokens[n - 1].kind == "set" else t for n, t in enumerate(tokens)]


def _words(tokens: list[Token]) -> Reading:
    if not tokens:
        raise Unreadable("nothing")
    return Reading("text", text_value(" ".join(t.text for t in tokens)))


def _environment(tokens: list[Token], at: int, rules: Rules, read: Reader) -> Reading:
    """An environment from `at` to the end: a matrix, with the factor before it, cases, or rows that are a list."""
    name = tokens[at].text.removeprefix("begin ")
    if tokens[-1].text != f"end {name}":
        raise Unreadable("an environment that another one ends")
    body = tokens[at + 1 : -1]
    if name == "array" and body and body[0].text == "{":  # its columns
        body = body[1 + next((n for n, t in enumerate(body) if t.text == "}"), len(body)) :]
    rows = [row for row in (split(row, ["&"])[0] for row in split(body, ["row"])[0]) if any(row)]
    if name in _MATRICES:
        return _matrix(name, rows, tokens[: at - (at > 0 and tokens[at - 1].text == "*")], read)
    if at or name not in _ROWS:
        raise Unreadable("an unknown environment, or a multiple of one")
    if name == "cases" and (pieces := _piecewise(rows)) is not None:
        said = [f"{encoded(read(value))} if {encoded(read(condition))}" for value, condition in pieces]
        return Reading("structured", short("cases[" + ";".join(sorted(said)) + "]"))
    lines = [[t for cell in row for t in cell] for row in rows]
    lines = [line[:-1] if line[-1].text == "," else line for line in lines]
    return read_list(lines, ["and"] * (len(lines) - 1), rules, read)


def _piecewise(rows: list[list[list[Token]]]) -> list[tuple[list[Token], list[Token]]] | None:
    """The values and the conditions of `x & x > 0 \\\\ -x & x < 0`; None where `&` only aligns the rows."""
    if any(len(row) != 2 or not all(row) or row[0][-1].text in RELATIONS for row in rows):
        return None
    if any(row[1][0].kind == "op" and row[1][0].text in RELATIONS for row in rows):
        return None
    pairs = [(_trimmed(value), _trimmed(condition)) for value, condition in rows]
    return pairs if all(v and c for v, c in pairs) else None


def _trimmed(part: list[Token]) -> list[Token]:
    """Without the comma at the end and the "if" at the start."""
    part = part[:-1] if part[-1].text == "," else part
    return part[1:] if part and part[0].text.lower() in _IF else part


def _matrix(name: str, rows: list[list[list[Token]]], factor: list[Token], read: Reader) -> Reading:
    if len({len(row) for row in rows}) != 1 or len(rows) * len(rows[0]) > MAX_CELLS:
        raise Unreadable("no matrix")
    if factor:
        rows = [[[*factor, Token("op", "("), *cell, Token("op", ")")] for cell in row] for row in rows]
    text = "/".join(",".join(encoded(read(cell)) for cell in row) for row in rows)
    return Reading("structured", short(("det" if name in {"vmatrix", "Vmatrix"} else "matrix") + f"[{text}]"))


def _signs(tokens: list[Token], read: Reader) -> Reading:
    """Both signs of every \\pm; \\mp is the opposite of the \\pm beside it."""
    places = [n for n, t in enumerate(tokens) if t.text in {"+-", "-+"}]
    if len(places) > MAX_SIGNS:
        raise Unreadable("too many signs")
    linked = any(tokens[n].text == "-+" for n in places)
    values: list[Reading] = []
    for signs in [("+", "-"), ("-", "+")] if linked else product("+-", repeat=len(places)):
        chosen = list(tokens)
        for k, n in enumerate(places):
            sign = signs[tokens[n].text == "-+"] if linked else signs[-1 - k]
            chosen[n] = Token("op", sign, tokens[n].space)
        values.append(read(chosen))
    if len({encoded(v) for v in values}) == 1:
        return values[0]
    names = {frozenset(t for t in v.tags if t.startswith("name=")) for v in values}
    name = names.pop() if len(names) == 1 else frozenset()
    bare = [Reading(v.kind, v.value, v.tags - name) for v in values]
    return Reading("structured", listing(bare, ordered=False, distinct=True), name, items=tuple(bare))


def _set_algebra(tokens: list[Token], rules: Rules, read: Reader) -> Reading | None:
    parts, operators = split(tokens, ("cup", "setminus"))
    if not operators:
        return None
    pieces = _pieces(read(parts[0]))
    for operator, part in zip(operators, parts[1:], strict=True):
        other = _pieces(read(part))
        if operator == "cup":
            pieces = union([*pieces, *other])
        elif all(p.point for p in other):
            pieces = without(pieces, [p.start.at for p in other])
        else:
            raise Unreadable("a difference of intervals")
    return interval_reading(pieces)


def _pieces(r: Reading) -> list[RealInterval]:
    if r.pieces is None:
        raise Unreadable("not a set of reals")
    return list(r.pieces)


def _bracketed(tokens: list[Token], rules: Rules, read: Reader) -> Reading | None:
    opener, closer = tokens[0].text, tokens[-1].text
    if tokens[0].kind != "op" or len(tokens) < 2 or not closes_at_end(tokens):
        return None
    body = tokens[1:-1]
    if opener == "\\{" and closer == "\\}":
        return _set(body, rules, read)
    if opener not in {"(", "[", "langle"}:
        return None
    if body and body[0].text.startswith("begin ") and body[-1].text.startswith("end "):
        return read(body)
    if len(parts := _items(body)) < 2:
        if opener == "[" and closer == "]":
            inner = read(body)
            if inner.kind == "exact" and not inner.tags:
                return tagged(inner, "name=[]")  # the only item of a list: 11 in [11]
            return Reading("structured", short(f"[{encoded(inner)}]"))
        if opener == "(" and any(
            t.text in RELATIONS or t.text in {"cup", "setminus", "text"} or t.kind == "text" for t in body
        ):
            return read(body)
        return None
    return _tuple(opener, closer, parts, rules, read)


def _items(body: list[Token]) -> list[list[Token]]:
    """What stands between the commas of a bracket."""
    parts, commas = split(body, [",", ";"])
    if len(parts) > MAX_ITEMS or (commas and not all(parts)):
        raise Unreadable("no items, or too many")
    return parts


def _tuple(opener: str, closer: str, parts: list[list[Token]], rules: Rules, read: Reader) -> Reading:
    ends = [_end(p, rules) for p in parts] if len(parts) == 2 and opener in "([" else [None]
    low, high = ends[0], ends[-1]
    pieces: tuple[RealInterval, ...] | None = None
    if low is not None and high is not None:
        pieces = tuple(union([interval(low, high, closed=opener + closer)]))
        if opener + closer in {"[)", "(]"} or (pieces and not {low, high}.isdisjoint(INFINITE)):
            return interval_reading(pieces)
    items = tuple(read(p) for p in parts)
    inner = ";".join(encoded(r) for r in items)
    left, right = ("<", ">") if opener == "langle" else (opener, closer)
    return Reading("structured", short(f"{left}{inner}{right}"), pieces=pieces, items=items)


def _end(tokens: list[Token], rules: Rules) -> Endpoint | None:
    if end := infinity(tokens):
        return end
    try:
        node = parse(tokens)
        return None if variables(node) else endpoint(evaluate(node, {}), rules.significant)
    except Unreadable:
        return None


def _set(body: list[Token], rules: Rules, read: Reader) -> Reading:
    if not body:
        return Reading("structured", "{}", pieces=())
    if len(split(body, ["|", ":"])[1]) == 1:
        return _set_builder(body, rules, read)
    parts = _items(body)
    items = [r for p in parts for r in items_of(p, read(p))]
    ends = [_end(p, rules) for p in parts]
    points = [e for e in ends if e is not None]
    pieces = tuple(union([interval(e, e, closed="[]") for e in points])) if len(points) == len(ends) else None
    ordered = any(t.text == "..." for t in body)
    return Reading("structured", listing(items, ordered=ordered, distinct=True), pieces=pieces)


def _set_builder(body: list[Token], rules: Rules, read: Reader) -> Reading:
    parts, _ = split(body, ["|", ":"])
    inner = read(parts[1])
    if inner.pieces is None:
        raise Unreadable("a set by a property")
    head = split(parts[0], ["in"])[0]
    name = name_of(head[0])
    if name is None or inner.tags - {"open"} != {"name=" + name}:
        raise Unreadable("a set of something else")
    domain = "".join(t.text for t in head[1]) if len(head) == 2 else ""
    if domain not in {"", "R"}:  # the integers above 5 are no interval
        return Reading("structured", short(f"{{{domain}:{inner.value}}}"))
    return Reading(inner.kind, inner.value, inner.tags - {"name=" + name}, inner.pieces)


def _quantity(tokens: list[Token], rules: Rules, read: Reader) -> Reading:
    """A number with a unit, a percentage, an amount of money, a multiple of a matrix, or a plain expression."""
    at = next((n for n, t in enumerate(tokens) if t.text.startswith("begin ")), None)
    if at is not None:
        if not at or not closes_at_end(tokens[at:]):
            raise Unreadable("an environment inside an expression")
        return _environment(tokens, at, rules, read)
    found = split_unit(tokens)
    if found is None:
        return Reading(*expression_key(parse(tokens), rules.significant))
    head, scale, unit = found
    node = parse(head)
    if scale != 1:
        node = Op("mul", (node, Number(scale)))
    if unit == "%" and rules.percent == "fraction":
        return Reading(*expression_key(Op("div", (node, Number(100))), rules.significant))
    return Reading(*expression_key(node, rules.significant), frozenset({"unit=" + unit} if unit else ()))
