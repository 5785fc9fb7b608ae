"""Dates and durations of several units: words and numbers that are no sum, difference or list."""

from __future__ import annotations

from ..._pattern import pattern
from ..algebra.literals import number
from ..tables import words
from .reading import Reading
from .units import unit_of

_MONTHS = words("january february march april may june july august september october november december")
_MONTH_OF = {m[:n]: k for k, m in enumerate(_MONTHS, 1) for n in (3, len(m))} | {"sept": 9}
_YEAR = r"(?:,?\s*(\d{4}))?"
_MONTH_FIRST = pattern(rf"([A-Za-z]{{3,9}})\.?\s(?:the\s)?(\d{{1,2}})(?:st|nd|rd|th)?{_YEAR}")
_DAY_FIRST = pattern(rf"(?:the\s)?(\d{{1,2}})(?:st|nd|rd|th)?\s(?:of\s)?([A-Za-z]{{3,9}})\.?{_YEAR}")
_MONTH_ONLY = pattern(r"([A-Za-z]{3,9})\.?,?\s(\d{4})")
_ISO = pattern(r"(\d{4})-(\d{2})-(\d{2})")
_SLASHED = pattern(r"(\d{1,2})/(\d{1,2})/(\d{4})")
_ORDINAL = pattern(
    r"(\d{1,9})(?!\s(?:st|nd|rd|th))\s?\^?\{?(?:\\(?:text|textrm|mathrm|rm))?\s?\{?\s?(?:st|nd|rd|th)(?![a-z])\}{0,2}"
    r"(?:(?:\\[ ,;])?\s?(?:\\text\s?\{)?\s?([a-z]{3,12})\}?)?"
)
_AMOUNT = r"(\d{1,9}(?:\.\d{1,9})?)\s?([a-z]{1,9})\.?"
_DURATION = pattern(rf"{_AMOUNT}(?:(?:\s|,\s?(?:and\s)?|\sand\s){_AMOUNT}){{1,3}}")
_PART = pattern(_AMOUNT)
_FAMILIES = [
    words(family) for family in ("year month week day h min s ms", "mi yd ft in", "lb oz", "km m cm mm", "kg g mg")
]


def read_date(s: str) -> Reading | None:
    """`March 15, 2024`, `15 March 2024` and `2024-03-15`; `3/15/2024`, whose order nobody knows, equals itself."""
    if m := _ISO.fullmatch(s):
        return _date(m[1], int(m[2]), int(m[3]))
    if m := _SLASHED.fullmatch(s):
        return Reading("text", f"d:{int(m[1])}/{int(m[2])}/{m[3]}")
    if m := _MONTH_FIRST.fullmatch(s):
        return _date(m[3], _MONTH_OF.get(m[1].lower(), 0), int(m[2]))
    if m := _DAY_FIRST.fullmatch(s):
        return _date(m[3], _MONTH_OF.get(m[2].lower(), 0), int(m[1]))
    if m := _MONTH_ONLY.fullmatch(s):
        return _date(m[2], _MONTH_OF.get(m[1].lower(), 0), 1, "month ")
    return None


def _date(year: str | None, month: int, day: int, precision: str = "") -> Reading | None:
    if not (1 <= month <= 12 and 1 <= day <= 31):
        return None
    return Reading("text", f"d:{precision}{year or ''}-{month}-{day}")


def read_ordinal(s: str) -> Reading | None:
    """`12th`, `12^{\\text{th}}` and `12^{\\text{th}} \\text{ grade}`: 12, with "the how manieth" for its unit."""
    m = _ORDINAL.fullmatch(s)
    if m is None:
        return None
    return Reading("exact", str(int(m[1])), frozenset({"unit=th", *([f"unit={m[2]}"] if m[2] else [])}))


def read_duration(s: str) -> Reading | None:
    """`2 hours 30 minutes`, `5 feet and 3 inches`: the parts in falling units, joined by nothing, a comma or "and"."""
    if not _DURATION.fullmatch(s):
        return None
    parts = [(m[1], unit_of(m[2])) for m in _PART.finditer(s)]
    units = [unit for _, unit in parts]
    for family in _FAMILIES:
        if all(unit in family for unit in units):
            places = [family.index(unit) for unit in units if unit is not None]
            if places == sorted(set(places)):
                return Reading("structured", " ".join(f"{number(n)} {unit}" for n, unit in parts))
    return None
