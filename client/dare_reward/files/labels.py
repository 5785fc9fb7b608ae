"""Files of labels, joined to groups by `group_id`: a line each, under any name of docs/data.md.

    {"group_id": "7", "label": "204"}                          the right answer, or a list of accepted ones
    {"group_id": "8", "label": null, "decision": "none"}       no rollout is right
    {"group_id": "9", "label": null, "decision": "unknown"}    the labeller cannot tell

The last line of a group wins. `dare-reward label` also writes the prompt, which is compared with the group's.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import dataclass
from typing import Any, Final, Literal

from ..errors import RequestError
from ..membership import agreed_label
from .content import open_records
from .shapes import GROUP_NAMES, named, read_value

Decision = Literal["right", "none", "unknown"]
OF_LABELS: Final = {"group_id", "id", "label", "answer", "prompt", "kind", "options", "reference", "meta"}
DECISIONS: Final[tuple[Decision, ...]] = ("right", "none", "unknown")


@dataclass(frozen=True, slots=True)
class FileLabel:
    """What one line says: `label` is None unless the decision is `right`; `given` is what a file has in its place."""

    group_id: str
    decision: Decision
    label: Any = None
    prompt: str | None = None
    given: Any = None

    def row(self) -> dict[str, Any]:
        """The line, without what it does not know."""
        row = {"group_id": self.group_id, "label": self.label}
        if self.decision != "right":
            row["decision"] = self.decision
        return row | ({"prompt": self.prompt} if self.prompt else {})


class LabelFile:
    """The labels of a file, by `group_id`. RequestError if it holds none, or if something else stands there.

    A last line that was cut off, as by a failure of power, is left out and said.
    """

    def __init__(self, file: str, *, tell: Callable[[str], None], empty: bool = False) -> None:
        self.file = file
        self.entries: dict[str, FileLabel] = {}
        self._joined: set[str] = set()
        self._without = ""  # the first group that has no label
        self._unused = Counter[str]()  # lines that decide nothing, by why
        for place, value in self._lines(tell):
            if label := self._label(place, value):
                self._unused["replaced by a later line"] += self.entries.pop(label.group_id, None) is not None
                self.entries[label.group_id] = label
            else:
                self._unused["without a label"] += 1
        if not self.entries and not empty:
            raise self._refuse("it holds no labels. `dare-reward label` writes such a file.")

    def _refuse(self, why: str, place: str = "") -> RequestError:
        return RequestError(": ".join(filter(None, (self.file, place, why))), code="labels")

    def _lines(self, tell: Callable[[str], None]) -> list[tuple[str, Any]]:
        """Each line with its place; none of an empty file."""
        try:
            records = open_records(self.file)
        except RequestError as error:
            if error.code == "empty":
                return []
            raise
        with closing(records):
            lines = [(f"{records.unit} {number}", value) for number, value in records.items]
        if lines and isinstance(lines[-1][1], RequestError):
            tell(f"{self.file}: left out {lines.pop()[0]}, which is cut off")
        return lines

    def _label(self, place: str, value: Any) -> FileLabel | None:
        """None for a line that says nothing, as the row of a table without a label does."""
        if isinstance(value, RequestError):
            raise self._refuse(str(value), place)
        if not isinstance(value, Mapping):
            raise self._refuse("must be an object with group_id and label", place)
        group, _, _ = named(value, group=True)
        name = read_value(group.get("group_id"), None)
        if not isinstance(name, str) or name == "":
            raise self._refuse(f"it has no group_id (or another of {', '.join(GROUP_NAMES['group_id'])})", place)
        given, decision = group.get("label", value.get("answer")), value.get("decision", "right")
        label = read_value(given, None)
        if decision not in DECISIONS:
            raise self._refuse(f"decision must be one of {', '.join(DECISIONS)}", place)
        fields = {k for k, v in {**group, **named(value, group=False)[0]}.items() if v is not None} - OF_LABELS
        if fields or {"answer", "label"} <= value.keys():  # beside a label, `answer` is a rollout's
            holds = ", ".join(sorted(fields)) or "answer and label"
            why = f"holds {holds}, as rollouts do, where --labels wants group_id and label. Name a file of labels."
            raise self._refuse(why, place)
        if decision != "right":
            label = None
        elif label in (None, "", []):
            return None
        elif not all(isinstance(one, str) and one.strip() for one in (label if isinstance(label, list) else [label])):
            raise self._refuse("label must be a text, a number or a list of them", place)
        prompt = group.get("prompt")
        return FileLabel(name, decision, label, prompt if isinstance(prompt, str) else None, given)

    def join(self, group: Mapping[str, Any]) -> dict[str, Any]:
        """The group with its label. RequestError where the group says something else, or asks another prompt."""
        name = str(group.get("group_id"))
        if (label := self.entries.get(name)) is None:
            self._without = self._without or name
            return dict(group)
        self._joined.add(name)
        if label.prompt and isinstance(prompt := group.get("prompt"), str) and prompt != label.prompt:
            raise RequestError(f"{self.file} has another prompt for this group_id", code="conflict")
        if label.decision == "unknown":
            return dict(group)
        rollouts = group.get("rollouts")
        members = [r for r in rollouts if isinstance(r, Mapping)] if isinstance(rollouts, list) else []
        how = group.get("kind"), group.get("options")
        marked = any(r.get("correct") is not None for r in members) or bool(group.get("label_conflict"))
        own, right = group.get("label"), None
        if label.decision == "right":
            right = read_value(label.given, None, kind=how[0], options=how[1])
        if marked or (own is not None and right is None) or agreed_label([own, right], *how)[1]:
            raise RequestError(
                f"this group has a label or `correct` flags, and {self.file} labels it too. Leave one of them out.",
                code="conflict",
            )
        if right is not None:
            return {**group, "label": right}
        return {**group, "rollouts": [{**r, "correct": False} for r in members]}

    def check_joined(self) -> None:
        """RequestError if none of its labels was of any group."""
        if not self._joined:
            ours = f", of a group {self._without[:64]!r}" if self._without else ""
            raise self._refuse(
                f"none of its {len(self.entries)} labels is of a group here (its first id is "
                f"{next(iter(self.entries))[:64]!r}{ours}). They are joined by group_id: name the file that belongs to "
                "these groups."
            )

    def say(self, tell: Callable[[str], None]) -> None:
        """How many labels found a group, and what became of the others."""
        found = Counter(label.decision for name, label in self.entries.items() if name in self._joined)
        none = f"{found['none']} of them without a right answer, {found['unknown']} undecided"
        tell(f"{self.file}: {found.total()} labels, {none}")
        if lost := [name for name in self.entries if name not in self._joined]:
            tell(f"{self.file}: {len(lost)} of {len(self.entries)} labels are of no group here, such as {lost[0][:64]}")
        if lines := ", ".join(f"{count} {why}" for why, count in self._unused.items() if count):
            tell(f"{self.file}: lines not used: {lines}")
