"""What a sentence begins with in plain characters: an expression or a number, with its unit."""

from __future__ import annotations

import re
from itertools import pairwise

from ..._pattern import pattern
from ..languages import JOINED, LANGUAGES, alternatives, every
from ..markup import INSIDE, undecorated
from ..tables import listed
from .lines import masked, spans
from .values import Value, is_operand, values

WORDS = 12  # a longer run of words after "Answer:" is an explanation
_SCRIPTS = "\u0590-\u05ff\u0600-\u06ff\u0900-\u097f\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af"
_PROSE = pattern(
    rf"(?<![\\A-Za-z])[^\W\d_α-ωΑ-Ω₀-₉⁰-⁹²³¹½-¾{_SCRIPTS}]{{2,}}+|[{_SCRIPTS}]|(?<![\\A-Za-z\d])[aAI](?=\s++[a-z]{{2}})"
)
_FUNCTIONS, _UNITS = frozenset(listed("function_letters")), frozenset(listed("unit_letters"))
_WORD = pattern(r"\s*+(?P<word>[^\W\d_²³]++)(?:\s?\^\s?\d|[²³])?(?:/[a-zA-Z]{1,4}(?:\^\d|[²³])?)?")
_AND_MORE = pattern(r"\s*+(?:and\s++)?\d[\d.]*+(?=\s?[^\W\d_])")
_SHAPES = frozenset({"square", "cubic", "sq"})
TAIL_JUNK = " \t\r\n,;:.!-–—+*/=<>_`\"'“”~（✅✔∎■□🎉\ufe0f"
# "0.5, or 1/2", "1.5 (= 3/2)": the same thing twice.
_AGAIN = pattern(
    r"(?<!,.),\s+(?:or|i\.e\.?|that is|that's|meaning|namely|which equals),?\s"
    r"|\s\((?:=|≈|i\.e|e\.g|or|that is|since|because|see)(?![a-z])"
)
_LIST = pattern(
    rf"(?<=[\d)])\s?(?:{'|'.join(word for code in JOINED for word in LANGUAGES[code]['or'])}|、)\s?(?=[-−(]?\d)"
    rf"|(?<=[$)])(?:,?\s*(?:{alternatives('or')})|、)\s*(?=\$|\\\()"
)
# "3 out of 4" is a value of its own; of "2 and 3/4" nobody knows whether it is one number or two.
_NO_VALUE = pattern(r"(?P<ratio>\d+\s(?:out of|to|in)\s\d+(?![\d,.]*\s[a-z]))|\d++\sand\s\d++/\d++\b")
COPULA = pattern(rf"\s*+(?:{'|'.join(every('closing'))})[\s.。]*\Z")
_MONEY = pattern(r"\A\\?[$€£¥]\s?(?=[\d.])|\A(?:US|USD|Rs\.?|INR|EUR)\s?\\?\$?\s?(?=\d)")
_MINUS = pattern(r"\A(?:minus|negative)\s(?=[\d.])", re.IGNORECASE)
_TIMES = pattern(r"(?<=\d)\s?x\s?(?=\d)")
_MONTHS = r"(?:January|February|March|April|May|June|July|August|September|October|November|December)\b"
_DATE = pattern(rf"\b{_MONTHS}(?=\s\d)|\d(?:st|nd|rd|th)?\s(?:of )?{_MONTHS}")
_AND_OTHERS = pattern(r"[^\W\d_]+(?:\s[^\W\d_]+)?,?\s+and\s+\d")
_OPAQUE = pattern(rf"\{{{INSIDE}\}}|[_^][^\W\d_]++", re.DOTALL)  # what looks like words inside a formula
_BRACKET = pattern(r"[()\[\]{}]")
_JOINT_END = pattern(r"(?:\s+|(?<=[,;]))(?:and|or)\Z")
_GROUPED = pattern(r"(?<=\d),(?=\d{3}(?!\d))")
UNREAD = ""  # a value that is there and that nobody can read


def plain_content(sentence: str, *, strict: bool = True) -> str | None:
    """The expression or number at the start of `sentence`; unless `strict`, with others that "and" joins to it.

    `UNREAD` where something is done to it in words: "2 over 3", "2 and a half".
    """
    said = _LIST.sub(", ", sentence.strip().strip('*_`"“”«»').strip())
    if not (found := spans(said)) or found[0][0]:
        if said.startswith(("\\(", "\\[")) or (said.startswith("$") and not re.match(r"\$\s?[\d.]", said)):
            return None  # a span that never closes is cut off
        said = _MINUS.sub("-", _MONEY.sub("", said))
    said = _AGAIN.split(said, maxsplit=1)[0]
    if _DATE.search(said[:80]) and len(said.split()) <= 6:
        return said.strip(TAIL_JUNK)
    if other := _NO_VALUE.match(said):
        return other["ratio"] or UNREAD
    outside = masked(said, found := spans(said))
    opaque = _OPAQUE.sub(lambda m: "0" * len(m[0]), outside)
    words = next((word.start() for word in _PROSE.finditer(opaque) if word[0].lower() not in _FUNCTIONS), None)
    begin, close = _balanced(outside[:words])
    if outside[close : close + 1] == "{":
        return None  # cut off inside a command
    if words is None and not found:
        return _expression(said[begin:close])
    return _first_value(said, begin, close, words, strict=strict)


