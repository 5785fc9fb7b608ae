"""Equivalence classes of the answers of one group, and the rule that lets a bare value join a tagged one."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Annotated, Any

from .._pattern import pattern
from .keys import Key, key_of
from .kinds import KeyKind, Kind
from .rules import DEFAULT, Rules


@dataclass(frozen=True, slots=True)
class Classes:
    """The answers of a group: `index` per rollout (-1 without an answer), one entry per class elsewhere.

    `keys`: what the answers of each class are compared by.
    `apart`: the pairs of classes that have one value and other units or names, 5 cm and 5 m, and so were not merged.
    """

    index: tuple[int, ...]
    answers: tuple[str, ...]
    keys: tuple[Key, ...]
    apart: tuple[tuple[int, int], ...] = ()

    @property
    def kinds(self) -> tuple[KeyKind, ...]:
        return tuple([key.kind for key in self.keys])


def classify(
    raws: Sequence[str | None],
    *,
    kind: Kind = "math",
    options: Sequence[str] | None = None,
    **rules: Annotated[Any, Rules],
) -> Classes:
    """The classes of a group, in the order in which they are first seen.

    A class is represented by its plainest spelling, whatever the order and number of the rollouts: the one with the
    fewest backslashes and equals signs, of these with the fewest words, of these the shortest, of these the first in
    code points. So 1560 stands for `\\text{1560}` and 1,560, and 3645 for 3645.0.
    `rules`: the judgement calls, by name.
    """
    return classes_of(raws, kind, options, Rules(**rules))


def classes_of(
    raws: Sequence[str | None],
    kind: Kind,
    options: Sequence[str] | None,
    rules: Rules,
    *,
    known: dict[str, Key | None] | None = None,
    after_each: Callable[[], None] = lambda: None,
) -> Classes:
    """`classify` with the rules gathered.

    known       the keys that other groups of the same kind and options have asked for; those of this one are added
    after_each  is called after each answer that is read, and may raise to end the work
    """
    known = {} if known is None else known
    spellings: dict[Key, list[str]] = {}
    place = dict.fromkeys(raws, -1)
    for raw in place:
        if raw is None:
            continue
        if raw not in known:
            known[raw] = key_of(raw, kind, options, rules)
            after_each()
        if (key := known[raw]) is not None:
            spellings.setdefault(key, []).append(raw)
    apart: tuple[tuple[int, int], ...] = ()
    if [key for key in spellings if key.tag]:
        homes, joined = _homes(spellings), dict[Key, list[str]]()
        for key, same in spellings.items():
            joined.setdefault(homes[key], []).extend(same)
        spellings = joined
        seen: dict[tuple[str, str], list[int]] = {}
        for n, home in enumerate(spellings):
            seen.setdefault((home.kind, home.value), []).append(n)
        apart = tuple(pair for same in seen.values() for pair in pairwise(same))
    place |= {raw: n for n, same in enumerate(spellings.values()) for raw in same}
    answers = tuple([same[0] if len(same) == 1 else min(same, key=_plainness) for same in spellings.values()])
    return Classes(tuple(map(place.__getitem__, raws)), answers, tuple(spellings), apart)


def _plainness(raw: str) -> tuple[int, int, int, str]:
    """Smaller for a plainer spelling."""
    said = raw.strip()
    return (said.count("\\") + said.count("="), len(_WORD.findall(said)), len(raw), raw)


_WORD = pattern(r"[^\W\d_]{2,}")
_INDEXED = pattern(r"(name=[^\W\d_]+)_[A-Za-z ]{2,}(?=\Z|\|)")
Labels = str | Sequence[str]  # the right answer, or several of which any is right


def listed(label: Labels | None) -> Sequence[str]:
    """The answers that a label accepts."""
    return (label,) if isinstance(label, str) else label or ()


def grade(
    answer: str | None,
    label: Labels | None,
    *,
    kind: Kind = "math",
    options: Sequence[str] | None = None,
    **rules: Annotated[Any, Rules],
) -> bool:
    """Whether the two are one answer: whether a group of just these has one class. No answer equals nothing.

    Of several accepted labels the answer must equal one.
    """
    return grades((answer,), label, kind=kind, options=options, rules=Rules(**rules))[0]


def grades(
    answers: Iterable[str | None],
    label: Labels | None,
    *,
    kind: Kind = "math",
    options: Sequence[str] | None = None,
    rules: Rules = DEFAULT,
    after_each: Callable[[], None] = lambda: None,
) -> list[bool]:
    """`grade` of each answer against one label, which is read once however many answers there are.

    after_each  is called after each accepted label that is read, and may raise to end the work
    """
    wanted: dict[tuple[str, str], list[Key]] = {}
    for one in listed(label):
        if (key := key_of(one, kind, options, rules)) is not None:
            wanted.setdefault((key.kind, key.value), []).append(key)
        after_each()
    keys = (None if a is None or not wanted else key_of(a, kind, options, rules) for a in answers)
    return [
        k is not None and any(len({*_homes((k, one)).values()}) == 1 for one in wanted.get((k.kind, k.value), ()))
        for k in keys
    ]


def _homes(keys: Iterable[Key]) -> dict[Key, Key]:
    """The class of each key, named by a key.

    Of the tags that occur with one value, those that are part of no other name the classes; a key joins such a class
    if its own tag is part of exactly one of them. So 5 joins 5 cm unless 5 m is there too, and no two tags ever merge.
    A name is part of the same name with a word for its index: V of V_max.
    """
    homes = {key: key for key in keys}
    if not any(key.tag for key in homes):
        return homes
    by_value: dict[tuple[str, str], dict[Key, frozenset[str]]] = {}
    for key in homes:
        parts = frozenset([*filter(None, key.tag.split("|")), *_INDEXED.findall(key.tag)])
        by_value.setdefault((key.kind, key.value), {})[key] = parts
    for same in by_value.values():
        for key, parts in same.items():
            above = {other: more for other, more in same.items() if parts < more}
            top = [other for other, more in above.items() if not any(more < most for most in above.values())]
            if len(top) == 1:
                homes[key] = top[0]
    return homes
