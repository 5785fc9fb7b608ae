"""What a text was read as, and the operations on token lists that all readers share."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from ..algebra.fingerprint import KeyKind, short
from ..algebra.tokens import Token
from ..rules import Rules
from .intervals import Interval, spelled

__all__ = [
    "KeyKind",
    "Reader",
    "Reading",
    "closes_at_end",
    "encoded",
    "interval_reading",
    "listing",
    "name_of",
    "ruled",
    "split",
    "tagged",
]


@dataclass(frozen=True, slots=True)
class Reading:
    kind: KeyKind
    value: str
    tags: frozenset[str] = frozenset()  # "name=x", "unit=cm", "open": what the group rule may leave out
    pieces: tuple[Interval, ...] | None = None  # where the value is a set of reals
    items: tuple[Reading, ...] | None = None  # where it is a tuple or a list


Reader = Callable[[list[Token], Rules, int], Reading]

_OPEN = frozenset({"(", "[", "{", "\\{", "lfloor", "lceil", "langle"})
_CLOSE = frozenset({")", "]", "}", "\\}", "rfloor", "rceil", "rangle"})


def depth_step(t: Token) -> int:
    if t.kind != "op":
        return 0
    if t.text in _OPEN or t.text.startswith("begin "):
        return 1
    if t.text in _CLOSE or t.text.startswith("end "):
        return -1
    return 0


def split(tokens: Sequence[Token], at: Iterable[str]) -> tuple[list[list[Token]], list[str]]:
    """The parts between the operators `at` outside all brackets, and the operators."""
    wanted = frozenset(at)
    parts: list[list[Token]] = [[]]
    found: list[str] = []
    depth = 0
    for t in tokens:
        depth += depth_step(t)
        if depth == 0 and t.kind == "op" and t.text in wanted:
            parts.append([])
            found.append(t.text)
        else:
            parts[-1].append(t)
    return parts, found


def closes_at_end(tokens: Sequence[Token]) -> bool:
    """Whether the bracket at the start closes with the last token."""
    depth = 0
    for n, t in enumerate(tokens):
        depth += depth_step(t)
        if depth == 0:
            return n == len(tokens) - 1
    return False


def encoded(r: Reading) -> str:
    """One string for an element of a larger structure."""
    return r.value + "".join(f"#{t}" for t in sorted(r.tags))


def listing(items: Sequence[Reading], *, ordered: bool, distinct: bool = False) -> str:
    """The value of a set, a bare list (`distinct` false: 1, 1, 2 is not 1, 2) or an ordered list."""
    keys = [encoded(r) for r in items]
    if ordered:
        return short("list(" + ";".join(keys) + ")")
    return short("{" + ";".join(sorted(set(keys) if distinct else keys)) + "}")


def interval_reading(pieces: Sequence[Interval], tags: frozenset[str] = frozenset()) -> Reading:
    if len(pieces) == 1 and not (pieces[0].low_closed or pieces[0].high_closed or "oo" in spelled(pieces)):
        tags |= {"open"}
    return Reading("structured", short(spelled(pieces)), tags, pieces=tuple(pieces))


def tagged(r: Reading, *tags: str) -> Reading:
    return Reading(r.kind, r.value, r.tags | frozenset(tags), r.pieces, r.items)


def ruled(r: Reading, rules: Rules) -> Reading:
    """The reading after the judgement calls: tags dropped, or made part of the value."""
    if not r.tags:
        return r
    value, kept = r.value, set()
    for tag in sorted(r.tags):
        call = _call(tag, rules)
        if call == "distinct":
            value += "#" + tag
        elif call != "ignore":
            kept.add(tag)
    return Reading(r.kind, value, frozenset(kept), r.pieces, r.items)


def _call(tag: str, rules: Rules) -> str:
    if tag == "unit=%":
        return rules.percent
    if tag == "open":
        return rules.intervals
    return rules.names if tag.startswith("name=") else rules.units


_DERIVATIVE = re.compile(r"frac\{(d[\^0-9]*+[A-Za-z]*+)\}\{(d[A-Za-z][\^0-9]*+)\}")
_QUOTIENT = re.compile(r"frac\{([a-w]|[A-Z]{1,2})\}\{([a-w]|[A-Z]{1,2})\}")  # of two names, not of coordinates
_EVENTS = frozenset({",", "=", "<", ">", "<=", ">=", "|"})
_DIFFERENTIAL = re.compile(r"d[A-Za-z]?/d[A-Za-z]")
_SEGMENTS = frozenset(
    {"\\angle", "\\triangle", "\\vec", "\\hat", "\\bar", "\\overrightarrow", "\\Pr", "overline", "|", "["}
)
_NAME_OPS = frozenset({"_", "'", "(", ")", "{", "}", ",", "|", "[", "]", "overline"})


def name_of(tokens: Sequence[Token]) -> str | None:
    """The name on one side of `=`: a letter with its marks, f(x), a word, a segment; None for an expression."""
    if not tokens:
        return None
    first = tokens[0]
    texts = "".join(t.text for t in tokens)
    if _DIFFERENTIAL.fullmatch(texts):
        return texts
    if first.kind == "let":
        return _letter_name(tokens, texts)
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


def _letter_name(tokens: Sequence[Token], texts: str) -> str | None:
    """`x`, `x_1`, `f'(x)`, `f^{-1}(x)`, `AB`."""
    rest = _after_marks(tokens)
    if [t.text for t in rest[:5]] == ["^", "{", "-", "1", "}"] and len(rest) > 5:
        rest = rest[5:]  # the inverse function
    inside = _EVENTS if texts[0].isupper() else frozenset(",")  # P(X > 2)
    simple = all(t.kind in {"let", "num", "text"} or t.text in inside for t in rest[1:-1])
    if not rest or (rest[0].text == "(" and rest[-1].text == ")" and simple):
        return texts.replace("{", "").replace("}", "")
    return texts if all(t.kind == "let" and t.text.isupper() for t in tokens) else None


def _after_marks(tokens: Sequence[Token]) -> list[Token]:
    """What follows the subscript and the primes of a letter."""
    i = 1
    while i < len(tokens):
        if tokens[i].text == "'":
            i += 1
        elif tokens[i].text == "_" and i + 1 < len(tokens):
            i += 2
            if tokens[i - 1].text == "{":
                depth = 1
                while i < len(tokens) and depth:
                    depth += (tokens[i].text == "{") - (tokens[i].text == "}")
                    i += 1
        else:
            break
    return list(tokens[i:])
