"""Why rollouts have no answer, in the words of a user: what to look at first when most rewards are 0."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

__all__ = ["Unanswered", "reason"]


def reason(rollout: Mapping[str, Any]) -> str:
    """The likeliest reason why no answer was read from a rollout that has none."""
    text = rollout.get("text")
    if rollout.get("answer", text) is None:
        return "no text" if "answer" not in rollout else "the answer is null"
    text = str(rollout.get("answer") or text or "")
    if not text.strip() or rollout.get("num_tokens") == 0:
        return "empty text"
    if text.rfind("<think>") > text.rfind("</think>"):
        return "thinking is not closed"
    if rollout.get("finish_reason") == "length":
        return "cut off at the length limit"
    if "\\boxed" in text or "\\fbox" in text:
        return "nothing readable in the box"
    return "no box and no other announced answer"


@dataclass(slots=True)
class Unanswered:
    """A count over groups. `add` takes a group's rollouts and which of them have an answer."""

    groups: int = 0
    rollouts: int = 0
    reasons: Counter[str] = field(default_factory=Counter)

    def add(self, rollouts: Sequence[Mapping[str, Any]], valid: Sequence[bool]) -> None:
        self.groups += 1
        self.rollouts += len(rollouts)
        self.reasons.update(reason(r) for r, v in zip(rollouts, valid, strict=True) if not v)

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
        return f" (mostly: {common[0][0]})" if common else ""

    def __str__(self) -> str:
        """`29 of 640 rollouts without an answer (mostly: cut off at the length limit)`."""
        return f"{self.count:,} of {self.rollouts:,} rollouts without an answer{self.why}"
