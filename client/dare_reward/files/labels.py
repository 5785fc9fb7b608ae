"""Labels in a file of their own: a decision a line, joined to groups by `group_id`; the last line of a group wins.

    {"group_id": "7", "label": "204"}                          the right answer, or a list of accepted ones
    {"group_id": "8", "label": null, "decision": "none"}       no rollout is right
    {"group_id": "9", "label": null, "decision": "unknown"}    the labeller cannot tell

`dare-reward label` also writes the prompt and the seconds that it took. A `prompt` is compared with the group's. Files
of other tools may use the names of docs/data.md for `group_id` and `label`.
"""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
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
    """What one line says: `label` is None unless the decision is `right`."""

    group_id: str
    decision: Decision
    label: Any = None
    prompt: str | None = None
    seconds: float = 0.0

    def row(self) -> dict[str, Any]:
        """The line, without what it does not know."""
        row = {"group_id": self.group_id, "label": self.label}
        if self.decision != "right":
            row["decision"] = self.decision
        return row | {k: v for k, v in (("prompt", self.prompt), ("seconds", round(self.seconds, 1))) if v}


class LabelFile:
    """The labels of a file, by `group_id`. RequestError if it holds none, or if something else stands there.

    A last line that was cut off, as by a failure of power, is left out and said.
    """

    def __init__(self, file: str, *, tell: Callable[[str], None], empty: bool = False) -> None:
        self.file = file
        self.labels: dict[str, FileLabel] = {}
        self._joined: Counter[str] = Counter()
        self._unlabelled = ""  # the first group without a label
        try:
            values = open_records(file)
        except RequestError as error:
            if error.code != "empty":
                raise
            if not empty:
                raise RequestError(f"{file} holds no labels yet", code="labels") from None
            tell(f"{file} holds no labels yet")
            return
        broken: tuple[int, RequestError] | None = None
        with closing(values):
            for number, value in values.items:
                if broken is not None:
                    raise RequestError(f"{file}: {values.unit} {broken[0]}: {broken[1]}", code="labels")
                if isinstance(value, RequestError):
                    broken = number, value
                    continue
                label = _label(value, f"{file}: {values.unit} {number}")
                if label is not None:
                    self.labels.pop(label.group_id, None)
                    self.labels[label.group_id] = label
        if broken is not None:
            tell(f"{file}: left out {values.unit} {broken[0]}, which is cut off")
        if not self.labels and not empty:
            raise RequestError(f"{file} holds no label. `dare-reward label` writes such a file.", code="labels")

    def join(self, group: Mapping[str, Any]) -> dict[str, Any]:
        """The group with its label. RequestError where the group says something else, or asks another prompt."""
        label = self.labels.get(str(group.get("group_id")))
        if label is None:
            self._unlabelled = self._unlabelled or str(group.get("group_id"))
            return dict(group)
        self._joined[label.group_id] += 1
        if label.prompt and isinstance(prompt := group.get("prompt"), str) and prompt != label.prompt:
            raise RequestError(f"{self.file} has another prompt for this group_id", code="conflict")
        if label.decision == "unknown":
            return dict(group)
        rollouts = group.get("rollouts")
        members = [r for r in rollouts if isinstance(r, Mapping)] if isinstance(rollouts, list) else []
        how = group.get("kind"), group.get("options")
        marked = any(r.get("correct") is not None for r in members) or bool(group.get("label_conflict"))
        own = group.get("label")
        if marked or (own is not None and label.label is None) or agreed_label([own, label.label], *how)[1]:
            raise RequestError(
                f"this group has a label or `correct` flags, and {self.file} labels it too. Leave one of them out.",
                code="conflict",
            )
        if label.decision == "right":
            return {**group, "label": label.label}
        return {**group, "rollouts": [{**r, "correct": False} for r in members]}

    def say(self, tell: Callable[[str], None]) -> None:
        """How many labels found a group, and what became of the others."""
        joined = [label for name, label in self.labels.items() if self._joined[name]]
        none, unknown = (sum(label.decision == d for label in joined) for d in ("none", "unknown"))
        tell(f"{self.file}: {len(joined)} labels, {none} of them without a right answer, {unknown} undecided")
        if lost := [name for name in self.labels if not self._joined[name]]:
            tell(f"{self.file}: {len(lost)} of {len(self.labels)} labels are of no group here, such as {lost[0][:64]}")

    def check_joined(self) -> None:
        """RequestError if no label was of any group."""
        if not self._joined:
            theirs, ours = (name[:64] for name in (next(iter(self.labels)), self._unlabelled))
            raise RequestError(
                f"{self.file}: none of its {len(self.labels)} labels is of a group here (its first id is {theirs!r}, "
                f"of a group {ours!r}). They are joined by group_id: name the file that was labelled.",
                code="labels",
            )


