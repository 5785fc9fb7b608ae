"""Groups of rollouts from a file, whatever shape they have there, with one message per kind of mistake.

reader = Reader(path)
for number, group in reader: ...        # a group, or the RequestError of what stands there
reader.say(print)                       # what it took for what, and what it left out
reader.ledger                           # where every record went
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import chain
from typing import Any

from ..errors import RequestError, counted, placed
from ..ledger import FATES, Fate, Ledger
from ..membership import FormedGroup, Member, gather
from .content import FileRecords, open_records
from .entropy_estimates import WORDS, EntropyEstimate, fill
from .labels import LabelFile, PromptFile
from .shapes import Notes, Row, shape_of

AGREED = frozenset({"label", "kind", "options", "group_size", "rollouts"})  # what membership looks at
Item = tuple[int, "dict[str, Any] | RequestError"]
Numbered = tuple[int, dict[str, Any], dict[str, Any]]  # of a rollout that stands alone: its place, its group's fields
Found = dict[str, Any] | FormedGroup[Numbered] | RequestError


class Reader:
    """The groups of a file (`-`: standard input). RequestError at once if it is of a kind that holds none.

    missing      how entropies are estimated where a group has none; its entropy_source then says so
    labels       of another file, joined by `group_id`
    prompts      of another file, joined in the same way
    candidates   those that an engine lists for each token are read
    ledger       counts each group and each rollout that stands alone as one record
    """

    def __init__(
        self,
        file: str,
        *,
        missing: EntropyEstimate | None = None,
        labels: LabelFile | None = None,
        prompts: PromptFile | None = None,
        candidates: bool = False,
    ) -> None:
        self.file = file
        self._records: FileRecords = open_records(file)
        self.missing = missing
        self._top = candidates or (missing is not None and missing.source == "topk")
        self._joins = [given for given in (prompts, labels) if given is not None]  # a label knows its prompt
        self._resumed = self._conflicts = 0
        self._given, self._at = 0, 0  # groups, and the place of the last one
        self._all: int | None = None  # groups, once all is read
        self._filled = 0  # groups whose entropies are estimates
        self.notes = Notes()
        self.ledger = Ledger()

    @property
    def unit(self) -> str:
        """What groups are numbered by: line, row or entry."""
        return self._records.unit

    def __iter__(self) -> Iterator[Item]:
        """A group without an id gets that of its place. Single rollouts become groups at the end of the file."""
        try:
            for number, found, records in self._found():
                self._given, self._at = self._given + 1, number
                yield number, self._counted(number, found, records)
            self._all = self._given
        finally:
            self._records.close()
        for given in self._joins:
            given.check_joined()

    def _counted(self, number: int, found: Found, records: int) -> dict[str, Any] | RequestError:
        """The group, or what is wrong with it, once its records are in the ledger."""
        try:
            group = self._group(number, found)
        except RequestError as error:
            fate: Fate = "unreadable" if error.code in {"json", "encoding", "unreadable"} else "refused"
            self.ledger.count(fate, f"{self.unit} {number}: {fault_message(error)}", records)
            return error
        self.ledger.count("read")
        if records > 1:
            self.ledger.count("merged", records=records - 1)
        return group

    def _found(self) -> Iterator[tuple[int, Found, int]]:
        """What stands in the file, with its place and the number of its records."""
        members: list[Member[Numbered]] = []
        stretches: dict[str | None, tuple[str, int]] = {}
        for number, value in self._records.items:
            shape = value if isinstance(value, RequestError) else shape_of(value, self.notes, top=self._top)
            if isinstance(shape, Member):
                item, stretch = (number, *shape.item), _stretch(stretches, shape)
                members.append(replace(shape, item=item, stretch=stretch))  # type: ignore[arg-type]
            else:
                yield number, shape, 1
        gathered = gather(members)
        if gathered:
            self._all = self._given + len(gathered)
        for formed in gathered:
            self._resumed += formed.repeated
            self._conflicts += formed.label_conflict
            if copies := len(formed.copies):
                self.ledger.count("dropped", "rollouts that stand twice, with one id and one content", copies)
            yield formed.items[0][0], formed.refusal or formed, len(formed.members)

    def _group(self, number: int, found: Found) -> dict[str, Any]:
        """The group with an id, what other files say of it and, if asked for, estimates of entropies that it lacks."""
        if isinstance(found, RequestError):
            raise found
        group = {"group_id": f"{self.unit}-{number}", **(_joined(found) if isinstance(found, FormedGroup) else found)}
        if self.missing is not None and isinstance(group.get("rollouts"), list):
            self._filled += fill(group, self.missing)
        for given in self._joins:
            group = given.join(group)
        return group

    def expected(self) -> int | None:
        """How many groups the file holds, as far as what is read of it tells."""
        return self._records.expected(self._given, self._at) if self._all is None else self._all

    def gave(self, name: str) -> bool:
        """Whether a group has this id from its place, because the file gives it none."""
        return re.fullmatch(rf"{self.unit}-\d+", name) is not None

    def say(self, tell: Callable[[str], None]) -> None:
        """One line for each kind of thing that it read as something else, merged, estimated or left out."""
        notes = self.notes
        if notes.taken:
            tell("read " + ", ".join(f"{other} as {ours}" for other, ours in notes.taken))
        if notes.ignored:
            names = [f"{name} ({count})" for name, count in notes.ignored.most_common(8)]
            more = f" and {len(notes.ignored) - 8} more" if len(notes.ignored) > 8 else ""
            tell(f"ignored {', '.join(names)}{more}: docs/data.md lists the names that are read")
        if self._resumed:
            tell(f"{counted(self._resumed, 'prompt')} came again at a step, as after a restart: each time is a group")
        if notes.unlabelled:
            tell(f"read {counted(notes.unlabelled, 'empty label')} as no label")
        if self._conflicts:
            why = "their rollouts' labels contradict each other. Flags of right rollouts are `correct`."
            tell(f"read {counted(self._conflicts, 'group')} without a label: {why}")
        if self._filled and self.missing is not None:
            how = self.missing.source
            tell(f"estimated the entropies of {counted(self._filled, 'group')} by {WORDS[how]} ({how})")
        for given in self._joins:
            given.say(tell)
        if self.ledger.lost or self.ledger["dropped"]:
            known = [(fate, entry) for fate in FATES if (entry := self.ledger.entries.get(fate))]
            # Why some were lost has been said where they stand.
            counts = [f"{e.count:,} {fate}" + (f" ({e.first})" if fate == "dropped" else "") for fate, e in known]
            tell(f"{'entries' if self.unit == 'entry' else f'{self.unit}s'}: {', '.join(counts)}")


def _joined(formed: FormedGroup[Numbered]) -> dict[str, Any]:
    """The group of rollouts that stood alone. RequestError where they disagree in what they share."""
    stated = [member.item[1].items() for member in (*formed.members, *formed.copies)]
    group: dict[str, Any] = {}
    for name, value in chain.from_iterable(stated):
        if name in AGREED or value is None or value != value:  # noqa: PLR0124  (NaN, which pandas writes for nothing)
            continue
        if group.setdefault(name, value) != value and name not in {"group_id", "prompt", "meta"}:
            raise RequestError(f"its rollouts disagree in {name}", code=f"{name}_conflict")
    return {**group, **formed.fields(), "rollouts": [own for _, _, own in formed.items]}


def _stretch(known: dict[str | None, tuple[str, int]], rollout: Row) -> int:
    """Which stretch of its run's steps a rollout stands in: 0, and one more wherever another step begins."""
    run, *steps = rollout.place[:3]
    if (step := steps[0] or steps[1]) is None:
        return 0
    last, stretch = known.get(run, (step, 0))
    known[run] = step, stretch + (step != last)
    return known[run][1]


def fault_message(error: Exception) -> str:
    """Without the place in a request, of which a file's line is the only group."""
    if not isinstance(error, RequestError):
        return str(error)
    return placed(error, 2 if error.loc[:1] == ("groups",) else 0)
