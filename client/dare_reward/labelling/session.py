"""The questions that a person answers, and their decisions on the disk.

A question shows each distinct answer with its votes. Their order is drawn by the group's id, so that neither the order
nor the most voted answer leads the eye, and stays the same when the work is resumed. Certainties are not shown.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from threading import Lock
from typing import Any, Final, cast

from ..answers.classes import grades
from ..answers.labels import read_label
from ..errors import RequestError
from ..files.labels import DECISIONS, FileLabel, LabelFile, append_label, check_appendable
from ..scoring.request import UNLIMITED, prepare

KEYS: Final = 9  # answers that have a key; the others can be chosen too
LONGEST: Final = 2000  # characters of an answer that is typed


@dataclass(frozen=True, slots=True)
class Choice:
    """A distinct answer: how many rollouts give it, and their texts, each with how often it came."""

    answer: str
    votes: int
    texts: tuple[tuple[str, int], ...]


@dataclass(frozen=True, slots=True)
class LabelQuestion:
    """A prompt with its answers, those with a key first; `silent` rollouts give none."""

    group_id: str
    prompt: str
    kind: str
    options: tuple[str, ...] | None
    choices: tuple[Choice, ...]
    silent: int

    def votes(self, label: str) -> int:
        """Rollouts whose answer a label would call right."""
        kind = cast("Any", self.kind)
        answer = read_label(label, kind=kind, options=self.options)
        right = grades([c.answer for c in self.choices], answer, kind=kind, options=self.options)
        return sum(c.votes for c, own in zip(self.choices, right, strict=True) if own)


def question_of(group: Mapping[str, Any]) -> LabelQuestion:
    """The question that a group makes. RequestError if it cannot be read."""
    prepared = prepare([{**group, "group_id": "0"}], limits=UNLIMITED)
    groups, rollouts = prepared.groups, group["rollouts"]
    texts = [Counter[str]() for _ in groups.text_A]
    for place, rollout in zip(groups.answer_R.tolist(), rollouts, strict=True):
        if place >= 0:
            texts[place][str(rollout.get("text") or "")] += 1
    every = [
        Choice(answer, sum(own.values()), tuple(own.most_common()))
        for answer, own in zip(groups.text_A, texts, strict=True)
    ]
    every.sort(key=lambda choice: -choice.votes)
    first = every[:KEYS]
    random.Random(str(group["group_id"])).shuffle(first)  # noqa: S311  (an order, no secret)
    return LabelQuestion(
        str(group["group_id"]),
        str(group.get("prompt") or ""),
        prepared.kinds[0],
        prepared.options[0],
        (*first, *every[KEYS:]),
        len(rollouts) - sum(choice.votes for choice in every),
    )


class Session:
    """Questions in their order, and what was decided, now or on an earlier day, in the file of labels."""

    def __init__(self, questions: Sequence[LabelQuestion], file: Path, *, tell: Callable[[str], None]) -> None:
        self.questions = tuple(questions)
        self.file = file
        self.labels: dict[str, FileLabel] = {}
        self._lock = Lock()
        if file.exists() and file.stat().st_size:
            self.labels = LabelFile(str(file), tell=tell, empty=True).labels
            check_appendable(file)
            for question in questions:
                found = self.labels.get(question.group_id)
                if found and found.prompt and question.prompt and found.prompt != question.prompt:
                    raise RequestError(
                        f"{file} has another prompt for {question.group_id[:64]!r}: it labels another file. Name a new "
                        "one with --labels.",
                        code="labels",
                    )

    def decide(self, group_id: str, decision: str, label: str | None, seconds: float) -> int:
        """How many rollouts a decision calls right, once it is on the disk. RequestError if it makes no sense."""
        question = next((q for q in self.questions if q.group_id == group_id), None)
        if question is None:
            raise RequestError("no question has this group_id", code="group")
        if decision not in DECISIONS:
            raise RequestError(f"decision must be one of {', '.join(DECISIONS)}", code="decision")
        label = label.strip() if decision == "right" and label else None
        if decision == "right" and (not label or len(label) > LONGEST):
            raise RequestError(f"a right answer has 1 to {LONGEST:,} characters", code="label")
        found = FileLabel(group_id, decision, label, question.prompt or None, seconds)
        votes = question.votes(label) if label else 0
        with self._lock:
            append_label(self.file, found)
            self.labels[group_id] = found
        return votes

    @property
    def open(self) -> list[LabelQuestion]:
        """Those without a decision."""
        return [q for q in self.questions if q.group_id not in self.labels]

    def summary(self) -> str:
        """`20 of 32 prompts: 17 right answers, 1 without one, 2 undecided`."""
        own = Counter(self.labels[q.group_id].decision for q in self.questions if q.group_id in self.labels)
        parts = f"{own['right']} right answers, {own['none']} without one, {own['unknown']} undecided"
        return f"{sum(own.values())} of {len(self.questions)} prompts: {parts}"
