"""Where every record went that a reader, a join, a run log or a page took in: nothing vanishes without a word.

ledger = Ledger()
ledger.count("read")
ledger.count("refused", "line 7: mean_entropy must be at least 0")
ledger.exit_code     # 1: something was refused
ledger.sentence      # "1 read; 1 refused (line 7: mean_entropy must be at least 0)"

A record ends in exactly one fate. Exit codes, closing lines, the source line of report and page and `GET /info` are
made of these counts and of nothing else.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final, Literal

Fate = Literal["read", "merged", "dropped", "refused", "unreadable"]
FATES: Final[Mapping[Fate, str]] = MappingProxyType(
    {
        "read": "it was used",
        "merged": "it became part of a group that another record began",
        "dropped": "a rule left it out, and nothing is wrong with it",
        "refused": "it could be read, and breaks a rule",
        "unreadable": "its bytes could not be read",
    }
)
LOST: Final[tuple[Fate, ...]] = ("refused", "unreadable")


@dataclass(frozen=True, slots=True)
class Entry:
    """How many records met a fate, and why the first of them did."""

    count: int = 0
    first: str = ""


@dataclass(slots=True)
class Ledger:
    """Counts by fate, each with its first reason."""

    entries: dict[Fate, Entry] = field(default_factory=dict)

    def count(self, fate: Fate, why: str = "", records: int = 1) -> None:
        """Records that met this fate; of several reasons the first is kept."""
        known = self.entries.get(fate, Entry())
        self.entries[fate] = Entry(known.count + records, known.first or why)

    def add(self, other: Ledger) -> None:
        """Everything that another ledger counted."""
        for fate, entry in other.entries.items():
            self.count(fate, entry.first, entry.count)

    def __getitem__(self, fate: Fate) -> int:
        return self.entries.get(fate, Entry()).count

    @property
    def lost(self) -> int:
        """Records that were refused or unreadable."""
        return sum(self[fate] for fate in LOST)

    @property
    def exit_code(self) -> int:
        """Of a command: 0 if nothing was lost, 1 if some was, 2 if nothing could be read."""
        if not self["read"] + self["merged"]:
            return 2
        return int(self.lost > 0)

    @property
    def sentence(self) -> str:
        """`300 read; 12 unreadable (RUN/a.jsonl.gz: ...)`: the fates that occurred, without a full stop."""
        known = ((fate, self.entries[fate]) for fate in FATES if fate in self.entries)
        return "; ".join(f"{e.count:,} {fate}" + (f" ({e.first})" if e.first else "") for fate, e in known)

    def as_json(self) -> dict[str, int]:
        """The count of each fate, for `GET /info`; a first reason may quote a caller's data, so it stays here."""
        return {fate: self[fate] for fate in FATES}
