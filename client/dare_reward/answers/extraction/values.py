r"""Sentences of a line of prose, and the values in them: numbers, formulas and number words, as far as they reach.

A sentence does not end in 3.5, in "e.g." or inside a formula, between dollars or brackets: $...$, \(...\), \[...\].

A value is what a reader would copy: a sign, a currency, a number in digits or words, what multiplies, divides or
raises it, the brackets around it, or a formula in dollars. It is maximal: `2√13`, `3 1/2` and `10^5` are one value, and
so is `3 to 4`. One that touches a word that computes or compares ("over", "half of", "at least": tables/english.txt),
or a dash that may be a range, is unreadable: `value` is None, and nobody takes a part of it.
"""

from __future__ import annotations

import re
from itertools import pairwise
from typing import NamedTuple

from ..._pattern import pattern
from ..languages import english
from ..number_words import NUMBER_WORD, spoken_number, spoken_runs
from ..tables import listed

LONGEST = 600  # characters of a sentence that is read
NUMBER = r"(?:\d{1,3}(?:,\d{3})++(?:\.\d++)?|\d++(?:\.\d++)?|\.\d++)"
PLAIN = pattern(rf"[-−–]?{NUMBER}(?:/\d++)?(?:\\?%|°)?")
_FRACTION = "½⅓⅔¼¾⅕-⅞"
_SPAN = "\ue000"  # stands for each character of a formula in dollars
_MONEY = r"(?:US)?\\?[$€£¥]\s?(?=[-−–]?[\d.])"
_NAMED = r"(?:sin|cos|tan|log|ln|lg|exp|sqrt|pi)(?![^\W\d_])"
_LETTER = r"[A-Za-zα-ωΑ-Ω](?![A-Za-z'’])"
# Brackets with what is no word between them: (3, -4), {1, 2}, (x + 1).
_BRACKETED = (
    rf"[(\[{{](?:[^()\[\]{{}}A-Za-z\\]|{_LETTER}|{_NAMED}|\\[A-Za-z]++|\\.|\{{[^{{}}]{{0,40}}\}}){{1,60}}+[)\]}}]"
)
_PIECE = (
    rf"(?:{_BRACKETED}|{NUMBER}|{_SPAN}++|\\[A-Za-z]++|(?:(?<=\d)\s)?\\?%|{_NAMED}|{_LETTER}"
    rf"|[πα-ω√∞{_FRACTION}⁰-⁹⁻²³¹₀-₉°^_|'′]|!(?=\s?[-+*/=!.)]|\Z)|/(?=[\d(]))"
)
_OPERATOR = (
    r"(?:\s?(?:[-−–+*/=<>≤≥±×·÷^≈∓]{1,2}|\\(?:cdot|times|pm|approx|le|ge|ne)(?![a-z]))\s?|(?<=\d)\s?[:x]\s?(?=\d))"
)
_RUN = pattern(
    rf"(?<![A-Za-z\d_\\])(?P<sign>[-−–—]\s?|[+±≈~]\s?|)(?P<money>{_MONEY}|)(?:{_PIECE})++"
    rf"(?:(?:{_OPERATOR}(?:[-−–√]|{_MONEY})?|\s(?=\d++/\d++(?![\d/])|[{_FRACTION}]))(?:{_PIECE})++)*+"
)
_HAS_VALUE = pattern(rf"[\d{_SPAN}π∞{_FRACTION}]")
_RANGE = pattern(rf"{NUMBER}\s?[-–—]\s?{NUMBER}(?:/\d++)?|\d[\d.,]*+k")
_MINUS = pattern(r"(?<!plus or )\b(?:minus|negative)\s\Z", re.IGNORECASE)
_LEADS = pattern(r"(?:\b(?:is|are|was|be|equals|of|to)\s|[=:(]\s?|\A)\Z", re.IGNORECASE)
_SETS = r"[∪∩∖⊂⊆∈∉]|\\(?:neq|cup|cap|in|notin|subseteq?)(?![a-z])"
_UNIT = r"\s*(?!(?:or|and|of|if|[pbv]?matrix|cases|array|aligned)\b)[A-Za-z]+\.?\s*\}"  # 5 \text{ cm}
_BEFORE = pattern(
    rf"\b(?:{english('operates before')})\s?[*(]*\Z|(?:[√^±<>≤≥≠}}]|{_SETS})\s?\Z|\d[.,]\Z", re.IGNORECASE
)
_AFTER = pattern(
    rf"(?i)[\s*-]{{0,2}}(?:{english('operates after')})|\s?[{_FRACTION}√^<>≤≥≠²³…\u0300-\u036f]|π|\.\.|[.,'’]\d"
    rf"|\s?(?:{_SETS})|(?:\s?\\(?:mbox|text|mathrm|operatorname))?\{{(?!{_UNIT})"
    r"|\s?%\s?of\b|(?:!|\s[*×÷+])\s[a-z]"
    r"|(?<=(?<!\d)[123])\squarters\b|\s(?:hundred|thousand|million)\sand\s"
    r"|(?:\s?(?:degrees?|°)(?:\s?[CF]\b|\s(?:celsius|fahrenheit))?)?\sbelow\s(?:zero|freezing)|k\b"
)
_JOINTS = rf"[\s*-]*(?:{english('operates between')})[\s*(-]*"
_SHARE = r"\s(?:(?:in|of|by)\s\d++(?:[,.]\d++)*+(?!\s?[a-z])|out of\s\d)"  # 3 in 4, but not 120 in 2 weeks
_BETWEEN = pattern(rf"{_JOINTS}\$?", re.IGNORECASE)
_THEN_VALUE = pattern(
    rf"(?i){_SHARE}|{_JOINTS}(?:the\s)?(?:[\d$√π\\]|[b-z](?![a-z'’])|root\b|square root\b|{NUMBER_WORD})"
)
_SHARED = pattern(r"\d\s(?:in|of|by|out of)\s\Z", re.IGNORECASE)
_SCALES = pattern(r"\d\s(?:hundred|thousand|million|billion|trillion)\Z", re.IGNORECASE)  # a unit: 1.2 million
_BASE = pattern(r"\s?(?:in\s)?base\b", re.IGNORECASE)
_LETTERS = pattern(r"(?<![\\A-Za-z])[A-Za-z]{2,}+")
_READ = frozenset(listed("function_letters")) | frozenset(listed("unit_letters"))
_DASHES = "-−–—"
_LABEL = pattern(r"[A-Za-z]\d++")  # A4, x1
_DELIMITER = pattern(r"(?<!\\)\$|\\[()]")
_ORDINAL = pattern(r"(?:st|nd|rd|th)\b")
Span = tuple[int, int, str]  # start, end, content without its dollars


