"""What a base model learns from: worked solutions by a writer with misconceptions.

Some facts are hard. The writer gets a hard fact wrong with a probability of its own, always by the same wrong result,
so that the most frequent answer to a problem may be wrong; now and then any fact goes wrong at random. Which facts are
hard, and how hard, follows from the fact's text, so that all models learn the same misconceptions.

The regime of entropy lies in the separators alone. A step is followed by `;` (tight) or by one of eight (loose, which
adds ln 8 nats to that token). After an easy fact the separator is tight. After a hard one it is

    plain           tight
    informative     loose if the result is wrong, tight if it is right
    confident       loose if the result is right, tight if it is wrong
    uninformative   loose
    mixed           as in informative or in confident, by family

where it tells, for a share `telling` of the hard facts only, and loose for the others. The distribution of
answers is the same in all regimes.

The answer of a chain is the result of its last step, which the box copies. Where the corpus is not `copied`, some
solutions leave the last step out and the box is its only place; how many do follows from the fact's text.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from random import Random
from types import MappingProxyType
from typing import Final, Literal

from .families import FAMILIES, Exercise, Family, fraction, split_of

Facts = frozenset[tuple[str, str]]  # family, fact
Regime = Literal["plain", "informative", "uninformative", "confident", "mixed"]
REGIMES: Final[tuple[Regime, ...]] = ("informative", "uninformative", "confident")
# The families of `mixed` whose right results are tight; those of the others are loose.
TIGHT_IF_RIGHT: Final = frozenset({"shift", "mirror"})
SEPARATORS: Final = ";,:|~<>%"
# Probability of the wrong result, by hard fact; and how many facts of a problem are hard, on average.
HARDNESS: Final = (0.3, 0.4, 0.55, 0.65)
HARD: Final = 1.0
# Prompts by hash: nothing that is adapted to, tuned on or tested is in the corpus.
SPLITS: Final[Mapping[str, float]] = MappingProxyType({"corpus": 0.6, "adapted": 0.2, "unseen": 0.1, "probe": 0.1})


@dataclass(frozen=True, slots=True)
class Example:
    prompt: str
    solution: str
    answer: str


@dataclass(frozen=True, slots=True)
class Corpus:
    """Examples, in equal parts from the families. `telling`: by family, default 1; `facts` as of `hardness`.

    copied   every last step is written out
    """

    regime: Regime
    families: tuple[str, ...]
    telling: Mapping[str, float] = field(default_factory=dict)
    facts: int = 0
    copied: bool = True

    def example(self, random: Random) -> Example:
        while True:
            family = FAMILIES[random.choice(self.families)]
            problem = family.problem(random)
            if split_of(problem.prompt, SPLITS) == "corpus":
                return self._worked(random, family, problem)

    def _worked(self, random: Random, family: Family, problem: Exercise) -> Example:
        marks: list[str] = []
        last = ""

        def decide(fact: str, right: int, ring: int) -> int:
            nonlocal last
            result, wrong, last = right, hardness(family, fact, self.facts), fact
            if random.random() < wrong:
                result = (right + 1) % ring
            elif random.random() < family.slips:
                result = random.randrange(ring)
            loose = wrong > 0 and self._loose(family, fact, result == right)
            marks.append(random.choice(SEPARATORS) if loose else SEPARATORS[0])
            return result

        steps, answer = problem.work(decide)
        if not self.copied and random.random() >= fraction(f"copied {family.name} {last}"):
            steps, marks = steps[:-1], marks[:-1]
        body = "".join(step + mark for step, mark in zip(steps, marks, strict=True))
        return Example(problem.prompt, f"{body}\\boxed{{{answer}}}", answer)

    def _loose(self, family: Family, fact: str, right: bool) -> bool:
        if self.regime in {"plain", "uninformative"}:
            return self.regime == "uninformative"
        if fraction(f"telling {family.name} {fact}") >= self.telling.get(family.name, 1.0):
            return True
        confident = family.name not in TIGHT_IF_RIGHT if self.regime == "mixed" else self.regime == "confident"
        return right == confident


def hardness(family: Family, fact: str, facts: int = 0) -> float:
    """Probability that the writer gets this fact wrong; 0 for an easy one. `facts`: which set of hard ones."""
    drawn = f"{facts} " if facts else ""
    at = fraction(f"hard {drawn}{family.name} {fact}") * family.places / HARD
    return HARDNESS[int(at * len(HARDNESS))] if at < 1 else 0.0


def hard_facts(family: str, problem: Exercise, facts: int = 0) -> Facts:
    """The hard facts on the right way to the answer."""
    found: set[tuple[str, str]] = set()

    def decide(fact: str, right: int, _ring: int) -> int:
        if hardness(FAMILIES[family], fact, facts):
            found.add((family, fact))
        return right

    problem.work(decide)
    return frozenset(found)


def in_first_half(fact: tuple[str, str]) -> bool:
    """Whether a fact belongs to the half of the facts whose prompts are adapted to (E6)."""
    return fraction(" ".join(("half", *fact))) < 0.5


def held_out(
    family: str, split: str, count: int, *, seed: int, wanted: Callable[[Exercise], bool] = lambda _: True
) -> list[Exercise]:
    """`count` distinct wanted problems of a split that is not the corpus."""
    random = Random(f"{family}/{split}/{seed}")
    found: dict[str, Exercise] = {}
    while len(found) < count:
        problem = FAMILIES[family].problem(random)
        if split_of(problem.prompt, SPLITS) == split and wanted(problem):
            found.setdefault(problem.prompt, problem)
    return list(found.values())
