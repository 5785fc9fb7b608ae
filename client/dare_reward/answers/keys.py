"""The canonical key of an answer: a pure function of its text, so that equality is an equivalence relation."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from contextlib import suppress
from fractions import Fraction
from functools import lru_cache
from typing import Annotated, Any, NamedTuple

from .._pattern import pattern
from .algebra.numbers import BUDGET, start_budget, work
from .algebra.tokens import CALLED, Token, spell, tokenise
from .cleanup import MAX_CHARS, clean, fold, peel, raised
from .derivations import conclusion, is_derivation
from .extraction.letters import choice_letter
from .forms.reading import Reading, is_prose, opaque_value, ruled, tagged, text_value, unwrapped
from .forms.structures import read
from .forms.units import UNITS, unit_of
from .forms.written import read_date, read_duration, read_formula, read_ordinal, read_species
from .hashes import short
from .kinds import KeyKind, Kind, Unreadable
from .languages import stem
from .literal_values import UNPARSED, literal_value, value_text
from .markup import without_html
from .number_words import DIGITS, NUMERALS, POWERS, chinese_number, counted, scaled, spoken_number
from .rules import DEFAULT, Rules

ANSWERS_VERSION = "8"
CACHE_SIZE = 100_000
CACHE_CHARS = 256  # longer answers are not kept, so that the cache stays below some 50 MB
_NUMBER = pattern(r"[-+]?\d{1,40}(?:\.\d{1,40})?", re.ASCII)
_RATIO = pattern(r"([-+]?\d{1,30})/(\d{1,30})|([-+]?)\\[dt]?frac\{(\d{1,30})\}\{(\d{1,30})\}", re.ASCII)
_LISTED = pattern(r"(?<=[^\W\d_]),(?=[^\W\d_])|;(?=[^\s\\])")  # b,e is b, e
_ARTICLE = pattern(r"\AA (?=[a-z]{2})")
_BLANK = pattern(r"[Nn]a[Nn]|(?:\{\}|[\s.…?·•*_$\\},;:!~\"'`—–-])*+")  # NaN: pandas has nothing there
_WORDS = pattern(r"[A-Za-z]++(?:[ '-]++[A-Za-z]++)*+")
_OPTION = pattern(r"(?:[Oo]ption|[Cc]hoice|[Aa]nswer)\s*+\(?([A-J])\)?")
_MERIDIEM = pattern(r"(?<=\d)\s*+([AaPp])\.\s?[Mm]\.?$")
_LETTERS = frozenset("abcxyz")
# \\textbf{(C) } 12, (a) -3, C. 12: an option's letter before its value, as contests of AMC and AIME write.
_OPTION_VALUE = pattern(
    r"(?:\\(?:text|textbf|textrm|mathrm|mathbf)\s*+\{\s*+)?(?:\(\s?(?P<letter>[A-Ea-e])\s?\)|(?P<dotted>[A-E])[.)](?=[\s}\\~]))"
    r"[\s}~]*+(?:\\(?:[,;:! ]|q?quad(?![a-z])))*+\s*+(?P<value>[-+$\\]{0,2}(?:\d|[a-z]{3})[^()]*+)"
)
_ABROAD = pattern(
    r"(?P<number>[-+\d.,/ \\{}a-z^%()]*?)[ \t]*+(?P<unit>[^\x00-\u036f\s\d]"
    r"(?:[^\x00-\u036f\s\d]|\s(?=[^\x00-\u036f\s\d])){0,23}+\.?)"
)
_OF_FORMULAS = frozenset({"LATIN", "GREEK", "MATHEMATICAL", "FULLWIDTH", "DOUBLE-STRUCK"})  # what letters are called
_PAIR = pattern("[b-df-hj-np-tv-z]{2}|[b-df-hj-np-tv-xz]{3}")  # mn is a product, a word has a vowel
_READABLE_WORDS = frozenset({"pi", "infinity", "inf", "e", "i"})
_AMONG = frozenset({"pi", "and", "or"})
_JOINT = pattern("[ '-]+")
_SETS = dict.fromkeys(("empty set", "the empty set", "null set"), Token("op", "empty")) | dict.fromkeys(
    ("all real numbers", "all reals", "real numbers", "the set of all real numbers", "all real values"),
    Token("set", "R"),
)
_LOG = ("fn", "log")
_HEXADECIMAL = pattern(r"0x([0-9A-Fa-f]{1,40})|0b([01]{1,40})")


class Key(NamedTuple):
    """Two answers of a group are the same if `kind` and `value` are, and the group rule joins their tags.

    A tuple, because it is hashed for each answer of each group.
    """

    kind: KeyKind
    value: str
    tag: str = ""


def canonical(
    raw: str,
    *,
    kind: Kind = "math",
    options: Sequence[str] | None = None,
    **rules: Annotated[Any, Rules],
) -> Key | None:
    """The key of `raw`, None where it is no answer. Never raises on a str, and costs less than 50 ms on any.

    `rules`: the judgement calls, by name.
    """
    return key_of(raw, kind, options, Rules(**rules))


def key_of(raw: str, kind: Kind, options: Sequence[str] | None, rules: Rules) -> Key | None:
    """`canonical` with the rules gathered; what `classify` calls for each answer."""
    if kind == "math":
        key, steps = _cached_math(raw, rules) if len(raw) <= CACHE_CHARS else _counted_math(raw, rules)
        work.spent += steps
        return key
    if kind == "choice":
        letter = choice_letter(raw, options)
        return None if letter is None else Key("exact", letter)
    if not raw.strip():
        return None
    if kind == "literal":
        value = literal_value(raw)
        return Key("exact", short(value_text(raw if value is UNPARSED else value)))
    if kind == "exact":
        return Key("exact", raw if len(raw) <= CACHE_CHARS else short(raw))
    return _text(raw)


def is_answer(raw: str, kind: Kind, options: Sequence[str] | None) -> bool:
    """Whether `key_of` gives a key, without the work of reading mathematics."""
    if kind != "math":
        return key_of(raw, kind, options, DEFAULT) is not None
    s = clean(raw)
    return bool(raw.strip()) if s is None else _BLANK.fullmatch(s) is None


def _text(raw: str) -> Key | None:
    if len(raw) > 2 * MAX_CHARS:
        return Key("text", "t:" + short(" ".join(raw.split())))
    said = peel(without_html(raw))
    if not said.isascii():
        said = raised(said)
    said = _ARTICLE.sub("a ", _LISTED.sub(r"\g<0> ", said))
    value = read_species(said) or fold(said)
    return Key("text", "t:" + short(value)) if value else None


def _counted_math(raw: str, rules: Rules) -> tuple[Key | None, int]:
    """The key, and the steps that it took: one that is taken from the cache counts as if it were read."""
    start_budget()
    try:
        key = math_key(raw, rules)
    except Exception:  # noqa: BLE001 - a mistake in this room must cost one merge, never a training step; the fuzzer calls math_key
        key = Key("opaque", opaque_value(raw))
    return key, BUDGET - work.left


def math_key(raw: str, rules: Rules) -> Key | None:
    """The key of mathematics; raises nothing that is known."""
    if (fast := _fast(raw, rules)) is not None:
        return fast
    if not raw.isascii():
        if (value := spoken_number(raw.strip().lower())) is not None:
            return Key("exact", str(value))
        raw = scaled(raw)  # Greek words become letters of formulas below
    s = clean(raw)
    if s is None:
        return None if not raw.strip() else Key("opaque", opaque_value(raw))
    if _BLANK.fullmatch(s):
        return None
    if (fast := _fast(s, rules)) is not None:
        return fast
    start_budget()
    derives = is_derivation(s)
    if derives and (last := _concluded(s, rules)) is not None:
        return last
    try:
        return _key(scaled(s), rules)
    except (Unreadable, RecursionError):
        return (None if derives else _concluded(s, rules)) or _unread(s)


def _key(s: str, rules: Rules) -> Key:
    reading = ruled(_read(s, rules), rules)
    return Key(reading.kind, reading.value, "|".join(sorted(reading.tags)))


_cached_math = lru_cache(maxsize=CACHE_SIZE)(_counted_math)


def _fast(s: str, rules: Rules) -> Key | None:
    """Plain integers, decimals and fractions without a parser."""
    if rules.significant:
        return None
    if _NUMBER.fullmatch(s):
        return Key("exact", short(str(Fraction(s) if "." in s else int(s))))
    if (m := _RATIO.fullmatch(s)) is None:
        return None
    top, bottom = (m[1], m[2]) if m[1] else (m[3] + m[4], m[5])
    return Key("exact", str(Fraction(int(top), int(bottom)))) if int(bottom) else None


def _read(s: str, rules: Rules) -> Reading:
    if m := _OPTION_VALUE.fullmatch(s):
        return tagged(_read(clean(m["value"]) or "", rules), "name=(" + (m["letter"] or m["dotted"]).upper() + ")")
    if s[0].isalpha() and "\\" not in s and (value := spoken_number(s.lower())) is not None:
        return Reading("exact", str(value))
    if not s.isascii() and (foreign := _counted_abroad(s, rules)) is not None:
        return foreign
    if s[0].isalpha() and (many := counted(s)) is not None:
        s = f"{many[0]} {many[1]}"  # twenty-five apples
    said = s.replace("~", " ").replace("\\ ", " ")  # the blanks of \text{red~fox}
    if (_WORDS.fullmatch(said) or _OPTION.fullmatch(said)) and (word := _plain_words(said)) is not None:
        return word
    if s[0] == "(" and _WORDS.fullmatch(said[1:-1]) and (word := _plain_words(said[1:-1])) and word.kind == "text":
        return word  # (red) is no product of letters
    if s[0].isalnum() and (found := _written_out(s)) is not None:
        return found
    if (formula := read_formula(s)) is not None:
        return Reading("text", "t:" + short(formula))
    tokens = tokenise(_MERIDIEM.sub(lambda m: f" {m[1].lower()}m", s))
    if rules.log == "natural":  # a logarithm that names no base
        after = [*(t.text for t in tokens[1:]), ""]
        tokens = [
            t._replace(text="ln") if t[:2] == _LOG and n != "_" else t for t, n in zip(tokens, after, strict=True)
        ]
    return read(tokens, rules)


def _counted_abroad(s: str, rules: Rules) -> Reading | None:
    """`18元`, `18 руб.`, `三百元`: a number with a unit in another script, which is a tag as it is written."""
    m = _ABROAD.fullmatch(s)
    letters = [c for c in m["unit"] if c.isalpha()] if m else []
    scripts = {unicodedata.name(c, "LATIN").split()[0] for c in letters}
    if m is None or not letters or not scripts.isdisjoint(_OF_FORMULAS):
        return None
    if any(unicodedata.category(c)[0] not in "LMZ" for c in m["unit"].rstrip(".")):
        return None
    number, unit = m["number"].strip(), m["unit"].strip().rstrip(".")
    if number:
        r = read(tokenise(number), rules)
        if unit.partition(" ")[0] in POWERS or unit[0] in NUMERALS:
            return None  # 3万5千
        return None if any(t.startswith("unit=") for t in r.tags) else tagged(r, "unit=" + stem(unit))
    digits = next((i for i, c in enumerate(unit) if c not in NUMERALS), len(unit))
    said = chinese_number(unit[:digits])
    noun = unit[digits:]
    if said is None or len(noun) > min(3, 2 * digits - 1) or (noun and DIGITS.isdisjoint(unit[:digits])):
        return None  # 三角形 is a triangle, 千克 a kilogram
    r = read(tokenise(str(said)), rules)
    return tagged(r, "unit=" + noun) if noun else r


def _written_out(s: str) -> Reading | None:
    """Dates, durations, ordinals, hexadecimal numbers: what would be read as arithmetic or a product of letters."""
    if len(s) > 80 or ("\\" in s and "text" not in s and "rm" not in s):
        return None
    if m := _HEXADECIMAL.fullmatch(s):
        return read(tokenise(f"0{m[1].upper()}_{{16}}" if m[1] else f"{m[2]}_2"), DEFAULT)
    plain = " ".join(unwrapped(s).split())
    return read_date(plain) or read_duration(plain) or read_ordinal(s)


def _plain_words(s: str) -> Reading | None:
    """Words alone are text: an anagram is not a product in another order."""
    if m := _OPTION.fullmatch(s):
        return read(tokenise(m[1]), DEFAULT)
    lower = " ".join(s.lower().split())
    if lower in _SETS:
        return read([_SETS[lower]], DEFAULT)
    amount, _, unit = lower.rpartition(" ")
    if unit in UNITS and unit != "second" and (value := spoken_number(amount)) is not None:
        return Reading("exact", str(value), frozenset({f"unit={unit_of(unit)}"}))
    return None if _is_formula(s) else Reading("text", text_value(s))


def _is_formula(s: str) -> bool:
    """Whether letters are variables and functions: `x and y`, `sin x`, `abc`, `mn`; not `cat and dog`, `sin`, `cm`."""
    said = s.split()
    if len(said) > 1 and all(len(word) == 1 or word in CALLED or word.lower() in _AMONG for word in said):
        return True
    letters = len(s) <= 3 and set(s) <= _LETTERS
    product = _PAIR.fullmatch(s) is not None and s not in UNITS
    return letters or product or s.lower() in _READABLE_WORDS or all(len(word) == 1 for word in _JOINT.split(s))


def _concluded(s: str, rules: Rules) -> Key | None:
    """The key of what a derivation ends with, where that is a value."""
    last = conclusion(s)
    if last is None or len(last) >= len(s):
        return None
    try:
        key = _key(clean(last) or "", rules)
    except (Unreadable, RecursionError, IndexError):
        return None
    return key if key.kind in {"exact", "structured"} or key.value.startswith("~") else None


def _unread(s: str) -> Key:
    if is_prose(s):
        return Key("text", text_value(s))
    with suppress(Unreadable):
        s = spell(tokenise(s))
    return Key("opaque", opaque_value(s))
