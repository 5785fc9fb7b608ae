"""Keys of words: what is prose, a name or a verdict is compared as text."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

from ..._pattern import pattern
from ..cleanup import fold, peel
from ..hashes import short
from ..words import words

__all__ = ["is_prose", "opaque_value", "spoken_number", "text_value", "unwrapped"]

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


_WRAPPED = pattern(r"\\(?:text|textbf|textit|textrm|textsf|mathrm|mathbf|mbox|emph)\s*+\{([^{}]*+)\}")
_SPACING = pattern(r"\\[,;:! ]|~|\\quad|\\qquad")
_PLAIN = pattern(r"[^\W\d_]{2,}")
_MARKUP = pattern(r"[\\^_{}=<>|$]")


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
    """Words without mathematics around them."""
    s = unwrapped(s)
    return _PLAIN.search(s) is not None and _MARKUP.search(s) is None


def opaque_value(s: str) -> str:
    return "o:" + short("".join(s.split()))