class Value(NamedTuple):
    """A value of a sentence: where it stands, and what it says; `content` None: nobody can read it."""

    start: int
    end: int
    content: str | None


def values(said: str) -> list[Value]:
    """The values of a sentence, in order."""
    said = masked = said[:LONGEST]
    inside = spans(said)
    for start, end, _ in inside:
        masked = masked[:start] + _SPAN * (end - start) + masked[end:]
    found = [
        _value(said, masked, m, inside)
        for m in _RUN.finditer(masked)
        if _HAS_VALUE.search(m[0]) and not _ORDINAL.match(masked, m.end()) and not _LABEL.fullmatch(m[0])
    ]
    spoken = [_spoken(said, *run) for run in spoken_runs(said) if not _SCALES.search(said, 0, run[1])]
    found = sorted([*found, *(v for v in spoken if not any(v.start < w.end and w.start < v.end for w in found))])
    joined = {
        i + step
        for i, (one, other) in enumerate(pairwise(found))
        if (_BETWEEN.fullmatch(said, one.end, other.start) and said[one.start] not in "$€£¥")
        or _is_next(said, one, other)
        for step in (0, 1)
    }
    return [v._replace(content=None) if i in joined or _is_touched(said, v) else v for i, v in enumerate(found)]


def _is_next(said: str, one: Value, other: Value) -> bool:
    """Whether two values with nothing between them may be one: `5 000`, `log_2 8`; "2 5 dollar toys" are two."""
    if said[one.end : other.start].strip(" "):
        return False
    first, second = said[one.start : one.end], said[other.start : other.end]
    return len(second) == 3 or not (PLAIN.fullmatch(first) and PLAIN.fullmatch(second))


def readable(content: str) -> bool:
    """Whether a value is a number, or mathematics without a word but units and functions."""
    if PLAIN.fullmatch(content) or spoken_number(content.lower()) is not None:
        return True
    return _HAS_VALUE.search(content) is not None and all(m[0].lower() in _READ for m in _LETTERS.finditer(content))


