"""The steps of a run in bounded memory: blocks of one width, a power of two, and the first steps each for itself."""

from __future__ import annotations

from bisect import bisect_left
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from ..segments import Floats

STEPS: Final = 512  # points of a chart; where there are twice as many, blocks become twice as wide
FEWEST: Final = 8  # points that every run has: as many as the rules need
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
    most: int = field(default_factory=lambda: 2 * STEPS)
    version: int = 0  # of the book: what changes gets it
    places: list[int] = field(default_factory=list)  # the first steps of all blocks, in order
    versions: list[int] = field(default_factory=list)  # of the blocks; one that moves, or gets a number more, changes
    _names: dict[str, int] = field(default_factory=dict)
    _sums: Floats = field(default_factory=lambda: np.zeros((0, 0, 2)))  # by block and number: of values, of weights
    _first: tuple[int, ...] = ()
    _labels: OrderedDict[int, set[int]] = field(default_factory=OrderedDict)  # hashes, of the last steps

    def __len__(self) -> int:
        return len(self.places)

    def add(self, steps: Sequence[int], sums: Mapping[str, tuple[Floats, Floats]]) -> None:
        """Add numbers of groups to their steps: of each number its values and their weights."""
        if new := [name for name in sums if name not in self._names]:
            self._names |= {name: len(self._names) + i for i, name in enumerate(new)}
            self._sums = np.pad(self._sums, ((0, 0), (0, len(new)), (0, 0)))
            self.change()
        for step in dict.fromkeys(steps):  # a block that is new moves others
            self._block(step)
        rows = np.array([self._block(step) for step in steps])
        columns = np.array([self._names[name] for name in sums])
        np.add.at(self._sums, (rows[:, None], columns), np.array([*sums.values()]).transpose(2, 0, 1))

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

    def sums(self, name: str) -> tuple[Floats, Floats]:
        """Of a number the sum of its values in each block, and of their weights."""
        if name not in self._names:
            return np.zeros(len(self)), np.zeros(len(self))
        values, weights = self._sums[:, self._names[name]].T
        return values, weights

    def means(self, name: str) -> Floats:
        """Of a number the mean in each block, rounded; NaN where it is not known."""
        values, weights = self.sums(name)
        means: Floats = np.divide(values, weights, out=np.full(len(self), np.nan), where=weights > 0)
        return means.round(DIGITS)

    def totals(self) -> dict[str, Sum]:
        """Of each number the sum of all its values, and of their weights."""
        total = self._sums.sum(axis=0).tolist()
        return {name: (total[at][0], total[at][1]) for name, at in self._names.items()}

    def keep(self, part: int) -> None:
        """One of so many parts of the points that a run alone may have."""
        self.most = max(2 * STEPS // part, FEWEST)
        self._fit(self.most)

    def change(self, begin: int = 0) -> None:
        """All blocks from this one on are new to whoever knows an earlier version."""
        self.versions[begin:] = [self.version] * (len(self) - begin)

    def _place(self, step: int) -> int:
        if not self._first:
            return step
        if step > self._first[-1]:
            return max(step - step % self.width, self._first[-1] + 1)
        return max((first for first in self._first if first <= step), default=self._first[0])

    def _block(self, step: int) -> int:
        """The index of the block that holds a step."""
        place = self._place(step)
        index = bisect_left(self.places, place)
        if self.places[index : index + 1] != [place]:
            if len(self) >= self.most:
                self._fit(self.most - 1)
                return self._block(step)
            self.places.insert(index, place)
            self.change(index)
            row = np.zeros((1, *self._sums.shape[1:]))
            self._sums = np.concatenate([self._sums[:index], row, self._sums[index:]])
        self.versions[index] = self.version
        return index

    def _fit(self, points: int) -> None:
        """At most so many blocks, and at least one beside the first FIRST steps."""
        while len(self) > max(points, FIRST + 1):
            self._first = self._first or tuple(self.places[:FIRST])
            self.width *= 2
            blocks = list(map(self._place, self.places))
            self.places = list(dict.fromkeys(blocks))
            self._sums = np.add.reduceat(self._sums, [bisect_left(blocks, place) for place in self.places])
            self.change()
