"""Readers of everything that is more than one expression: lists, tuples, sets, intervals, matrices, quantities."""

from __future__ import annotations

import re
from collections.abc import Sequence
from fractions import Fraction
from functools import partial, reduce
from itertools import product

from ..._pattern import pattern
from ..algebra.fingerprint import expression_key
from ..algebra.numbers import charge
from ..algebra.parse import parse
from ..algebra.tokens import Token, closes_at_end, split
from ..algebra.tree import Op, evaluate, variables
from ..hashes import short
from ..kinds import Unreadable
from ..number_words import cardinal
from ..rules import Rules
from .intervals import INFINITE, REALS, Endpoint, RealInterval, endpoint, infinity, intersect, interval, union, without
from .reading import Reader, Reading, encoded, interval_reading, listing, tagged, text_value
from .relations import RELATIONS, assignments, name_of, read_relation
from .units import split_unit

MAX_ITEMS = 500
MAX_CELLS = 400
MAX_SIGNS = 4
MAX_DEPTH = 12
_CONNECTIVES = (",", ";", "and", "or", "iff", "row", "land", "lor")
_MATRICES = frozenset({"pmatrix", "bmatrix", "matrix", "Bmatrix", "smallmatrix", "array", "vmatrix", "Vmatrix"})
_RELATED = frozenset(("op", relation) for relation in RELATIONS)
_IF = frozenset({"if", "for", "when", "where"})
_ROWS = frozenset({"cases", "aligned", "align", "align*", "gathered", "gather*"})
_NUMERAL = r"-?\d{1,64}|\d[\dA-Za-z]{1,64}"
_BASED = pattern(rf"(?:({_NUMERAL})|\(({_NUMERAL})\))(?:_[{{(]*|(?=base))(?:base)? *(?P<base>\w+)[)}}]*", re.ASCII)
_TIME = pattern(r"(?P<hour>[01]?\d|2[0-4])(?P<rest>(?::[0-5]\d){1,2})", re.ASCII)
# Sets of numbers (their names are marked "set "), the empty set, infinity, an ellipsis.
_FIXED = {end: Reading("structured", end.lstrip("+")) for end in ("oo", "+oo", "-oo", "...")}
_FIXED |= {f"set {name}": Reading("structured", f"set {name}") for name in "ZNQC"}
_FIXED |= {"empty": interval_reading([]), "set R": interval_reading([REALS])}
_POSITIVE = interval_reading([interval(Endpoint(Fraction(0), "0"), REALS.end.at)])
_FIXED |= dict.fromkeys(("set R^+", "set R^{+}", "set R_+", "set R_{+}"), _POSITIVE)


def read(tokens: list[Token], rules: Rules, depth: int = 0) -> Reading:
    """What the tokens are. Raises Unreadable where they are nothing that this room knows."""
    if depth > MAX_DEPTH:
        raise Unreadable("too deep")
    charge(4)
    inner = partial(read, rules=rules, depth=depth + 1)
    while len(tokens) > 1 and tokens[0].text == "{" and closes_at_end(tokens):
        tokens = tokens[1:-1]  # only LaTeX sees these braces
    if not tokens:
        raise Unreadable("nothing")
    if all(t.kind == "text" for t in tokens):
        return Reading("text", text_value(" ".join(t.text for t in tokens)))
    if tokens[0].text.startswith("begin ") and closes_at_end(tokens):
        return _environment(tokens, 0, rules, inner)
    tokens = _minus_set(_rounded(tokens))
    parts, connectives = split(tokens, _CONNECTIVES)
    if connectives:
        return _read_list(parts, connectives, rules, inner)
    if any(t.text in {"+-", "-+"} for t in tokens) and not (tokens[0].text == "\\{" and closes_at_end(tokens)):
        return _signs(tokens, inner)
    for reader in (_related, _set_algebra, _bracketed, _fixed, _based, _ratio):
        if (found := reader(tokens, rules, inner)) is not None:
            return found
    return _quantity(tokens, rules, inner)


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
        return _read_list(parts, ["or"] * len(cups), rules, read)
    return read_relation(tokens, rules, read)


