"""Numbers that are written in words: for texts and for keys alike, so that both read one value or none.

Cardinals of the languages whose number words `languages` holds, numerals of Chinese, Japanese and Korean, simple
fractions of English. A run of number words is read as a whole: "one hundred five" is 105 or nothing, never 5. Words
that two languages read as two numbers (*tres* is 3 in Spanish, 60 in Danish) are none.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Sequence
from fractions import Fraction
from functools import cache
from typing import NamedTuple

from .._pattern import pattern
from .languages import LANGUAGES, POWER_FIRST, UNIT_FIRST
from .tables import words

LONGEST = 120
_PARTS = words("half third quarter fifth sixth seventh eighth ninth tenth eleventh twelfth")
_DENOMINATORS = {w: n for n, w in enumerate(_PARTS, 2)} | {"fourth": 4, "hundredth": 100, "thousandth": 1_000}
_PLURALS = {w + "s": n for w, n in _DENOMINATORS.items()} | {"halves": 2}

# Number words, alone, that are words or names elsewhere; so may be any of less than four letters: "on", "ti", "hat".
_NAMES = frozenset(words("lima once fire cent elf due mia sita null sept"))


class _Word(NamedTuple):
    value: int
    power: bool = False  # of ten: what stands before it is multiplied


_NOTHING = _Word(0)


@cache
def _words(code: str) -> dict[str, _Word]:
    """The number words of a language."""
    row = LANGUAGES[code]
    found: dict[str, _Word] = {}
    for field, first, step in (("ones", 0, 1), ("tens", 20, 10), ("hundreds", 100, 100)):
        for n, forms in enumerate(row[field]):
            found |= dict.fromkeys(forms.split("/"), _Word(first + n * step))
    for entry in row["powers"]:
        forms, _, last = entry.rpartition(" ")
        word = _Word(10 ** int(last), power=True) if int(last) < 20 else _Word(int(last))
        found |= dict.fromkeys(forms.split("/"), word)
    return {unicodedata.normalize("NFKC", said): word for said, word in found.items()}


@cache
def _next_word(code: str) -> tuple[re.Pattern[str], dict[str, _Word]]:
    """A pattern of the next number word, and the words without blanks."""
    known = _words(code)
    said = "|".join(word.replace(" ", " ?") for word in sorted(known, key=len, reverse=True))
    joints = "|".join({*LANGUAGES[code]["inner"], *LANGUAGES[code]["plus"]}) or "(?!)"
    found = re.compile(rf" ?(?:(?P<joint>{joints}) ?)?(?P<word>{said})")
    return found, {word.replace(" ", ""): value for word, value in known.items()}


@cache
def _languages() -> dict[str, list[str]]:
    """The languages that have a number word with these two letters first."""
    found: dict[str, list[str]] = {}
    for code in LANGUAGES:
        for start in {word[:2] for word in _words(code)}:
            found.setdefault(start, []).append(code)
    return found


def cardinal(said: str, code: str | None = None) -> int | None:
    """The number that `said`, in small letters, writes in words of one language, or of this one; None if it is none."""
    said = " ".join(unicodedata.normalize("NFKC", said).replace("-", " ").replace("’", "'").split())
    codes: Sequence[str] = _languages().get(said[:2], ()) if len(said) <= LONGEST else ()
    if code is not None or (len(said) < 4 and said.isascii()) or said in _NAMES:
        codes = [known for known in codes if known == (code or "en")]
    values = {value for known in codes if (value := _cardinal(said, known)) is not None}
    return values.pop() if len(values) == 1 else None


def told(content: str, lead: str) -> str:
    """`content` in digits, where it is a number word that is a name elsewhere and `lead` announces in its language."""
    if (said := content.lower()) not in _NAMES:
        return content
    own = [code for code, language in LANGUAGES.items() if any(word in lead.lower() for word in language["answer"])]
    return next((str(value) for code in own if (value := cardinal(said, code)) is not None), content)


def _cardinal(said: str, code: str) -> int | None:
    """What the words say, brought into the order of English: fünf|und|zwanzig is 25, and mia|tatu 300."""
    (next_word, known), row, at = _next_word(code), LANGUAGES[code], 0
    read: list[_Word] = []
    last: _Word | None = None
    while at < len(said):
        if (m := next_word.match(said, at)) is None:
            return None
        at, joint, word = m.end(), m["joint"], known[m["word"].replace(" ", "")]
        if joint and (last is None or joint not in row["plus" if last.value >= 100 else "inner"]):
            return None  # "twenty and five" are two numbers
        before, last = read[-1] if read else _NOTHING, word
        if code in UNIT_FIRST and 0 < before.value < 10 and 20 <= word.value < 100 and joint:
            read[-1] = before._replace(value=before.value + word.value)
        elif code in POWER_FIRST and before.power and not joint and not word.power:
            read[-1:] = [word, before]
        else:
            read.append(word)
    return _total(read, code)


def _total(read: Sequence[_Word], code: str) -> int | None:
    """The largest word, times what stands before it if it is a power, and what stands behind it; None for no number."""
    at, word = max(enumerate(read), key=lambda n: (n[1].value, n[1].power))
    rest = read[at + 1 :]
    more = _total(rest, code) if rest else 0
    if not word.power:
        fits = not at and (not rest or 0 < (more or 0) < _place(word.value, code))
        return word.value + (more or 0) if fits else None
    times = _total(read[:at], code) if at else None if code == "en" else 1
    most = word.value if code == "zh" else 1_000 if word.value > 100 else 10
    if times is None or more is None or not 0 < times < most or more >= word.value:
        return None
    return times * word.value + more


def _place(value: int, code: str) -> int:
    """Below what the words behind a round number have to be: behind 20 below 10; 0 behind one that ends a number."""
    if code == "fr" and value in {60, 80}:
        return 20  # soixante et onze
    unit = next((unit for unit in (1_000, 100, 10) if value >= 2 * unit or value == unit == 100), 0)
    return 0 if value % max(unit, 1) else unit


def spoken_number(lower: str) -> Fraction | None:
    """The value of `twenty-one`, `fünfundzwanzig`, `two thirds`, `half`; None where a word is no number."""
    if lower[:1].isdigit():
        return None
    said = lower.replace("-", " ").split()
    if said[:1] == ["a"] and said[1:2] and said[1] in _words("en"):
        said[0] = "one"
    if said in (["half"], ["a", "half"], ["one", "half"]):
        return Fraction(1, 2)
    if len(said) > 1 and said[-1] in _PLURALS and (top := cardinal(" ".join(said[:-1]))) is not None and top > 1:
        return Fraction(top, _PLURALS[said[-1]])
    if len(said) == 2 and said[0] in {"one", "a"} and said[1] in _DENOMINATORS:
        return Fraction(1, _DENOMINATORS[said[1]])
    whole = cardinal(" ".join(said))
    return None if whole is None else Fraction(whole)


_LARGE = "|".join(word for word, n in _words("en").items() if n.power)
_WORD = "|".join(sorted(_words("en"), key=len, reverse=True))
_PART = "|".join(sorted([*_PLURALS, *_DENOMINATORS], key=len, reverse=True))
NUMBER_WORD = rf"(?:{_WORD}|{_PART})(?![^\W\d_])"  # of English, as a part of a pattern
_RUN = pattern(
    rf"(?i)(?<![\w-])(?:a[ -](?={_LARGE}))?+(?:{_WORD})(?:[ -](?:and )?(?:{_WORD}))*+(?:[ -](?:{_PART}))?+(?![\w-])"
)
_SOME = pattern(f"(?:{_WORD})")
_COUNTED = pattern(
    r"(?!\s(?:and|or|second|point|over|times|plus|minus|to|less|more)\b)(?P<noun>(?:\s[^\W\d_]{2,}+){1,3})\Z"
)


def spoken_runs(text: str) -> Iterator[tuple[int, int, str]]:
    """Where numbers stand in words: start, end, words. A lone "one" is a pronoun, and a run that is no number none."""
    if _SOME.search(text.lower()) is None:
        return  # by far the most common, and found fast
    for run in _RUN.finditer(text):
        said = run[0].lower()
        if said not in {"one", "zero"} and spoken_number(said) is not None and not _abroad(text, *run.span()):
            yield run.start(), run.end(), run[0]


def counted(text: str) -> tuple[Fraction, str] | None:
    """The number and the noun of "twenty-five red apples"."""
    run = _RUN.match(text)
    noun = _COUNTED.match(text, run.end()) if run else None
    value = spoken_number(run[0].lower()) if run else None
    return None if noun is None or value is None or _abroad(text, 0, noun.start()) else (value, noun["noun"].strip())


def _abroad(text: str, start: int, end: int) -> bool:
    """Whether a number word of another language is beside: "cent six" and "six cent" are French."""
    beside = (_BEFORE.search(text, max(0, start - 24), start), _AFTER.match(text, end))
    said = [word[1].lower() for word in beside if word is not None]
    return any(len(word) > 3 and any(word in _words(code) for code in LANGUAGES) for word in said)  # not "to", "due"


_BEFORE, _AFTER = pattern(r"(?<![^\W\d_])([^\W\d_]++)[ -]\Z"), pattern(r"[ -]([^\W\d_]++)")

# Ten to the how many: what a number in digits stands before, in words. A word that means two powers is none.
_POWERS = {(word, n.value) for code in LANGUAGES for word, n in _words(code).items() if n.power and n.value > 999}
POWERS = {word: value for word, value in _POWERS if sum(word == other for other, _ in _POWERS) == 1}
_HAN_DIGITS = {c: _Word(n) for n, signs in enumerate(words("零〇 一 二两兩 三 四 五 六 七 八 九")) for c in signs}
_HANGUL_DIGITS = {c: _Word(n) for n, c in enumerate("영일이삼사오육칠팔구")}
_POWERS_OF_TEN = {1: "十십", 2: "百백", 3: "千천", 4: "万萬만", 8: "亿億억"}
_UNITS = {c: _Word(10**n, power=True) for n, signs in _POWERS_OF_TEN.items() for c in signs}
_NUMERALS = _HAN_DIGITS | _HANGUL_DIGITS | _UNITS
DIGITS = frozenset({"十", "십"} | _HAN_DIGITS.keys() | _HANGUL_DIGITS.keys())
NUMERALS = frozenset(_NUMERALS)
_SCALED = pattern(
    rf"(?i)(?<![\d.,])(?P<number>\d[\d.,]*+)(?:\s|\\ )?(?=[^\W\d_])(?:"
    rf"(?P<word>{'|'.join(sorted(POWERS, key=len, reverse=True))})(?![^\W\d_])"
    rf"|(?P<chain>[{''.join(_UNITS)}]++)(?!\s?[\d{''.join(NUMERALS)}]))"
)
_PLAIN = pattern(r"\d++(?:[.,](?:\d{1,2}|\d{4,12}))?")  # of 1.234 nobody knows whether it has thousands or decimals


def scaled(s: str) -> str:
    """`s` with its numbers before powers of ten in words as digits: `2,5 Millionen` is 2500000, `5万元` 50000元."""
    return _SCALED.sub(_digits, s)


def _digits(m: re.Match[str]) -> str:
    power = POWERS[m["word"].lower()] if m["word"] else chinese_number(m["chain"])
    if power is None or not _PLAIN.fullmatch(m["number"]):
        return m[0]
    value = Fraction(m["number"].replace(",", ".")) * power
    return f"{value} " if m["word"] and value.denominator == 1 else str(value)


def chinese_number(said: str) -> int | None:
    """The value of 三百二十五, 两万, 二〇二四, 삼백이십오; None where it is no number."""
    if not said or not set(said) <= NUMERALS or set(said) <= _HANGUL_DIGITS.keys():
        return None  # 이 and 일 are words
    read = [_NUMERALS[c] for c in said]
    if not any(word.power for word in read):
        return int("".join(str(word.value) for word in read))
    return _total([word for word in read if word.value], "zh")