def _expression(chunk: str) -> str | None:
    """All of a sentence without a word: an expression, if it is one."""
    value = undecorated(_JOINT_END.sub("", chunk.rstrip(TAIL_JUNK)).rstrip(TAIL_JUNK)).rstrip()
    if not any(c.isdigit() for c in value) and (len(value) > 40 or not any(c.isalnum() or c in "∅∞√" for c in value)):
        return None
    return UNREAD if values(value) == [(0, len(value), None)] else last_side(value)


def _first_value(said: str, begin: int, close: int, words: int | None, *, strict: bool) -> str | None:
    """What stands before the first of the `words`, up to the end of its last value, with the unit that they name."""
    found = values(chunk := said[begin:close])
    if not found:
        return None
    end = begin + found[-1].end
    if is_operand(said, end):
        return UNREAD
    value = last_side(said[begin:end])
    if spans(chunk):
        value = _listed(chunk, found)
    if words and said[end:words].strip(" *)"):
        return value  # 12 (4 cm wide) is not 12 cm
    if unit := unit_after(said[end:].lstrip(" *)")):
        return f"{value} {unit}"
    if not strict and words and _AND_OTHERS.match(said, words) and len(said.split()) <= WORDS:
        return said.strip(TAIL_JUNK)  # "2 red balls and 3 blue balls" is not 2
    return value


def _listed(chunk: str, found: list[Value]) -> str:
    """The first of some values, with those that commas join to it."""
    last = next(
        (i for i, (a, b) in enumerate(pairwise(found)) if chunk[a.end : b.start].strip() != ","), len(found) - 1
    )
    parts = [value.content for value in found[: last + 1]]
    return UNREAD if None in parts else last_side(", ".join(p for p in parts if p))


def _balanced(chunk: str) -> tuple[int, int]:
    """What of `chunk` has both its brackets: "42 (in" is 42, and so are "42)" and "(42"; "(3, 5]" is an interval."""
    opened: list[int] = []
    for bracket in _BRACKET.finditer(chunk):
        if bracket[0] in "([{":
            opened.append(bracket.start())
        elif opened:
            opened.pop()
        elif not any(map(str.isalnum, chunk[bracket.end() :])):
            return 0, bracket.start()
    return (0, opened[0]) if opened and opened[0] else (len(opened), len(chunk))


def unit_after(rest: str) -> str:
    """The unit at the start of `rest`, "cm", "miles per hour", "hours and 20 minutes"; "" for any other word."""
    end = at = 0
    for _ in range(6):
        word = _WORD.match(rest, at)
        if word is None:
            break
        name = word["word"].lower()
        if name in _UNITS:
            at = word.end()
            if name not in _SHAPES:
                end = at
                more = _AND_MORE.match(rest, at)
                at = more.end() if more else at
        elif name == "per" and end:
            at = word.end()
        else:
            break
    return rest[:end].strip()


def last_side(value: str) -> str:
    """12 + 3 = 15 is 15, and so is x = 12 + 3 = 15; x = 15 stays, an equation is for the keys to judge."""
    bare = _GROUPED.sub("", value)
    sides = value.replace("**", "").split("=")
    if (
        len(sides) < 2
        or any(c in bare for c in ",;<>≤≥")
        or re.search(r"\band\b|\bor\b|\\(?:text|begin|le|ge|ne|quad|pm)(?![a-z])", value)
    ):
        return value
    if sides[0].strip().replace(",", "").isdigit() and not sides[-1].strip().isdigit():
        return sides[0].strip()  # 12 = 3 * 4
    plain = _TIMES.sub("*", re.sub(r"\\[a-zA-Z]+", "", sides[0]))
    if len(sides) > 2 or (any(c.isdigit() for c in plain) and not any(c.isalpha() for c in plain)):
        last = sides[-1].strip()
        return last or value
    return value


def _is_expression(value: str) -> bool:
    return any(c.isdigit() for c in value) or (len(value) <= 40 and any(c.isalnum() or c in "∅∞√" for c in value))