def _minus_set(tokens: list[Token]) -> list[Token]:
    """`R - {1}` as a difference of sets."""
    signs = {n + 1 for n, t in enumerate(tokens[:-2]) if t.kind == "set" and tokens[n + 2].text == "\\{"}
    return [Token("op", "setminus") if n in signs and t.text == "-" else t for n, t in enumerate(tokens)]


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
        if len({len(row) for row in rows}) != 1 or len(rows) * len(rows[0]) > MAX_CELLS:
            raise Unreadable("no matrix")
        if factor := tokens[: at - (at > 0 and tokens[at - 1].text == "*")]:
            rows = [[[*factor, Token("op", "("), *cell, Token("op", ")")] for cell in row] for row in rows]
        text = "/".join(",".join(encoded(read(cell)) for cell in row) for row in rows)
        return Reading("structured", short(("det" if name in {"vmatrix", "Vmatrix"} else "matrix") + f"[{text}]"))
    if at or name not in _ROWS:
        raise Unreadable("an unknown environment, or a multiple of one")
    if name == "cases" and (pieces := _piecewise(rows)) is not None:
        said = [f"{encoded(read(value))} if {encoded(read(condition))}" for value, condition in pieces]
        return Reading("structured", short("cases[" + ";".join(sorted(said)) + "]"))
    lines = [[t for cell in row for t in cell] for row in rows]
    lines = [line[:-1] if line[-1].text == "," else line for line in lines]
    return _read_list(lines, ["and"] * (len(lines) - 1), rules, read)


def _piecewise(rows: list[list[list[Token]]]) -> list[tuple[list[Token], list[Token]]] | None:
    """The values and the conditions of `x & x > 0 \\\\ -x & x < 0`; None where `&` only aligns the rows."""
    if any(len(row) != 2 or not all(row) for row in rows):
        return None
    if any(value[-1].text in RELATIONS or condition[0][:2] in _RELATED for value, condition in rows):
        return None
    pairs = [(_trimmed(value), _trimmed(condition)) for value, condition in rows]
    return pairs if all(v and c for v, c in pairs) else None


def _trimmed(part: list[Token]) -> list[Token]:
    """Without the comma at the end and the "if" at the start."""
    part = part[:-1] if part[-1].text == "," else part
    return part[1:] if part and part[0].text.lower() in _IF else part


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
    names = [_names(v) for v in values]
    name = names[0] if names.count(names[0]) == len(names) else frozenset()
    bare = [Reading(v.kind, v.value, v.tags - name) for v in values]
    return Reading("structured", listing(bare, ordered=False, distinct=True), name, items=tuple(bare))


def _names(*readings: Reading) -> frozenset[str]:
    return frozenset(t for r in readings for t in r.tags if t.startswith("name="))


def _set_algebra(tokens: list[Token], rules: Rules, read: Reader) -> Reading | None:
    parts, operators = split(tokens, ("cup", "setminus"))
    if not operators:
        return None
    pieces: Sequence[RealInterval] = []
    for operator, part in zip(["cup", *operators], parts, strict=True):
        other = read(part).pieces
        if other is None:
            raise Unreadable("not a set of reals")
        if operator == "cup":
            pieces = union([*pieces, *other])
        elif all(p.point for p in other):
            pieces = without(pieces, [p.start.at for p in other])
        else:
            raise Unreadable("a difference of intervals")
    return interval_reading(pieces)


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
        if opener == "(" and any(t.kind == "text" or t.text in {*RELATIONS, "cup", "setminus", "text"} for t in body):
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
    low, high = [_end(p, rules) for p in parts] if len(parts) == 2 and opener in "([" else (None, None)
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
    items = [r for p in parts for r in _items_of(p, read(p))]
    points = [e for p in parts if (e := _end(p, rules)) is not None]
    pieces = tuple(union([interval(e, e, closed="[]") for e in points])) if len(points) == len(parts) else None
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
    return inner._replace(tags=inner.tags - {"name=" + name}, items=None)


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
    if unit == "%" and rules.percent == "fraction":
        node, unit = Op("div", (node, 100)), ""
    if scale != 1:
        node = Op("mul", (node, scale))
    return Reading(*expression_key(node, rules.significant), frozenset({"unit=" + unit} if unit else ()))


