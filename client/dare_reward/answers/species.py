"""Names of species that begin like an option: "E. coli" is not option E with the text "coli"."""

from __future__ import annotations

from .._pattern import pattern
from .tables import listed

# What questions of biology and medicine abbreviate. Options are written in small letters too ("B. increases",
# "C. lupus"), so that nothing but the name itself tells the two apart: no word that says something else is among them.
_EPITHETS = frozenset(listed("epithets"))
_NAMED = pattern(r"[*_]{0,3}+\.[*_]{0,3}+\s++(?P<epithet>[a-z]{3,24})(?![\w-])")


def names_species(following: str) -> bool:
    """Whether a capital letter is the genus of what follows it."""
    named = _NAMED.match(following)
    return named is not None and named["epithet"] in _EPITHETS
