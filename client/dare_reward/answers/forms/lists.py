"""Lists: of values, of named values, of points, of solutions."""

from __future__ import annotations

from functools import reduce

from ..algebra.tokens import Token, split
from ..kinds import Unreadable
from ..rules import Rules
from .intervals import intersect, union
from .names import name_of
from .reading import Reader, Reading, encoded, interval_reading, listing, tagged
from .relations import RELATIONS, assignments, read_relation

MAX_ITEMS = 500


def read_list(parts: list[list[Token]], connectives: list[str], rules: Rules, read: Reader) -> Reading:
    if groups := _alternatives(parts, connectives):
        return _bare_list([read_list(g, [","] * (len(g) - 1), rules, read) for g in groups], rules)
    empty = sum(not p for p in parts)  # "2, and 3" has an empty part, "2," a last one
    parts = [p for p in parts if p]
    if empty > 2:
        raise Unreadable("separators without items")
    if len(parts) == 1:
        return read(parts[0])
    if not 0 < len(parts) <= MAX_ITEMS:
        raise Unreadable("too many items")
    if _are_excluded(parts, connectives):
        return read_relation([*parts[0], *(t for p in parts[1:] for t in (Token("op", ","), *p))], rules, read)
    sides = [_named_side(p) for p in parts]
    if any(sides) and (named := _named_list(parts, sides, rules, read)) is not None:
        different = "or" in connectives and any(t.startswith("name=(") for t in named.tags)
        return Reading(named.kind, "or" + named.value, named.tags) if different else named
    readings = [r for p in parts for r in items_of(p, read(p))]
    return _joined(readings, parts, connectives, rules)


def _joined(readings: list[Reading], parts: list[list[Token]], connectives: list[str], rules: Rules) -> Reading:
    """What the readings of the parts are together: one value said twice, solutions, a sequence or a list."""
    if set(connectives) == {"or"} and len({encoded(r) for r in readings}) == 1:
        return readings[0]  # 1/2 or 0.5
    words = {w.removeprefix("l") for w in connectives} - {",", ";", "row"}
    if len(words) <= 1 and all(r.pieces is not None and r.items is None for r in readings):
        joined = _joined_solutions(readings, words.pop() if words else ",")
        if joined is not None:
            return joined
    if {"land", "lor", "iff"} & set(connectives):
        raise Unreadable("a formula of logic")
    if any(t.text == "..." for p in parts for t in p):
        return Reading("structured", listing(readings, ordered=True))
    listed = _bare_list(readings, rules)
    names = {t for r in readings for t in r.tags if t.startswith("name=")}
    if "or" in connectives and (len(names) > 1 or all(len(p) == 1 and p[0].kind == "let" for p in parts)):
        return Reading(listed.kind, "or" + listed.value)  # x > 0 or y > 0, p or q: not both
    return listed


def _are_excluded(parts: list[list[Token]], connectives: list[str]) -> bool:
    """Whether it is `x \\ne 1, 2`: one inequality with several values."""
    relations = [split(p, RELATIONS)[1] for p in parts]
    return relations[0] == ["!="] and not any(relations[1:]) and set(connectives) <= {",", "and", "or"}


def _named_list(
    parts: list[list[Token]], sides: list[tuple[str, list[Token]] | None], rules: Rules, read: Reader
) -> Reading | None:
    """`x = 1, y = 2`, `x = 1, x = 2` and `x = 1, 2`."""
    names = [s[0] for s in sides if s is not None]
    if len(names) == len(parts):
        values = [read(s[1]) for s in sides if s is not None]
        if len(set(names)) == len(names):
            return assignments(names, values)
        return tagged(_bare_list(values, rules), "name=" + names[0]) if len(set(names)) == 1 else None
    at = next(n for n, s in enumerate(sides) if s is not None)
    if len(names) == 1 and all(split(p, RELATIONS)[1] for p in parts[:at]):  # "x > 0, y = 1" is "y = 1, x > 0"
        bare = [s[1] if s is not None else p for s, p in zip(sides, parts, strict=True)]
        rest = [r for p in bare for r in items_of(p, read(p))]
        return tagged(_bare_list(rest, rules), "name=" + names[0])
    return None


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


def items_of(part: list[Token], r: Reading) -> tuple[Reading, ...]:
    """Both values of a `\\pm 1` in a list."""
    return r.items if r.items is not None and any(t.text in {"+-", "-+"} for t in part) else (r,)


def _joined_solutions(readings: list[Reading], word: str) -> Reading | None:
    """`x < 1 or x > 2`, `x > 1 and x < 2`; a comma means what leaves more than nothing and less than everything."""
    names = frozenset(t for r in readings for t in r.tags if t.startswith("name="))
    if len(names) > 1 or (word == "," and not all(r.tags & names for r in readings)):
        return None
    sets = [list(r.pieces or ()) for r in readings]
    both = reduce(intersect, sets)
    if word == "and" or (word == "," and both):
        return interval_reading(both, names)
    return interval_reading(union([piece for pieces in sets for piece in pieces]), names)