def _value(said: str, masked: str, m: re.Match[str], inside: list[Span]) -> Value:
    """A run as a value: without its currency, with its sign."""
    start, end = m.span()
    sign = m["sign"].strip()
    if m["sign"].endswith(" ") and sign in _DASHES and not _LEADS.search(said, 0, start):
        return Value(m.end("sign"), end, None)  # "Total - 5"
    before = _MINUS.search(said, max(0, start - 12), start)
    body = said[m.end("money") : end]
    body = next((content for a, b, content in inside if (a, b) == (m.end("sign"), end)), _DELIMITER.sub("", body))
    if sign in _DASHES and sign:
        body = "-" + body
    elif before:
        start, body = before.start(), "-" + body
    elif sign:
        body = sign + body
    return Value(start, end, None if _RANGE.fullmatch(masked, m.end("money"), end) else body.strip())


def _spoken(said: str, start: int, end: int, words: str) -> Value:
    before = _MINUS.search(said, max(0, start - 12), start)
    return Value(before.start(), end, str(-(spoken_number(words.lower()) or 0))) if before else Value(start, end, words)


def _is_touched(said: str, value: Value) -> bool:
    near = max(0, value.start - 32)
    before = _BEFORE.search(said, near, value.start) or _SHARED.search(said, near, value.start)
    return before is not None or is_operand(said, value.end) or _BASE.match(said, value.end) is not None


def is_operand(said: str, end: int) -> bool:
    """Whether what follows the value that ends at `end` does something to it: "squared", "over 7", "and a half"."""
    return (_AFTER.match(said, end) or _THEN_VALUE.match(said, end)) is not None


def display(body: str) -> str | None:
    """The content of the displayed formula or the environment that `body` begins with; None if it never ends."""
    opening = "\\begin{" if body.startswith("\\begin{") else body[:2]
    if opening == "\\begin{":
        name = body[7 : body.find("}")]
        end = body.find("\\end{" + name + "}")
        return body[: end + len(name) + 6] if end > 0 and "}" in body[:40] else None
    end = body.find("\\]" if opening == "\\[" else "$$", 2)
    return body[2:end].strip().rstrip(".,") if end > 0 else None


_OPENS = pattern(r"(?<!\\)\$\$?|\\[(\[]")
_CLOSES = {"\\(": "\\)", "\\[": "\\]"}
MOST = 40  # spans of a line


def spans(line: str) -> list[Span]:
    """Maths spans as (start, end, content). A dollar before a number that no dollar closes is money."""
    found: list[Span] = []
    at = 0
    while len(found) < MOST and (opening := _OPENS.search(line, at)):
        (start, at), mark = opening.span(), opening[0]
        end = line.find(_CLOSES.get(mark, mark), at)
        while mark[0] == "$" and end > 0 and line[end - 1] == "\\":
            end = line.find("$", end + 1)
        content, after = line[at:end], end + len(mark)
        money = content[:1].isdigit() and (content != content.rstrip() or line[after : after + 1].isdigit())
        if end < 0 or (mark[0] == "$" and (money or not content.strip())):
            continue
        found.append((start, after, content.strip().rstrip(".,;").rstrip()))
        at = after
    return found


_STOP = pattern(r"[.!?](?=[\s\"'*_)\]}”]|$)|[。！？؟।]|\.(?=[一-鿿])")
_FACTORIAL = pattern(r"!(?:\s*[=+*/^<>)-]|\.(?=\s|\Z)|(?<=\d!)\s[a-z])")
ABBREVIATION = pattern(
    r"(?i)(?:^|[\s(])(?:e\.g|i\.e|approx|vs|etc|a\.m|p\.m|cf|no|dr|mr|mrs|ms|st|prof|jr|sr|sra|dra|rs|[a-z]|[a-z]\.[a-z])\Z"
)


def sentence(line: str, spans: list[Span]) -> tuple[str, bool]:
    """`line` up to the end of its first sentence, and whether that is a question. A point in 3.5 ends nothing."""
    for stop in _STOP.finditer(line):
        at = stop.start()
        if any(start <= at < end for start, end, _ in spans):
            continue
        if _FACTORIAL.match(line, at):
            continue
        near, after = line[max(0, at - 8) : at], line[at + 1 :]
        if stop[0] == "." and ABBREVIATION.search(near) and after.strip(" *_\"'$)"):
            if re.match(r"\s+[A-Z]", after) and re.search(r"\d\s*[a-z]\Z|=\s*[a-z]\Z", near):
                return line[:at], False
            continue
        return line[:at], stop[0] in "?？؟"
    return line, False
