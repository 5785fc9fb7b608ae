"""The steps of a run in bounded memory: blocks of one width, a power of two, and the first steps each for itself."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from ..segments import Floats

STEPS: Final = 512  # points of a chart; where there are more than twice as many, blocks become twice as wide
FIRST: Final = 3  # steps that stay apart: a run is compared with them
DIGITS: Final = 5  # of a mean
LABELS: Final = 1 << 12  # distinct pseudo-labels that are counted in a step

Sum = tuple[float, float]  # of values, and of their weights


@dataclass(slots=True, eq=False)
class Steps:
    """The sums of a run's numbers by block of steps. `width` steps are a block; the first FIRST steps are one each.

    Blocks begin at multiples of the width, so a step that comes late finds its block, and no block holds more steps
    than another. Over a run of n steps, a step is moved at most log2(n / STEPS) times.
    """

    width: int = 1
    _rows: dict[int, int] = field(default_factory=dict)  # of each block, by its first step
    _names: dict[str, int] = field(default_factory=dict)
    _sums: Floats = field(default_factory=lambda: np.zeros((0, 0, 2)))  # by row and number: of values, of weights
    _first: tuple[int, ...] = ()
    _labels: OrderedDict[int, set[int]] = field(default_factory=OrderedDict)  # hashes, of the last steps

    @property
    def places(self) -> list[int]:
        """The first steps of all blocks, in order."""
        return sorted(self._rows)

    def add(self, steps: Sequence[int], sums: Mapping[str, tuple[Floats, Floats]]) -> None:
        """Add numbers of groups to their steps: of each number its values and their weights."""
        rows = np.array([self._rows.setdefault(self._place(step), len(self._rows)) for step in steps])
        columns = np.array([self._names.setdefault(name, len(self._names)) for name in sums])
        room = (len(self._rows) - self._sums.shape[0], len(self._names) - self._sums.shape[1], 0)
        self._sums = np.pad(self._sums, [(0, more) for more in room])
        np.add.at(self._sums, (rows[:, None], columns), np.array([*sums.values()]).transpose(2, 0, 1))
        while len(self._rows) > 2 * STEPS:
            self._widen()

    def is_new(self, step: int, label: int) -> bool:
        """Whether no group of the step had this pseudo-label before."""
        labels = self._labels.setdefault(step, set())
        self._labels.move_to_end(step)
        if len(self._labels) > 2 * STEPS:
            self._labels.popitem(last=False)
        new = label not in labels and len(labels) < LABELS
        if new:
            labels.add(label)
        return new

    def means(self, names: Iterable[str]) -> dict[str, Floats]:
        """Of each number the mean in each block, rounded; NaN where it is not known."""
        values, weights = np.moveaxis(self._sums[[self._rows[place] for place in self.places]], 2, 0)
        means = np.divide(values, weights, out=np.full(values.shape, np.nan), where=weights > 0).round(DIGITS)
        unknown = np.full(len(self._rows), np.nan)
        return {name: means[:, self._names[name]] if name in self._names else unknown for name in names}

    def counts(self) -> list[int]:
        """The groups of each block."""
        return [int(self._sums[self._rows[place], self._names["groups"], 0]) for place in self.places]

    def totals(self) -> dict[str, Sum]:
        """Of each number the sum of all its values, and of their weights."""
        total = self._sums.sum(axis=0).tolist()
        return {name: (total[at][0], total[at][1]) for name, at in self._names.items()}

    def _place(self, step: int) -> int:
        if not self._first:
            return step
        if step > self._first[-1]:
            return max(step - step % self.width, self._first[-1] + 1)
        return max((first for first in self._first if first <= step), default=self._first[0])

    def _widen(self) -> None:
        """Put two blocks together into one, but for the first FIRST steps."""
        self._first = self._first or tuple(self.places[:FIRST])
        self.width *= 2
        places, sums = list(map(self._place, self._rows)), self._sums
        self._rows = {place: row for row, place in enumerate(dict.fromkeys(places))}
        self._sums = np.zeros((len(self._rows), *sums.shape[1:]))
        np.add.at(self._sums, [self._rows[place] for place in places], sums)