def _label(value: Any, place: str) -> FileLabel | None:
    """None for a line that says nothing, as the row of a table without a label does."""
    if not isinstance(value, Mapping):
        raise RequestError(f"{place}: must be an object with group_id and label", code="labels")
    group, _, _ = named(value, group=True)
    name, label = read_value(group.get("group_id"), None), read_value(group.get("label", value.get("answer")), None)
    decision = value.get("decision", "right")
    if not isinstance(name, str) or name == "":
        known = ", ".join(("group_id", *GROUP_NAMES["group_id"]))
        raise RequestError(f"{place}: it has no group_id (or another of {known})", code="labels")
    if decision not in DECISIONS:
        raise RequestError(f"{place}: decision must be one of {', '.join(DECISIONS)}", code="labels")
    fields = {k for k, v in (group | named(value, group=False)[0]).items() if v is not None} - OF_LABELS
    if fields or {"answer", "label"} <= value.keys():  # beside a label, `answer` is a rollout's
        raise RequestError(
            f"{place}: holds {', '.join(sorted(fields)) or 'answer and label'}, as rollouts do, where --labels wants "
            "group_id and label. Name a file of labels.",
            code="labels",
        )
    accepted = label if isinstance(label, list) else [label]
    if decision == "right":
        if label in (None, "", []):
            return None
        if not all(isinstance(each, str) and each.strip() for each in accepted):
            raise RequestError(f"{place}: label must be a text, a number or a list of them", code="labels")
    prompt, seconds = group.get("prompt"), value.get("seconds", 0.0)
    return FileLabel(
        name,
        decision,
        label if decision == "right" else None,
        prompt if isinstance(prompt, str) else None,
        seconds if isinstance(seconds, int | float) else 0.0,
    )


def check_appendable(path: Path) -> None:
    """RequestError unless lines can be added at its end; what a failure of power left of a last one is taken away."""
    with path.open("rb+") as file:
        content = file.read()
        if content.strip() and not content.lstrip().startswith(b"{"):
            raise RequestError(f"{path} holds no JSON lines. Name another file of labels.", code="labels")
        if content and not content.endswith(b"\n"):
            tail = content[content.rfind(b"\n") + 1 :]
            try:
                json.loads(tail)
                file.write(b"\n")
            except ValueError:
                file.truncate(len(content) - len(tail))


def append_label(path: Path, label: FileLabel) -> None:
    """A line at the end of the file, on the disk before this returns: a kill loses nothing that was called saved.

    What a full disk took of a line is taken away again: the next one would stand behind it.
    """
    line = json.dumps(label.row()).encode() + b"\n"
    place = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o644)
    written = 0
    try:
        while written < len(line):
            written += os.write(place, line[written:])
        os.fsync(place)
    except OSError:
        start = os.lseek(place, -written, os.SEEK_END)
        if os.read(place, written) == line[:written]:  # nobody else has written since
            os.ftruncate(place, start)
        raise
    finally:
        os.close(place)
