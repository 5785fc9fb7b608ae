"""Keys of words: what is prose, a name or a verdict is compared as text."""

from __future__ import annotations

from ..._pattern import pattern
from ..cleanup import fold, peel
from ..hashes import short
from ..tables import rows

_WRAPPED = pattern(r"\\(?:text|textbf|textit|textrm|textsf|mathrm|mathbf|mbox|emph)\s*+\{([^{}]*+)\}")
_PLAIN = pattern(r"[^\W\d_]{2,}")
_MARKUP = pattern(r"[\\^_{}=<>|$]")
_SPACING = pattern(r"\\[,;:! ]|~|\\quad|\\qquad")


def unwrapped(s: str) -> str:
    """`s` without text commands and spacing."""
    return _SPACING.sub(" ", _WRAPPED.sub(r"\1", s)) if "\\" in s or "~" in s else s


# One verdict in the spellings that models use for it. Different verdicts stay apart: "undefined" is not "no solution".
_VERDICTS = {
    spelling.strip(): verdict
    for verdict, _, spellings in (row.partition(":") for row in rows("verdicts"))
    for spelling in spellings.split(",")
}


def text_value(s: str) -> str:
    """The value of a text key."""
    said = fold(peel(unwrapped(s)))
    return "t:" + short(_VERDICTS.get(said.replace("’", "'"), said))


def is_prose(s: str) -> bool:
    """Words without mathematics around them: "Lima, Peru"."""
    s = unwrapped(s)
    return _PLAIN.search(s) is not None and _MARKUP.search(s) is None


def opaque_value(s: str) -> str:
    return "o:" + short("".join(s.split()))
