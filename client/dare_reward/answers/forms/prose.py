"""Keys of words: what is prose, a name or a verdict is compared as text."""

from __future__ import annotations

from ..._pattern import pattern
from ..cleanup import fold, peel
from ..hashes import short

_WRAPPED = pattern(r"\\(?:text|textbf|textit|textrm|textsf|mathrm|mathbf|mbox|emph)\s*+\{([^{}]*+)\}")
_PLAIN = pattern(r"[^\W\d_]{2,}")
_MARKUP = pattern(r"[\\^_{}=<>|$]")
_SPACING = pattern(r"\\[,;:! ]|~|\\quad|\\qquad")


def unwrapped(s: str) -> str:
    """`s` without text commands and spacing."""
    return _SPACING.sub(" ", _WRAPPED.sub(r"\1", s)) if "\\" in s or "~" in s else s


# One verdict in the spellings that models use for it. Different verdicts stay apart: "undefined" is not "no solution".
_VERDICTS = {
    spelling: verdict
    for verdict, spellings in {
        "does not exist": ("dne", "d.n.e", "doesn't exist", "do not exist", "the limit does not exist"),
        "no solution": ("no solutions", "there is no solution", "there are no solutions", "has no solution"),
        "no real solution": ("no real solutions", "there is no real solution", "there are no real solutions"),
        "no real roots": ("no real root",),
        "no integer solution": ("no integer solutions",),
        "infinitely many solutions": ("infinite solutions", "there are infinitely many solutions"),
        "undefined": ("not defined", "is undefined"),
    }.items()
    for spelling in spellings
}  # fmt: skip


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
