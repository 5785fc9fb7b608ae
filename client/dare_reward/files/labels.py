"""Files of labels and of prompts, joined to groups by `group_id`: a line each, under any name of docs/data.md.

    {"group_id": "7", "label": "204"}                          the right answer, or a list of accepted ones
    {"group_id": "8", "label": null, "decision": "none"}       no rollout is right
    {"group_id": "9", "label": null, "decision": "unknown"}    the labeller cannot tell
    {"group_id": "7", "prompt": "What is 12 * 17?"}            the batches of vLLM and OpenAI return no prompts
    {"custom_id": "7", "body": {"messages": [{"role": "user", ...}]}}      a line of the batch that you sent

The last label of a group wins. `dare-reward label` also writes the prompt, which is compared with the group's.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass
from typing import Any, ClassVar, Final, Generic, Literal, TypeVar

from ..errors import RequestError
from ..membership import agreed_label
from .content import open_records
from .shapes import GROUP_NAMES, JSON, named, prompt_texts, read_value

Decision = Literal["right", "none", "unknown"]
OF_LABELS: Final = {"group_id", "id", "label", "answer", "prompt", "kind", "options", "reference", "meta"}
DECISIONS: Final[tuple[Decision, ...]] = ("right", "none", "unknown")
T = TypeVar("T")


class JoinedFile(Generic[T]):
    """What a file says of groups, by `group_id`, and how much of it found a group."""

    what: ClassVar[str]

    def __init__(self, file: str) -> None:
        self.file = file
        self.entries: dict[str, T] = {}
        self._joined: set[str] = set()
        self._without: list[str] = []  # groups that it should say something of, and does not

    def _refuse(self, why: str, place: str = "") -> RequestError:
        return RequestError(": ".join(filter(None, (self.file, place, why))), code=self.what)

    def _lines(self, cut: Callable[[str], None] | None = None) -> Iterator[tuple[str, str, JSON, dict[str, Any]]]:
        """Each line: its place, its id, and itself by its own names and by ours of a group; none of an empty file.

        cut   is told of a last line that cannot be read, as one is that a failure of power cut off
        """
        try:
            records = open_records(self.file)
        except RequestError as error:
            if error.code == "empty":
                return
            raise
        with closing(records):
            lines = [(f"{records.unit} {number}", value) for number, value in records.items]
        if cut and lines and isinstance(lines[-1][1], RequestError):
            cut(f"{self.file}: left out {lines.pop()[0]}, which is cut off")
        for place, value in lines:
            if isinstance(value, RequestError):
                raise self._refuse(str(value), place)
            if not isinstance(value, Mapping):
                raise self._refuse(f"must be an object with group_id and {self.what[:-1]}", place)
            group, _, _ = named(value, group=True)
            name = read_value(group.get("group_id"), None)
            if not isinstance(name, str) or name == "":
                raise self._refuse(_lacks("group_id"), place)
            yield place, name, value, group

    def _of(self, group: Mapping[str, Any], *, needed: bool = True) -> T | None:
        """What it says of the group."""
        name = str(group.get("group_id"))
        if name in self.entries:
            self._joined.add(name)
        elif needed:
            self._without.append(name)
        return self.entries.get(name)

    def check_joined(self) -> None:
        """RequestError if nothing of it was of any group."""
        if not self._joined:
            ours = f", of a group {self._without[0][:64]!r}" if self._without else ""
            raise self._refuse(
                f"none of its {len(self.entries)} {self.what} is of a group here (its first id is "
                f"{next(iter(self.entries))[:64]!r}{ours}). They are joined by group_id: name the file that belongs to "
                "these groups."
            )


def _lacks(name: str) -> str:
    return f"it has no {name} (or another of {', '.join(GROUP_NAMES[name])})"


class PromptFile(JoinedFile[str]):
    """The prompts of a file. RequestError where a line has no id or no prompt, or an id has two."""

    what = "prompts"

    def __init__(self, file: str) -> None:
        super().__init__(file)
        for place, name, value, _ in self._lines():
            body = value.get("body")
            texts = prompt_texts(body if isinstance(body, Mapping) else value)
            if texts is None:
                raise self._refuse(_lacks("prompt"), place)
            if self.entries.setdefault(name, prompt := "\n".join(texts)) != prompt:
                raise self._refuse(f"{name[:64]!r} had another prompt above", place)
        if not self.entries:
            raise self._refuse("it holds no prompts")

    def join(self, group: Mapping[str, Any]) -> dict[str, Any]:
        """The group with its prompt; one that has a prompt keeps it."""
        found = self._of(group, needed=not group.get("prompt"))
        return {**group, "prompt": group.get("prompt") or found}

    def say(self, tell: Callable[[str], None]) -> None:
        """How many groups stay without a prompt."""
        if self._without:
            tell(f"{self.file}: has no prompt for {len(self._without)} of the groups, such as {self._without[0][:64]}")


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


class LabelFile(JoinedFile[FileLabel]):
    """The labels of a file. RequestError if it holds none, or if something else stands there.

    A last line that was cut off, as by a failure of power, is left out and said.
    """

    what = "labels"

    def __init__(self, file: str, *, tell: Callable[[str], None], empty: bool = False) -> None:
        super().__init__(file)
        self._unused = Counter[str]()  # lines that decide nothing, by why
        for place, name, value, group in self._lines(tell):
            if label := self._label(place, name, value, group):
                self._unused["replaced by a later line"] += self.entries.pop(name, None) is not None
                self.entries[name] = label
            else:
                self._unused["without a label"] += 1
        if not self.entries and not empty:
            raise self._refuse("it holds no labels. `dare-reward label` writes such a file.")

    def _label(self, place: str, name: str, value: JSON, group: JSON) -> FileLabel | None:
        """None for a line that says nothing, as the row of a table without a label does."""
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
        if (label := self._of(group)) is None:
            return dict(group)
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

    def say(self, tell: Callable[[str], None]) -> None:
        """How many labels found a group, and what became of the others."""
        found = Counter(label.decision for name, label in self.entries.items() if name in self._joined)
        none = f"{found['none']} of them without a right answer, {found['unknown']} undecided"
        tell(f"{self.file}: {found.total()} labels, {none}")
        if lost := [name for name in self.entries if name not in self._joined]:
            tell(f"{self.file}: {len(lost)} of {len(self.entries)} labels are of no group here, such as {lost[0][:64]}")
        if lines := ", ".join(f"{count} {why}" for why, count in self._unused.items() if count):
            tell(f"{self.file}: lines not used: {lines}")
