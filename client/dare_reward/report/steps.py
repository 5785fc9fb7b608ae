"""The steps of a run in bounded memory: blocks of one width, a power of two, and the first steps each for itself."""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass, field
from typing import Final

STEPS: Final = 512  # points of a chart; where there are twice as many, blocks become twice as wide
FEWEST: Final = 8  # points that every run has: as many as the rules need
FIRST: Final = 3  # steps that stay apart: a run is compared with them
LABELS: Final = 1 << 12  # distinct pseudo-labels that are counted in a step
OPEN: Final = 4  # steps of a block whose groups may come mixed


@dataclass(slots=True)
class StepTotals:
    """Sums over the groups of a step, or of a block of steps, which add up.

    labels    hashes of the pseudo-labels of each step that may still grow
    distinct  distinct labels of each step before these, added up
    labelled  groups with a pseudo-label
    """

    sums: dict[str, list[float]] = field(default_factory=dict)
    groups: int = 0
    labels: dict[int, set[int]] = field(default_factory=dict)
    distinct: int = 0
    labelled: int = 0

    def add(self, name: str, value: float, weight: float = 1.0) -> None:
        entry = self.sums.setdefault(name, [0.0, 0.0])
        entry[0] += value
        entry[1] += weight

    def label(self, step: int, label: int) -> None:
        """Count a pseudo-label of a step of this block."""
        labels = self.labels.setdefault(step, set())
        self.labelled += 1
        if len(labels) < LABELS:
            labels.add(label)
        if len(self.labels) > OPEN:
            self.distinct += len(self.labels.pop(next(iter(self.labels))))

    def take(self, other: StepTotals) -> None:
        """Put a later block into this one."""
        for name, (value, weight) in other.sums.items():
            self.add(name, value, weight)
        self.groups += other.groups
        self.distinct += other.distinct + sum(map(len, self.labels.values()))
        self.labels = other.labels
        self.labelled += other.labelled

    def mean(self, name: str) -> float | None:
        """None where nothing is known."""
        if name == "distinct_labels":
            distinct = self.distinct + sum(map(len, self.labels.values()))
            return distinct / self.labelled if self.labelled else None
        value, weight = self.sums.get(name, (0.0, 0.0))
        return value / weight if weight else None

    def weight(self, name: str) -> float:
        return self.sums.get(name, (0.0, 0.0))[1]


class Steps(dict[int, StepTotals]):
    """The totals by the first step of their block. `width` steps are a block; the first FIRST steps are one each.

    Blocks begin at multiples of the width, so a step that comes late finds its block, and no block holds more steps
    than another. Over a run of n steps, a step is moved at most log2(n / STEPS) times.

    places   the first steps of all blocks, in order
    changed  places of blocks that were asked for since somebody emptied this set
    layout   grows where a block moves, or begins before the last one: what was drawn by index is then drawn anew
    """

    def __init__(self) -> None:
        super().__init__()
        self.width = 1
        self.most = 2 * STEPS
        self.moves = 0  # of one block into another
        self.places: list[int] = []
        self.changed: set[int] = set()
        self.layout = 0
        self._first: tuple[int, ...] = ()

    def at(self, step: int) -> StepTotals:
        """The totals that hold a step."""
        place = self._place(step)
        if place not in self:
            self.fit(self.most - 1)
            place = self._place(step)
            if place not in self:
                self._insert(place)
        self.changed.add(place)
        return self[place]

    def keep(self, part: int) -> None:
        """One of so many parts of the points that a run alone may have."""
        self.most = max(2 * STEPS // part, FEWEST)
        self.fit(self.most)

    def fit(self, points: int) -> None:
        """At most so many blocks, and at least one beside the first FIRST steps."""
        while len(self) > max(points, FIRST + 1):
            self._widen()

    def _insert(self, place: int) -> None:
        self[place] = StepTotals()
        at = bisect_left(self.places, place)
        self.layout += at < len(self.places)
        self.places.insert(at, place)

    def _place(self, step: int) -> int:
        if not self._first:
            return step
        if step > self._first[-1]:
            return max(step - step % self.width, self._first[-1] + 1)
        return max((first for first in self._first if first <= step), default=self._first[0])

    def _widen(self) -> None:
        places = self.places
        self._first = self._first or tuple(places[:FIRST])
        self.width *= 2
        for place in places[len(self._first) :]:
            block = self._place(place)
            if block == place:
                continue
            totals = self.pop(place)
            if block in self:
                self[block].take(totals)
                self.moves += 1
            else:
                self[block] = totals
        self.places = sorted(self)
        self.changed.clear()
        self.layout += 1
