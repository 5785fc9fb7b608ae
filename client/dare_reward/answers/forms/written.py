"""Letters and digits that are no product: formulas of chemistry, dates, durations of several units, ordinals.

H_2SO_4, \\text{C}_6\\text{H}_{12}\\text{O}_6 and H2O are formulas. Their order counts: CNO^- is not OCN^-.
"""

from __future__ import annotations

import re

from ..._pattern import pattern
from ..algebra.numbers import number
from ..tables import listed, words
from .reading import Reading
from .units import unit_of

LONGEST = 120  # characters of a formula
_ELEMENTS = frozenset(listed("elements"))
_DRESS = pattern(r"\\(?:mathrm|mathsf|mathbf|textbf|textrm|text|ce|rm|bf|,|;|!)(?![a-z])|[{}_\s]")
_SPECIES = pattern(
    r"(?a)(?P<many>\d{0,2}+)(?:(?:[A-Z][a-z]?+|\((?:[A-Z][a-z]?+\d{0,3}+)++\))\d{0,3}+)++(?:(?P<charge>\^\d?[+-])|(?P<bare>[+-]))?"
)
_SYMBOL = pattern(r"[A-Z][a-z]?")
_COUNT = pattern(r"(?<=[A-Za-z)])\d+")
_CHARGED = pattern(r"\A\\ce\s?\{|\^\{?\d[+-]\}{0,3}\Z")  # Fe^{3+}
_HYBRID = pattern(r"sp\^?(?P<p>[23])(?:d\^?(?P<d>2?))?")
_ION = pattern(r"[A-Z][a-z]?\d+[+-]|.*\d\d[+-]")
_MONTHS = words("january february march april may june july august september october november december")
_MONTH_OF = {m[:n]: k for k, m in enumerate(_MONTHS, 1) for n in (3, len(m))} | {"sept": 9}
_MONTH, _DAY, _YEAR = r"(?P<month>[A-Za-z]{3,9})", r"(?P<day>\d{1,2})(?:st|nd|rd|th)?", r"(?:,?\s*(?P<year>\d{4}))?"
_DATES = (
    pattern(r"(?P<year>\d{4})-(?P<month>\d{2})-(?P<day>\d{2})"),
    pattern(rf"{_MONTH}\.?\s(?:the\s)?{_DAY}{_YEAR}"),
    pattern(rf"(?:the\s)?{_DAY}\s(?:of\s)?{_MONTH}\.?{_YEAR}"),
    pattern(rf"{_MONTH}\.?,?\s(?P<year>\d{{4}})"),
)
_SLASHED = pattern(r"(\d{1,2})/(\d{1,2})/(\d{4})")
_ORDINAL = pattern(
    r"(\d{1,9})(?!\s(?:st|nd|rd|th))\s?\^?\{?(?:\\(?:text|textrm|mathrm|rm))?\s?\{?\s?(?:st|nd|rd|th)(?![a-z])\}{0,2}"
    r"(?:(?:\\[ ,;])?\s?(?:\\text\s?\{)?\s?([a-z]{3,12})\}?)?"
)
_AMOUNT = r"(\d{1,9}(?:\.\d{1,9})?)\s?([a-z]{1,9})\.?"
_DURATION = pattern(rf"{_AMOUNT}(?:(?:\s|,\s?(?:and\s)?|\sand\s){_AMOUNT}){{1,3}}")
_PART = pattern(_AMOUNT)
_FAMILIES = [*map(words, ("year month week day h min s ms", "mi yd ft in", "lb oz", "km m cm mm", "kg g mg"))]


def read_formula(s: str) -> str | None:
    """The formula that `s` spells, in one spelling; None for anything that may be algebra.

    At least two elements and an index, none of them 0 or 1: V_1 T_2 is a volume and a temperature.
    """
    if len(s) > LONGEST or s.isalpha():
        return None
    if _CHARGED.search(s) and (ion := read_species(s)) is not None:
        return ion
    plain, match = _species(s)
    if m := _HYBRID.fullmatch(plain):
        return f"sp{m['p']}" + ("" if m["d"] is None else "d" + m["d"])
    counts = _COUNT.findall(plain.partition("^")[0])
    if match is None or match["bare"] or len({*_SYMBOL.findall(plain)}) < 2 or not counts:
        return None
    return None if any(n[0] == "0" or n == "1" for n in counts) else plain


def read_species(s: str) -> str | None:
    """The molecule, ion or element that a whole text spells, in one spelling: H₂O, $H_2O$ and H2O, Na⁺ and Na+.

    None where only letters are left (CO is not Co, and In is a word), and where a charge and a count look alike: Fe3+.
    """
    if len(s) > LONGEST or s.isalpha() or not s.isascii() or " " in s.strip():
        return None
    plain, match = _species(s)
    if match is None or match["many"]:
        return None
    if match["bare"]:
        return None if _ION.fullmatch(plain) else f"{plain[:-1]}^{plain[-1]}"
    return plain if any(c.isdigit() for c in plain) or match["charge"] else None


def _species(s: str) -> tuple[str, re.Match[str] | None]:
    """`s` without dress, and its match where it is made of elements."""
    plain = _DRESS.sub("", s)
    match = _SPECIES.fullmatch(plain)
    return plain, match if match and set(_SYMBOL.findall(plain)) <= _ELEMENTS else None


def read_date(s: str) -> Reading | None:
    """`March 15, 2024`, `15 March 2024` and `2024-03-15`; `3/15/2024`, whose order nobody knows, equals itself."""
    if m := _SLASHED.fullmatch(s):
        return Reading("text", f"d:{int(m[1])}/{int(m[2])}/{m[3]}")
    said = next((m.groupdict() for date in _DATES if (m := date.fullmatch(s))), {"month": ""})
    month = int(said["month"]) if said["month"].isdigit() else _MONTH_OF.get(said["month"].lower(), 0)
    day = int(said.get("day", 1))
    if not (1 <= month <= 12 and 1 <= day <= 31):
        return None
    return Reading("text", f"d:{'' if 'day' in said else 'month '}{said['year'] or ''}-{month}-{day}")


def read_ordinal(s: str) -> Reading | None:
    """`12th`, `12^{\\text{th}}` and `12^{\\text{th}} \\text{ grade}`: 12, with "the how manieth" for its unit."""
    m = _ORDINAL.fullmatch(s)
    tags = ["unit=th", *([f"unit={m[2]}"] if m and m[2] else [])]
    return None if m is None else Reading("exact", str(int(m[1])), frozenset(tags))


def read_duration(s: str) -> Reading | None:
    """`2 hours 30 minutes`, `5 feet and 3 inches`: the parts in falling units, joined by nothing, a comma or "and"."""
    if not _DURATION.fullmatch(s):
        return None
    parts = [(m[1], unit_of(m[2])) for m in _PART.finditer(s)]
    for family in _FAMILIES:
        places = [family.index(unit) for _, unit in parts if unit in family]
        if len(places) == len(parts) and places == sorted(set(places)):
            return Reading("structured", " ".join(f"{number(n)} {unit}" for n, unit in parts))
    return None