def _read_list(parts: list[list[Token]], connectives: list[str], rules: Rules, read: Reader) -> Reading:
    if groups := _alternatives(parts, connectives):
        return _bare_list([_read_list(g, [","] * (len(g) - 1), rules, read) for g in groups], rules)
    said = len(parts)
    parts = [p for p in parts if p]
    if said - len(parts) > 2:  # "2, and 3" has an empty part, "2," a last one
        raise Unreadable("separators without items")
    if len(parts) == 1:
        return read(parts[0])
    if not 0 < len(parts) <= MAX_ITEMS:
        raise Unreadable("too many items")
    first, *more = (split(p, RELATIONS)[1] for p in parts)
    if first == ["!="] and not any(more) and set(connectives) <= {",", "and", "or"}:  # x \\ne 1, 2
        return read_relation([*parts[0], *(t for p in parts[1:] for t in (Token("op", ","), *p))], rules, read)
    sides = [_named_side(p) for p in parts]
    if any(sides) and (named := _named_list(parts, sides, rules, read)) is not None:
        different = "or" in connectives and any(t.startswith("name=(") for t in named.tags)
        return named._replace(value="or" + named.value, items=None) if different else named
    readings = [r for p in parts for r in _items_of(p, read(p))]
    return _joined(readings, parts, connectives, rules)


def _joined(readings: list[Reading], parts: list[list[Token]], connectives: list[str], rules: Rules) -> Reading:
    """What the readings of the parts are together: one value said twice, solutions, a sequence or a list."""
    if {*connectives} == {"or"} and len({encoded(r) for r in readings}) == 1:
        return readings[0]  # 1/2 or 0.5
    words = {w.removeprefix("l") for w in connectives} - {",", ";", "row"}
    solutions = len(words) <= 1 and all(r.pieces is not None and r.items is None for r in readings)
    if solutions and (joined := _joined_solutions(readings, words.pop() if words else ",")) is not None:
        return joined
    if {"land", "lor", "iff"} & set(connectives):
        raise Unreadable("a formula of logic")
    if any(t.text == "..." for p in parts for t in p):
        return Reading("structured", listing(readings, ordered=True))
    listed = _bare_list(readings, rules)
    names = _names(*readings)
    if "or" in connectives and (len(names) > 1 or all(len(p) == 1 and p[0].kind == "let" for p in parts)):
        return Reading(listed.kind, "or" + listed.value)  # x > 0 or y > 0, p or q: not both
    return listed


def _named_list(
    parts: list[list[Token]], sides: list[tuple[str, list[Token]] | None], rules: Rules, read: Reader
) -> Reading | None:
    """`x = 1, y = 2`, `x = 1, x = 2` and `x = 1, 2`."""
    names = [s[0] for s in sides if s is not None]
    bare = [s[1] if s is not None else p for s, p in zip(sides, parts, strict=True)]
    if len(names) == len(parts):
        values = [read(p) for p in bare]
        if len(set(names)) == len(names):
            return assignments(names, values)
        return tagged(_bare_list(values, rules), "name=" + names[0]) if len(set(names)) == 1 else None
    before = parts[: next(n for n, s in enumerate(sides) if s is not None)]
    if len(names) > 1 or not all(split(p, RELATIONS)[1] for p in before):  # "x > 0, y = 1" is "y = 1, x > 0"
        return None
    return tagged(_bare_list([r for p in bare for r in _items_of(p, read(p))], rules), "name=" + names[0])


