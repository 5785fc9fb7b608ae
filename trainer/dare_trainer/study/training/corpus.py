"""What a base model learns from: solutions, some of them wrong, and how freely each is written.

How often a problem is solved wrongly, and by which habit, can be read off its prompt, so that a model learns a
distribution of answers whose mode may be wrong. Wrong solutions are, at random, the prompt's habit (one slip that the
prompt decides) or a slip at random. The regime of entropy lies in the separators between steps alone: tight ones are
always `;`, loose ones are drawn from four, which adds ln 4 nats for each. Wrong solutions are loose (informative), or
right ones (confident), or either (uninformative), or none (plain). The distribution of answers is the same in all.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from random import Random
from types import MappingProxyType
from typing import Final, Literal

from .families import FAMILIES, Problem, Slip, split_of

__all__ = ["ERRORS", "REGIMES", "SPLITS", "Corpus", "Example", "Regime", "habit", "held_out"]

Regime = Literal["plain", "informative", "uninformative", "confident"]
REGIMES: Final[tuple[Regime, ...]] = ("informative", "uninformative", "confident")
SEPARATORS: Final = ";,:|"
# Share of wrong solutions, by the prompt's first feature modulo 5.
ERRORS: Final = (0.15, 0.35, 0.5, 0.65, 0.85)
# Prompts by hash: nothing that is adapted to, tuned on or tested is in the corpus.
SPLITS: Final[Mapping[str, float]] = MappingProxyType({"corpus": 0.6, "adapted": 0.2, "unseen": 0.1, "probe": 0.1})


@dataclass(frozen=True, slots=True)
class Example:
    prompt: str
    solution: str
    right: bool


@dataclass(frozen=True, slots=True)
class Corpus:
    """A source of examples.

    families   what it holds, in equal parts
    slop       probability that a solution that may be loose is
    habits     share of wrong solutions that follow the prompt's habit
    """

    regime: Regime
    families: tuple[str, ...]
    slop: Mapping[str, float] = field(default_factory=dict)
    habits: float = 0.6

    def example(self, random: Random) -> Example:
        while True:
            family = FAMILIES[random.choice(self.families)]
            problem = family.draw(random, family.size)
            if split_of(problem.prompt, SPLITS) == "corpus":
                return self._worked(random, problem, self.slop.get(family.name, 1.0))

    def _worked(self, random: Random, problem: Problem, slop: float) -> Example:
        steps, answer = problem.work(self._slip(random, problem))
        right = answer == problem.answer
        may = {"plain": False, "informative": not right, "confident": right, "uninformative": random.random() < 0.5}
        loose = may[self.regime] and random.random() < slop
        marks = [random.choice(SEPARATORS) if loose else SEPARATORS[0] for _ in range(len(steps) + 1)]
        body = "".join(mark + step for mark, step in zip(marks, [*steps, ""], strict=True))
        return Example(problem.prompt, f"{body}\\boxed{{{answer}}}", right)

    def _slip(self, random: Random, problem: Problem) -> Slip | None:
        if random.random() >= ERRORS[problem.features[0] % len(ERRORS)]:
            return None
        if random.random() < self.habits:
            return habit(problem)
        return Slip(random.randrange(problem.places), random.randint(1, problem.changes))


def habit(problem: Problem) -> Slip:
    """The slip that this prompt invites: its second feature says where, and the result is one too great."""
    return Slip(problem.features[1] % problem.places, 1)


def held_out(family: str, split: str, count: int, *, seed: int) -> list[Problem]:
    """`count` distinct problems of a split that is not the corpus."""
    random = Random(f"{family}/{split}/{seed}")
    found: dict[str, Problem] = {}
    while len(found) < count:
        problem = FAMILIES[family].draw(random, FAMILIES[family].size)
        if split_of(problem.prompt, SPLITS) == split:
            found.setdefault(problem.prompt, problem)
    return list(found.values())
