"""Keys of words: what is prose, a name or a verdict is compared as text."""

from __future__ import annotations

import re

from .fingerprint import short
from .surface import fold, peel
from .words import words

__all__ = ["NUMBER_WORDS", "is_prose", "opaque_value", "text_value"]

_UNITS = words(
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen",
    "sixteen seventeen eighteen nineteen",
)
_TENS = words("twenty thirty forty fifty sixty seventy eighty ninety")
NUMBER_WORDS = (
    {w: n for n, w in enumerate(_UNITS)}
    | {w: 10 * n for n, w in enumerate(_TENS, 2)}
    | {
        f"{t}{joint}{u}": 10 * n + m
        for n, t in enumerate(_TENS, 2)
        for m, u in enumerate(_UNITS[1:10], 1)
        for joint in "- "
    }
    | {"one hundred": 100, "one thousand": 1000, "one million": 10**6}
)

_WRAPPED = re.compile(r"\\(?:text|textbf|textit|textrm|textsf|mathrm|mathbf|mbox|emph)\s*+\{([^{}]*+)\}")
_SPACING = re.compile(r"\\[,;:! ]|~|\\quad|\\qquad")
_PLAIN = re.compile(r"[^\W\d_]{2,}")
_MARKUP = re.compile(r"[\\^_{}=<>|$]")


def text_value(s: str) -> str:
    """The value of a text key."""
    s = _SPACING.sub(" ", _WRAPPED.sub(r"\1", s))
    return "t:" + short(fold(peel(s)))


def is_prose(s: str) -> bool:
    """Words without mathematics around them."""
    s = _SPACING.sub(" ", _WRAPPED.sub(r"\1", s))
    return _PLAIN.search(s) is not None and _MARKUP.search(s) is None


def opaque_value(s: str) -> str:
    return "o:" + short("".join(s.split()))
