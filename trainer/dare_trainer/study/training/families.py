"""Procedural tasks with worked steps, and how a worked solution goes wrong.

A problem is a row of elementary steps. A slip changes the result of one of them; what follows is worked out correctly
from the changed result, so that a wrong solution reads as well as a right one and is as long.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from random import Random
from types import MappingProxyType
from typing import Final
from zlib import crc32

__all__ = ["FAMILIES", "Family", "Problem", "Slip", "split_of"]

LETTERS: Final = "abcdefghij"
Split = str


@dataclass(frozen=True, slots=True)
class Slip:
    """The result of step `place` is off by `change`."""

    place: int
    change: int


@dataclass(frozen=True, slots=True)
class Problem:
    """`work(slip)` gives the steps and the answer; without a slip they are right.

    features   digits that can be read off the prompt: what a habit of error may depend on
    """

    prompt: str
    places: int
    changes: int
    features: tuple[int, ...]
    work: Callable[[Slip | None], tuple[list[str], str]]

    @property
    def answer(self) -> str:
        return self.work(None)[1]


@dataclass(frozen=True, slots=True)
class Family:
    """`draw(random, size)`: all problems of a size have prompts of one length."""

    name: str
    size: int
    draw: Callable[[Random, int], Problem]


def split_of(prompt: str, shares: Mapping[Split, float]) -> Split:
    """The split that a prompt belongs to, by its hash alone: no prompt is ever in two."""
    at = crc32(prompt.encode()) / 2**32
    for name, share in shares.items():
        if at < share:
            return name
        at -= share
    return name


def add(random: Random, size: int) -> Problem:
    """a+b, digit by digit from the right: `4+8+1=13`."""
    a, b = (random.randrange(10 ** (size - 1), 10**size) for _ in range(2))

    def work(slip: Slip | None) -> tuple[list[str], str]:
        steps, carry, out = [], 0, ""
        for i in range(size):
            p, q = a // 10**i % 10, b // 10**i % 10
            total = _slipped(p + q + carry, slip, i, 20)
            steps.append(f"{p}+{q}+{carry}={total}")
            out, carry = str(total % 10) + out, total // 10
        return steps, (str(carry) if carry else "") + out

    return Problem(f"A{a}+{b}>", size, 19, _digits(f"{a}{b}"), work)


def sub(random: Random, size: int) -> Problem:
    """a-b with a > b, digit by digit: `3-8-0=5b`, b for borrow."""
    b, a = sorted(random.sample(range(10 ** (size - 1), 10**size), 2))

    def work(slip: Slip | None) -> tuple[list[str], str]:
        steps, borrow, out = [], 0, ""
        for i in range(size):
            p, q = a // 10**i % 10, b // 10**i % 10
            digit = _slipped((p - q - borrow) % 10, slip, i, 10)
            steps.append(f"{p}-{q}-{borrow}={digit}" + ("b" if p - q - borrow < 0 else ""))
            out, borrow = str(digit) + out, int(p - q - borrow < 0)
        return steps, out

    return Problem(f"D{a}-{b}>", size, 9, _digits(f"{a}{b}"), work)


def sort(random: Random, size: int) -> Problem:
    """Letters in order, by counting: `a2`, `c1`."""
    letters = [random.randrange(len(LETTERS)) for _ in range(size)]

    def work(slip: Slip | None) -> tuple[list[str], str]:
        values = [_slipped(x, slip, i, len(LETTERS)) for i, x in enumerate(sorted(letters))]
        counts = Counter(values)
        return [f"{LETTERS[k]}{counts[k]}" for k in sorted(counts)], "".join(LETTERS[x] for x in sorted(values))

    return Problem(f"S{_word(letters)}>", size, len(LETTERS) - 1, tuple(letters), work)


def shift(random: Random, size: int) -> Problem:
    """Each letter moved on by a digit k, in a ring of ten: `c4g`."""
    letters, by = [random.randrange(len(LETTERS)) for _ in range(size)], random.randrange(1, 10)

    def work(slip: Slip | None) -> tuple[list[str], str]:
        moved = [_slipped((x + by) % len(LETTERS), slip, i, len(LETTERS)) for i, x in enumerate(letters)]
        return [f"{LETTERS[x]}{by}{LETTERS[y]}" for x, y in zip(letters, moved, strict=True)], _word(moved)

    return Problem(f"C{_word(letters)}{by}>", size, len(LETTERS) - 1, tuple(letters), work)


def _slipped(value: int, slip: Slip | None, place: int, ring: int) -> int:
    return (value + slip.change) % ring if slip is not None and slip.place == place else value


def _digits(text: str) -> tuple[int, ...]:
    return tuple(map(int, text))


def _word(letters: list[int]) -> str:
    return "".join(LETTERS[x] for x in letters)


FAMILIES: Final[Mapping[str, Family]] = MappingProxyType(
    {
        f.name: f
        for f in (Family("add", 3, add), Family("sort", 5, sort), Family("sub", 3, sub), Family("shift", 6, shift))
    }
)
