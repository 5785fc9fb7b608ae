"""Numbers that are written in words: for texts and for keys alike, so that both read one value or none.

English cardinals and simple fractions, and Chinese numerals. A run of number words is read as a whole: "one hundred
five" is 105 or nothing, never 5.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from fractions import Fraction

from .._pattern import pattern
from .words import words

_UNITS = words(
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen",
    "sixteen seventeen eighteen nineteen",
)
_TENS = words("twenty thirty forty fifty sixty seventy eighty ninety")
_SMALL = {w: n for n, w in enumerate(_UNITS)} | {w: 10 * n for n, w in enumerate(_TENS, 2)}
_LARGE = {"thousand": 1_000, "million": 10**6, "billion": 10**9, "trillion": 10**12}
_PARTS = words("half third quarter fifth sixth seventh eighth ninth tenth eleventh twelfth")
_DENOMINATORS = {w: n for n, w in enumerate(_PARTS, 2)} | {"fourth": 4, "hundredth": 100, "thousandth": 1_000}
_PLURALS = {w + "s": n for w, n in _DENOMINATORS.items()} | {"halves": 2}
_NUMBER_ALPHABET = frozenset(" abcdefghilmnoqrstuvwxyz-")


def spoken_number(lower: str) -> Fraction | None:
    """The value of `twenty-one`, `one hundred and five`, `two thirds`, `half`; None where a word is no number."""
    if len(lower) > 120 or not _NUMBER_ALPHABET.issuperset(lower):
        return None
    said = lower.replace("-", " ").split()
    if said[:1] == ["a"] and said[1:2] and (said[1] == "hundred" or said[1] in _LARGE):
        said[0] = "one"
    if said in (["half"], ["a", "half"], ["one", "half"]):
        return Fraction(1, 2)
    if len(said) > 1 and said[-1] in _PLURALS and (top := _whole(said[:-1])) is not None and top > 1:
        return Fraction(top, _PLURALS[said[-1]])
    if len(said) == 2 and said[0] in {"one", "a"} and said[1] in _DENOMINATORS:
        return Fraction(1, _DENOMINATORS[said[1]])
    whole = _whole(said)
    return None if whole is None else Fraction(whole)


def _whole(said: Sequence[str]) -> int | None:
    """`two hundred and five thousand one`: groups below a thousand before falling powers of it."""
    total, rest, limit = 0, list(said), 10**15
    for word, scale in sorted(_LARGE.items(), key=lambda p: -p[1]):
        if word in rest:
            at = rest.index(word)
            group, rest = _below_thousand(rest[:at]), rest[at + 1 :]
            if group is None or scale >= limit:
                return None
            total, limit = total + group * scale, scale
            rest = rest[1:] if len(rest) > 1 and rest[0] == "and" else rest
    if not rest:
        return total if limit < 10**15 else None
    last = _below_thousand(rest)
    return None if last is None else total + last


def _below_thousand(said: Sequence[str]) -> int | None:
    if len(said) > 1 and said[1] == "hundred":
        more = said[3:] if said[2:3] == ["and"] else said[2:]
        head, tail = _SMALL.get(said[0], 0), _below_hundred(more) if more else 0
        return None if not 0 < head < 10 or tail is None or (len(said) == 3 and not more) else 100 * head + tail
    return _below_hundred(said)


def _below_hundred(said: Sequence[str]) -> int | None:
    values = [_SMALL.get(word, -1) for word in said]
    if len(values) == 1 and values[0] >= 0:
        return values[0]
    if len(values) == 2 and values[0] >= 20 and 0 < values[1] < 10:
        return sum(values)
    return None


_WORD = "|".join(sorted([*_SMALL, "hundred", *_LARGE], key=len, reverse=True))
_PART = "|".join(sorted([*_PLURALS, *_DENOMINATORS], key=len, reverse=True))
_RUN = pattern(
    rf"(?<![\w-])(?:a[ -](?=hundred|{'|'.join(_LARGE)}))?+(?:{_WORD})(?:[ -](?:and )?(?:{_WORD}))*+"
    rf"(?:[ -](?:{_PART}))?+(?![\w-])",
    re.IGNORECASE,
)
_COUNTED = pattern(r"(?!\s(?:and|or|second)\b)(?P<noun>(?:\s[^\W\d_]{2,}+){1,3})\Z")


def spoken_runs(text: str) -> Iterator[tuple[int, int, str]]:
    """Where numbers stand in words: start, end, words. A lone "one" is a pronoun, and a run that is no number none."""
    for run in _RUN.finditer(text):
        if run[0].lower() not in {"one", "zero"} and spoken_number(run[0].lower()) is not None:
            yield run.start(), run.end(), run[0]


def counted(text: str) -> tuple[Fraction, str] | None:
    """The number and the noun of "twenty-five red apples"."""
    run = _RUN.match(text)
    noun = _COUNTED.match(text, run.end()) if run else None
    value = spoken_number(run[0].lower()) if run else None
    return None if noun is None or value is None else (value, noun["noun"].strip())


_HAN = {c: n for n, c in enumerate("零一二三四五六七八九")} | {"〇": 0, "两": 2, "兩": 2}
_HAN_UNITS = {"十": 10, "百": 100, "千": 1_000}
_HAN_LARGE = {"万": 10**4, "萬": 10**4, "亿": 10**8, "億": 10**8}


def chinese_number(said: str) -> int | None:
    """The value of 三百二十五, 两万, 二〇二四; None where it is no number."""
    if not said or not set(said) <= _HAN.keys() | _HAN_UNITS.keys() | _HAN_LARGE.keys():
        return None
    if set(said) <= _HAN.keys():
        return int("".join(str(_HAN[c]) for c in said))
    total = part = digit = 0
    above = 0  # the large unit before: 三亿五千万 adds, 五千万亿 multiplies
    for c in said:
        if c in _HAN:
            digit = _HAN[c]
        elif c in _HAN_UNITS:
            part, digit = part + (digit or 1) * _HAN_UNITS[c], 0
        else:
            unit, section = _HAN_LARGE[c], part + digit
            total = total + section * unit if unit < above else (total + section) * unit
            part, digit, above = 0, 0, unit
    return total + part + digit
