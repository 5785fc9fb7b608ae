"""What an answer was read as: its value, its tags and, where it has them, its intervals or items; words are text."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from ..._pattern import pattern
from ..algebra.tokens import Token
from ..cleanup import fold, peel
from ..hashes import short
from ..kinds import KeyKind
from ..rules import Rules
from ..tables import rows
from .intervals import RealInterval, spelled


class Reading(NamedTuple):
    kind: KeyKind
    value: str
    tags: frozenset[str] = frozenset()  # "name=x", "unit=cm", "open": what the group rule may leave out
    pieces: tuple[RealInterval, ...] | None = None  # where the value is a set of reals
    items: tuple[Reading, ...] | None = None  # where it is a tuple or a list


Reader = Callable[[list[Token]], Reading]  # of what stands within


def encoded(r: Reading) -> str:
    """One string for an element of a larger structure."""
    return r.value + "".join(f"#{t}" for t in sorted(r.tags))


def listing(items: Sequence[Reading], *, ordered: bool, distinct: bool = False) -> str:
    """The value of a set, a bare list (`distinct` false: 1, 1, 2 is not 1, 2) or an ordered list."""
    keys = [encoded(r) for r in items]
    if ordered:
        return short("list(" + ";".join(keys) + ")")
    return short("{" + ";".join(sorted(set(keys) if distinct else keys)) + "}")


def interval_reading(pieces: Sequence[RealInterval], tags: frozenset[str] = frozenset()) -> Reading:
    said = spelled(pieces)
    if len(pieces) == 1 and said[0] + said[-1] == "()" and "oo" not in said:
        tags |= {"open"}
    return Reading("structured", short(said), tags, pieces=tuple(pieces))


def tagged(r: Reading, *tags: str) -> Reading:
    return r._replace(tags=r.tags | frozenset(tags))


def ruled(r: Reading, rules: Rules) -> Reading:
    """The reading after the judgement calls: tags dropped, or made part of the value."""
    if not r.tags:
        return r
    value, kept = r.value, set()
    for tag in sorted(r.tags):
        of_units = rules.percent if tag == "unit=%" else rules.units
        call = rules.intervals if tag == "open" else rules.names if tag.startswith("name=") else of_units
        if call == "distinct":
            value += "#" + tag
        elif call != "ignore":
            kept.add(tag)
    return r._replace(value=value, tags=frozenset(kept))


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
