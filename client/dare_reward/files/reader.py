"""Groups of rollouts from a file, whatever shape they have there, with one message per kind of mistake.

reader = Reader(path)
for number, group in reader: ...        # a group, or the RequestError of what stands there
reader.say(print)                       # what it took for what, and what it left out
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

from ..errors import RequestError, path
from .content import Values, open_values
from .entropy_estimates import EntropyEstimate, fill
from .labels import LabelFile
from .shapes import Loose, Notes, shaped

KINDS = 10  # of mistakes, after which a file is given up
Item = tuple[int, "dict[str, Any] | RequestError"]


class Reader:
    """The groups of a file (`-`: standard input). RequestError at once if it is of a kind that holds none.

    missing   how entropies are estimated where a group has none; its entropy_source then says so
    labels    of another file, joined by `group_id`
    """

    def __init__(self, file: str, *, missing: EntropyEstimate | None = None, labels: LabelFile | None = None) -> None:
        self._values: Values = open_values(file)
        self._missing = missing
        self._labels = labels
        self.notes = Notes()

    @property
    def unit(self) -> str:
        """What groups are numbered by: line, row or entry."""
        return self._values.unit

    def __iter__(self) -> Iterator[Item]:
        """A group without an id gets that of its place. Single rollouts become groups at the end of the file."""
        try:
            yield from map(self._labelled, self._groups())
        finally:
            self._values.close()
        if self._labels is not None:
            self._labels.check_joined()

    def _labelled(self, item: Item) -> Item:
        number, group = item
        if self._labels is None or isinstance(group, RequestError):
            return item
        try:
            return number, self._labels.join(group)
        except RequestError as error:
            return number, error

    def _groups(self) -> Iterator[Item]:
        loose: dict[str, tuple[int, dict[str, Any]]] = {}
        for number, value in self._values.items:
            if isinstance(value, RequestError):
                yield number, value
                continue
            try:
                for place, shape in enumerate(shaped(value, self.notes, missing=self._missing)):
                    if isinstance(shape, Loose):
                        _join(loose.setdefault(shape.key, (number, shape.group))[1], shape)
                    else:
                        yield number, {"group_id": self._name(number, place), **shape}
            except RequestError as error:
                yield number, error
        for number, group in loose.values():
            if self._missing is not None:
                self.notes.estimated += fill(group, self._missing)
            yield number, {"group_id": self._name(number, 0), **group}

    def _name(self, number: int, place: int) -> str:
        return f"{self.unit}-{number}" + (f".{place + 1}" if place else "")

    def gave(self, name: str) -> bool:
        """Whether a group has this id from its place, because the file gives it none."""
        return re.fullmatch(rf"{self.unit}-\d+(\.\d+)?", name) is not None

    def say(self, tell: Callable[[str], None]) -> None:
        """One line for names taken for ours, one for what was left out, one for empty labels, one for estimates."""
        notes = self.notes
        if notes.taken:
            tell("read " + ", ".join(f"{other} as {ours}" for other, ours in notes.taken))
        if notes.ignored:
            names = [f"{name} ({count})" for name, count in notes.ignored.most_common(8)]
            more = f" and {len(notes.ignored) - 8} more" if len(notes.ignored) > 8 else ""
            tell(f"ignored {', '.join(names)}{more}, which nothing here reads")
        if notes.filtered:
            tell(f"left out {notes.filtered:,} line{'s' * (notes.filtered != 1)}: samples read under another filter")
        if notes.unlabelled:
            tell(f"read {notes.unlabelled:,} empty label{'s' * (notes.unlabelled != 1)} as no label")
        if notes.estimated and self._missing is not None:
            how, groups = self._missing, f"{notes.estimated:,} group{'s' * (notes.estimated != 1)}"
            tell(f"estimated the entropies of {groups} by {how.words} ({how.source})")
        if self._labels is not None:
            self._labels.say(tell)


def _join(group: dict[str, Any], loose: Loose) -> None:
    one, other = loose.group.get("label"), group.get("label")
    if one is not None and other is not None and one != other:
        raise RequestError("its siblings have another label", code="conflict")
    group.update({k: v for k, v in loose.group.items() if k != "rollouts" and group.get(k) is None})
    group["rollouts"].append(loose.rollout)


class Faults:
    """Mistakes by their kind: the first of each with its place, and how many more there are like it."""

    def __init__(self, unit: str, tell: Callable[[str], None]) -> None:
        self._unit = unit
        self._tell = tell
        self._kinds: dict[str, tuple[int, str]] = {}
        self._counts: dict[str, int] = {}

    def __len__(self) -> int:
        return sum(self._counts.values())

    def add(self, number: int, error: Exception) -> None:
        """RequestError after ten kinds: such a file is no file of rollouts."""
        text = _message(error)
        kind = re.sub(r"\d+", "#", text)
        self._kinds.setdefault(kind, (number, text))
        self._counts[kind] = self._counts.get(kind, 0) + 1
        if len(self._kinds) > KINDS:
            del self._kinds[kind]
            self.say()
            raise RequestError(f"more than {KINDS} kinds of mistakes: is this a file of rollouts?", code="file")

    def say(self) -> None:
        for kind, (number, text) in self._kinds.items():
            more = self._counts[kind] - 1
            self._tell(f"{self._unit} {number}: {text}" + (f" ({more:,} more like this)" if more else ""))


def _message(error: Exception) -> str:
    """Without the place in a request, of which a file's line is the only group."""
    if not isinstance(error, RequestError):
        return str(error)
    loc = error.loc[2:] if error.loc[:1] == ("groups",) else error.loc
    return f"{path(loc)}: {error.message}" if loc else error.message
