"""How many rollouts have no answer and why, by the reasons of `WHY_NONE`: what to look at when most rewards are 0."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

from .extraction.final_answer import WHY_NONE


@dataclass(slots=True)
class Unanswered:
    """A count over groups."""

    rollouts: int = 0
    reasons: Counter[str] = field(default_factory=Counter)

    def add(self, rollouts: int, no_answer: Mapping[str, int] | None) -> None:
        """A group of so many rollouts; `no_answer` counts reasons, as in the diagnostics of a reply."""
        self.rollouts += rollouts
        self.reasons.update(no_answer or {})

    @property
    def count(self) -> int:
        """Rollouts without an answer."""
        return self.reasons.total()

    @property
    def most(self) -> bool:
        """Whether more than half of the rollouts have none."""
        return 2 * self.count > self.rollouts

    @property
    def why(self) -> str:
        """The commonest reason in brackets, or nothing."""
        common = self.reasons.most_common(1)
        return f" (mostly: {WHY_NONE[common[0][0]]})" if common and common[0][0] in WHY_NONE else ""

    def __str__(self) -> str:
        """`29 of 640 rollouts without an answer (mostly: it hit its length limit before it closed a box)`."""
        return f"{self.count:,} of {self.rollouts:,} rollouts without an answer{self.why}"
