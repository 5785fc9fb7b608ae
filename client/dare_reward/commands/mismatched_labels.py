"""Labels that equal no answer: those of other prompts or of another kind, and no evidence of anything."""

from __future__ import annotations

from collections.abc import Iterable

from dare_reward.answers.classes import Labels

from .tables import short_answer

LEAST = 8  # prompts with labels and answers of which none are equal


class MismatchedLabels:
    """Counts the prompts that have a label and an answer; `sentence` if no label of LEAST or more equals any."""

    def __init__(self) -> None:
        self._judged = 0
        self._equal = False
        self._first = ""

    def add(self, place: str, label: Labels | None, answers: Iterable[str | None], *, right: bool) -> None:
        """Count a prompt. `right`: one of its rollouts is."""
        first = next((a for a in answers if a is not None), None)
        if label is None or first is None:
            return
        self._judged += 1
        self._equal |= right
        self._first = self._first or f"{place}: label {short_answer(label)}, answer {short_answer(first)}"

    @property
    def sentence(self) -> str | None:
        """What is wrong, with the first prompt as an example."""
        if self._equal or self._judged < LEAST:
            return None
        return (
            f"no label equals any answer in {self._judged} prompts, so that no verdict is given. The first, "
            f"{self._first}. Are the labels of these prompts, and is `kind` right?"
        )
