"""A page as what it says: its tables by heading, its sentences by template, and the numbers that nobody recomputed."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import NamedTuple

NUMBER = re.compile(r"(?<![\w.])[-+±]?\.?\d[\d,.]*\d|(?<![\w.])[-+±]?\d")
APART = re.compile(r"`[^`\n]*`|\]\([^)\s]*\)|https?://\S+|arXiv:\S+|<!--.*?-->|\b[0-9a-f]{40}\b", re.DOTALL)
SLOT = re.compile(r"\{([^{}]+)\}")
PLAIN = r"[-+]?\d*[\d,.]*\d%?"
WHOLE = PLAIN + r" \([-+]?[\d.]+ to [-+]?[\d.]+\)|0, it is the vote"  # an estimate with its interval

Row = Callable[[dict[str, str]], "dict[str, str] | None"]


class Figure(NamedTuple):
    """What a page says at a place, and what the results say."""

    page: str
    place: str
    said: str
    found: str

    @property
    def same(self) -> bool:
        return self.said == self.found

    def __str__(self) -> str:
        return f"{self.page}: {self.place}: {self.said}" + ("" if self.same else f"   BUT THE RESULTS SAY {self.found}")


class Cell(NamedTuple):
    text: str
    start: int
    end: int


class Table(NamedTuple):
    """A table under its headings; `place` names them."""

    place: str
    head: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]


@dataclass
class Page:
    """A page of the repository. What is checked in it is covered; `rest` are the numbers that are not."""

    name: str
    text: str
    covered: list[tuple[int, int]] = field(default_factory=list)

    @classmethod
    def of(cls, root: Path, name: str) -> Page:
        return cls(name, (root / name).read_text(encoding="utf-8"))

    def tables(self) -> Iterator[Table]:
        trail: list[str] = []
        rows: list[tuple[Cell, ...]] = []
        at = 0
        for line in [*self.text.splitlines(keepends=True), "\n"]:
            if line.startswith("|"):
                rows.append(tuple(_cells(line, at)))
            elif rows:
                names = [cell.text for cell in rows[0]]
                head = tuple(f"{n} {names[:i].count(n) + 1}" if n in names[:i] else n for i, n in enumerate(names))
                yield Table(" / ".join(trail), head, tuple(rows[2:]))
                rows = []
            if line.startswith("#"):
                level = len(line) - len(line.lstrip("#"))
                trail = [*trail[: level - 2], line.strip("# \n")] if level > 1 else []
            at += len(line)

    def check(self, table: Table, row: Row) -> Iterator[Figure]:
        """Each cell that `row` recomputes from the row's other cells, by the name of its column."""
        for cells in table.rows:
            said = dict(zip(table.head, (c.text for c in cells), strict=True))
            try:
                cells_found = row(said) or {}
            except (LookupError, ValueError, AssertionError, StopIteration):  # its names are of no run
                yield Figure(self.name, table.place, " | ".join(said.values()), "nothing of these names")
                continue
            for name, found in cells_found.items():
                if name not in table.head:
                    yield Figure(self.name, table.place, " | ".join(table.head), f"a column {name}")
                    continue
                cell = cells[table.head.index(name)]
                self.covered.append((cell.start, cell.end))
                words = ", ".join(t for n, t in said.items() if n != name and not NUMBER.fullmatch(t))[:60]
                yield Figure(self.name, f"{table.place}: {words}: {name}", cell.text, found)

    def says(self, template: str, value: Callable[[str], str]) -> Iterator[Figure]:
        """The sentence of a template, wherever its lines break: each {slot} says the value of that name."""
        told = re.sub(r"\s+", " ", template.strip())
        parts = SLOT.split(told)
        found = [value(name) for name in parts[1::2]]
        slots = [(WHOLE if "(" in f or "it is" in f else PLAIN).replace(" ", r"\s+") for f in found]
        pattern = "".join(
            f"({slots[i // 2]})" if i % 2 else re.escape(part).replace(r"\ ", r"\s+") for i, part in enumerate(parts)
        )
        places = re.finditer(pattern, self.text)
        match = next((m for m in places if m.span(1) not in self.covered), None)  # another row may read alike
        if match is None:
            yield Figure(self.name, told, "the page does not say so", "")
            return
        for at, name in enumerate(parts[1::2], 1):
            self.covered.append(match.span(at))
            said = re.sub(r"\s+", " ", match.group(at))
            yield Figure(self.name, SLOT.sub("..", told)[:60] + f": {name}", said, found[at - 1])

    def lines(self, told: Iterator[str]) -> Iterator[Figure]:
        """Whole lines, as the results write them."""
        for line in told:
            at = self.text.find(line)
            self.covered += [(at, at + len(line))] if at >= 0 else []
            yield Figure(self.name, line[:50], line if at >= 0 else "the page does not say so", line)

    def rest(self) -> list[str]:
        """Numbers outside code, links and identifiers that nothing covers, in their order."""
        apart = [m.span() for m in APART.finditer(self.text)] + self.covered
        return [m.group() for m in NUMBER.finditer(self.text) if not any(a <= m.start() < b for a, b in apart)]

    def print_of_rest(self) -> str:
        return sha256(" ".join(self.rest()).encode()).hexdigest()[:16]


def _cells(line: str, at: int) -> Iterator[Cell]:
    start = at + 1
    for part in line.strip()[1:-1].split("|"):
        yield Cell(part.strip(), start, start + len(part))
        start += len(part) + 1


def points(value: float) -> str:
    """A share as signed points: 0.0156 is +1.6."""
    said = f"{100 * value:+.1f}"
    return "0.0" if said in {"+0.0", "-0.0"} else said


def percent(value: float) -> str:
    return f"{100 * value:.1f}"


def interval(ends: Sequence[float]) -> str:
    return f"[{points(ends[0])}, {points(ends[1])}]"


def gain(estimate: float, ends: Sequence[float]) -> str:
    """+1.5 (0.7 to 2.2)."""
    return f"{points(estimate)} ({reach(ends)})"


def reach(ends: Sequence[float]) -> str:
    """0.7 to 2.2."""
    return " to ".join(points(e).lstrip("+") for e in ends)