def _alternatives(parts: list[list[Token]], connectives: list[str]) -> list[list[list[Token]]]:
    """`x=1, y=2 or x=3, y=4`: the alternatives, where each is a list of its own."""
    if "or" not in connectives:
        return []
    groups: list[list[list[Token]]] = [[parts[0]]]
    for word, part in zip(connectives, parts[1:], strict=True):
        if word == "or":
            groups.append([part])
        elif part:
            groups[-1].append(part)
    return groups if all(len(g) > 1 and all(_named_side(p) is not None for p in g) for g in groups) else []


def _named_side(part: list[Token]) -> tuple[str, list[Token]] | None:
    sides, ops = split(part, RELATIONS)
    if ops not in (["="], ["~"]):
        return None
    name = name_of(sides[0])
    return None if name is None or not sides[1] else (name, sides[1])


def _bare_list(items: list[Reading], rules: Rules) -> Reading:
    return Reading("structured", listing(items, ordered=rules.list_order == "keep"))


def _items_of(part: list[Token], r: Reading) -> tuple[Reading, ...]:
    """Both values of a `\\pm 1` in a list."""
    return r.items if r.items is not None and any(t.text in {"+-", "-+"} for t in part) else (r,)


def _joined_solutions(readings: list[Reading], word: str) -> Reading | None:
    """`x < 1 or x > 2`, `x > 1 and x < 2`; a comma means what leaves more than nothing and less than everything."""
    names = _names(*readings)
    if len(names) > 1 or (word == "," and not all(r.tags & names for r in readings)):
        return None
    sets = [list(r.pieces or ()) for r in readings]
    both = reduce(intersect, sets)
    if word == "and" or (word == "," and both):
        return interval_reading(both, names)
    return interval_reading(union([piece for pieces in sets for piece in pieces]), names)


def _fixed(tokens: list[Token], rules: Rules, read: Reader) -> Reading | None:
    """What a few signs name as a whole."""
    return _FIXED.get("".join([f"set {t.text}" if t.kind == "set" else t.text for t in tokens[:6]]))


def _based(tokens: list[Token], rules: Rules, read: Reader) -> Reading | None:
    """`204_5`: the digits, with the base as their tag."""
    m = _BASED.fullmatch("".join([t.text for t in tokens]))
    said = m["base"].lower() if m else ""
    base = int(said[:4]) if said.isdigit() else cardinal(said, "en") or 0
    if m is None or not 1 < base < 37:
        return None
    digits, tags = m[1] or m[2], frozenset({f"unit=base {base}"})
    if digits.lstrip("-").isdigit():
        return Reading("exact", str(int(digits)), tags)
    return Reading("structured", digits.upper().lstrip("0"), tags)


def _ratio(tokens: list[Token], rules: Rules, read: Reader) -> Reading | None:
    """`3:4` is a ratio, `3:45` may be a time and is left as it is."""
    last = tokens[-1].text.lower().replace(".", "")
    half = last if last in {"am", "pm"} else ""
    tokens = tokens[:-1] if half else tokens
    parts, colons = split(tokens, [":"])
    if not colons:
        return None
    if m := _TIME.fullmatch("".join([t.text for t in tokens])):
        return Reading("structured", f"{int(m['hour'])}{m['rest']}", frozenset({"unit=" + half} if half else ()))
    terms = [evaluate(parse(p), {}) for p in parts]
    if half or not all(isinstance(t, int | Fraction) and t > 0 for t in terms):
        raise Unreadable("no ratio")
    if len(terms) == 2:
        return Reading(*expression_key(Fraction(terms[0]) / terms[1]), frozenset({"unit=ratio"}))
    return Reading("structured", short(":".join(str(Fraction(t) / terms[0]) for t in terms)))
