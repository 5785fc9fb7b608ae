"""Chemical formulas: H_2SO_4, \\text{C}_6\\text{H}_{12}\\text{O}_6 and H2O. Their order counts: CNO^- is not OCN^-."""

from __future__ import annotations

import re

from ..._pattern import pattern
from ..tables import listed

LONGEST = 120

_ELEMENTS = frozenset(listed("elements"))
_DRESS = pattern(r"\\(?:mathrm|mathsf|mathbf|textbf|textrm|text|ce|rm|bf|,|;|!)(?![a-z])|[{}_\s]")
_SPECIES = pattern(
    r"(?P<many>\d{0,2}+)(?:(?:[A-Z][a-z]?+|\((?:[A-Z][a-z]?+\d{0,3}+)++\))\d{0,3}+)++(?:(?P<charge>\^\d?[+-])|(?P<bare>[+-]))?",
    re.ASCII,
)
_SYMBOL = pattern(r"[A-Z][a-z]?")
_COUNT = pattern(r"(?<=[A-Za-z)])\d+")
_CHARGED = pattern(r"\A\\ce\s?\{|\^\{?\d[+-]\}{0,3}\Z")  # Fe^{3+}
_HYBRID = pattern(r"sp\^?(?P<p>[23])(?:d\^?(?P<d>2?))?")
_ION = pattern(r"[A-Z][a-z]?\d+[+-]|.*\d\d[+-]")


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
