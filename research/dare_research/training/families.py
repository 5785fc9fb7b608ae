"""Procedural tasks with worked steps.

A problem is worked as a row of facts, such as 7+8+1 or "letter c moved on by 4"; whoever works it decides the result of
each. What follows is worked correctly from that result, so that a wrong solution reads as well as a right one and is as
long.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from hashlib import blake2b
from random import Random
from types import MappingProxyType
from typing import Final

LETTERS: Final = "abcdefghij"
# A fact, its right result, and how many results there are: the result that is written down.
Decide = Callable[[str, int, int], int]


@dataclass(frozen=True, slots=True)
class Exercise:
    """`work(decide)` gives the steps and the answer."""

    prompt: str
    work: Callable[[Decide], tuple[list[str], str]]

    @property
    def answer(self) -> str:
        return self.work(right_result)[1]


Exercises = Sequence[tuple[str, Exercise]]  # each with its family


@dataclass(frozen=True, slots=True)
class Family:
    """`draw(random)`: all problems of a family have prompts of one length and `places` facts.

    slips   probability that the writer of the corpus states a random result, by fact
    """

    name: str
    places: int
    draw: Callable[[Random, int], Exercise]
    slips: float = 0.03

    def problem(self, random: Random) -> Exercise:
        return self.draw(random, self.places)


def right_result(_fact: str, right: int, _ring: int) -> int:
    return right


def fraction(text: str) -> float:
    """A number in [0, 1) that looks random and belongs to the text."""
    return int.from_bytes(blake2b(text.encode(), digest_size=6).digest()) / 2**48


def split_of(prompt: str, shares: Mapping[str, float]) -> str:
    """The split that a prompt belongs to, by its text alone: no prompt is ever in two."""
    at = fraction(prompt)
    for name, share in shares.items():
        if at < share:
            return name
        at -= share
    return name


def add(random: Random, places: int) -> Exercise:
    """a+b, digit by digit from the right: `4+8+1=13`."""
    a, b = (random.randrange(10 ** (places - 1), 10**places) for _ in range(2))

    def work(decide: Decide) -> tuple[list[str], str]:
        steps, carry, out = [], 0, ""
        for p, q in _columns(a, b, places):
            total = decide(fact := f"{p}+{q}+{carry}", p + q + carry, 20)
            steps.append(f"{fact}={total}")
            out, carry = str(total % 10) + out, total // 10
        return steps, (str(carry) if carry else "") + out

    return Exercise(f"A{a}+{b}>", work)


def sub(random: Random, places: int, mark: str = "D") -> Exercise:
    """a-b with a > b, digit by digit from the right: `3-8-0=5b`, b for borrow."""
    b, a = sorted(random.sample(range(10 ** (places - 1), 10**places), 2))

    def work(decide: Decide) -> tuple[list[str], str]:
        steps, borrow, out = [], 0, ""
        for p, q in _columns(a, b, places):
            digit = decide(fact := f"{p}-{q}-{borrow}", (p - q - borrow) % 10, 10)
            borrow = int(p - q - borrow < 0)
            steps.append(f"{fact}={digit}" + "b" * borrow)
            out = str(digit) + out
        return steps, out

    return Exercise(f"{mark}{a}-{b}>", work)


def shift(random: Random, places: int, mark: str = "C") -> Exercise:
    """Each letter moved on by one digit, in a ring of ten letters: `c4g`."""
    letters, by = _letters(random, places), random.randrange(1, 10)

    def work(decide: Decide) -> tuple[list[str], str]:
        moved = [decide(f"{LETTERS[x]}{by}", (x + by) % 10, 10) for x in letters]
        return [f"{LETTERS[x]}{by}{LETTERS[y]}" for x, y in zip(letters, moved, strict=True)], _word(moved)

    return Exercise(f"{mark}{_word(letters)}{by}>", work)


def mirror(random: Random, places: int) -> Exercise:
    """Each letter reflected at one digit, in the ring: `c9h`, for x becomes 9 - x."""
    letters, by = _letters(random, places), random.randrange(10)

    def work(decide: Decide) -> tuple[list[str], str]:
        turned = [decide(f"{LETTERS[x]}{by}", (by - x) % 10, 10) for x in letters]
        return [f"{LETTERS[x]}{by}{LETTERS[y]}" for x, y in zip(letters, turned, strict=True)], _word(turned)

    return Exercise(f"M{_word(letters)}{by}>", work)


def chain(random: Random, places: int, mark: str, sign: int) -> Exercise:
    """A letter moved `places` times, on (sign 1) or back (-1), in the ring: `4g` is a move and where it leads."""
    start, moves = random.randrange(len(LETTERS)), [random.randrange(1, 10) for _ in range(places)]

    def work(decide: Decide) -> tuple[list[str], str]:
        at, steps = start, []
        for by in moves:
            at = decide(f"{LETTERS[at]}{by}", (at + sign * by) % 10, 10)
            steps.append(f"{by}{LETTERS[at]}")
        return steps, LETTERS[at]

    return Exercise(f"{mark}{LETTERS[start]}{''.join(map(str, moves))}>", work)


def _columns(a: int, b: int, places: int) -> list[tuple[int, int]]:
    return [(a // 10**i % 10, b // 10**i % 10) for i in range(places)]


def _letters(random: Random, count: int) -> list[int]:
    return [random.randrange(len(LETTERS)) for _ in range(count)]


def _word(letters: list[int]) -> str:
    return "".join(LETTERS[x] for x in letters)


_USUAL: Final = (Family("add", 3, add), Family("mirror", 5, mirror), Family("sub", 3, sub), Family("shift", 5, shift))
# The same tasks behind other marks: hard facts go by the family's name, so each has its own.
_FURTHER: Final = (
    *(Family(f"shift_{mark}", 5, partial(shift, mark=mark)) for mark in "EFG"),
    *(Family(f"sub_{mark}", 3, partial(sub, mark=mark)) for mark in "HIJ"),
)
# As many hard facts and slips in a problem as `shift` has, however long the chain.
_CHAINS: Final = {
    k: tuple(
        Family(f"chain_{mark}{k}", k, partial(chain, mark=mark, sign=sign), slips=0.15 / k)
        for mark, sign in (("K", 1), ("L", -1), ("N", 1), ("O", -1))
    )
    for k in (2, 4, 8, 16)
}
USUAL: Final = tuple(f.name for f in _USUAL)
FURTHER: Final = tuple(f.name for f in _FURTHER)
CHAINS: Final[Mapping[int, tuple[str, ...]]] = MappingProxyType(
    {k: tuple(f.name for f in own) for k, own in _CHAINS.items()}
)  # by number of steps
FAMILIES: Final[Mapping[str, Family]] = MappingProxyType(
    {f.name: f for f in (*_USUAL, *_FURTHER, *(f for own in _CHAINS.values() for f in own))}
)
