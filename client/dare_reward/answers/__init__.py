"""Answers (temporary door until the room lands)."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

Kind = Literal["math", "choice", "text", "exact"]
ANSWERS_VERSION = "0"


@dataclass(frozen=True, slots=True)
class Classes:
    index: tuple[int, ...]
    answers: tuple[str, ...]
    kinds: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Extraction:
    answer: str | None
    source: str


def option_letters(options: object) -> tuple[str, ...]:
    return tuple("ABCDEFGHIJ")


def extract(
    text: str, *, kind: Kind = "math", options: Sequence[str] | None = None, closed_only: bool = False
) -> Extraction:
    m = re.findall(r"\\boxed\{([^{}]*)\}", text)
    if m:
        return Extraction(m[-1], "box")
    m = [] if closed_only else re.findall(r"(?:Answer:|A:|####|answer is)[ ]*(.*)", text)
    return Extraction(m[-1].strip() or None, "phrase") if m else Extraction(None, "none")


def _key(a: str) -> object:
    try:
        return Fraction(a.strip())
    except (ValueError, ZeroDivisionError):
        return " ".join(a.split())


def classify(raws: Sequence[str | None], *, kind: Kind = "math", options: Sequence[str] | None = None) -> Classes:
    seen: dict[object, int] = {}
    names: list[str] = []
    idx = []
    for r in raws:
        if r is None or not r.strip():
            idx.append(-1)
            continue
        k = _key(r)
        if k not in seen:
            seen[k] = len(names)
            names.append(r)
        idx.append(seen[k])
    return Classes(tuple(idx), tuple(names), ("exact",) * len(names))


def grade(answer: str | None, label: str | None, *, kind: Kind = "math", options: Sequence[str] | None = None) -> bool:
    return answer is not None and label is not None and _key(answer) == _key(label)
