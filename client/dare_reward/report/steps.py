"""The steps of a run in bounded memory: blocks of one width, a power of two, and the first steps each for itself."""

from __future__ import annotations

from bisect import bisect_left
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np

from ..segments import Floats

STEPS: Final = 512  # points of a chart; where there are twice as many, blocks become twice as wide
FEWEST: Final = 8  # points that every run has: as many as the rules need
FIRST: Final = 3  # steps that stay apart: a run is compared with them
DIGITS: Final = 5  # of a mean
LABELS: Final = 1 << 12  # distinct pseudo-labels that are counted in a step

Sum = tuple[float, float]  # of values, and of their weights


class Steps:
    """The sums of a run's numbers by block of steps. `width` steps are a block; the first FIRST steps are one each.

    Blocks begin at multiples of the width, so a step that comes late finds its block, and no block holds more steps
    than another. Over a run of n steps, a step is moved at most log2(n / STEPS) times.

    places    the first steps of all blocks, in order
    versions  of the blocks, as `at` was told last
    layout    the version since when no block has another index, and no number is new
    """

    def __init__(self) -> None:
        self.width = 1
        self.most = 2 * STEPS
        self.places: list[int] = []
        self.versions: list[int] = []
        self.layout = -1
        self._names: dict[str, int] = {}
        self._sums = np.zeros((8, 0, 2))  # by block and number: the sum of its values, and of their weights
        self._first: tuple[int, ...] = ()
        self._labels: OrderedDict[int, set[int]] = OrderedDict()  # hashes of the pseudo-labels of the last steps

    def __len__(self) -> int:
        return len(self.places)

    def at(self, step: int, version: int = 0) -> int:
        """The index of the block that holds a step, which gets this version."""
        place = self._place(step)
        index = bisect_left(self.places, place)
        if self.places[index : index + 1] != [place]:
            if len(self) >= self.most:
                self._fit(self.most - 1, version)
                return self.at(step, version)
            self._insert(index, place, version)
        self.versions[index] = version
        return index

    def add(self, steps: Sequence[int], sums: Mapping[str, tuple[Floats, Floats]], version: int = 0) -> None:
        """Add numbers of groups to their steps: of each number its values and their weights."""
        for step in dict.fromkeys(steps):
            self.at(step, version)
        rows = np.array([self.at(step, version) for step in steps])
        columns = np.array([self._column(name, version) for name in sums])
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
        values, weights = self._sums[: len(self), self._names[name]].T
        return values, weights

    def means(self, name: str) -> Floats:
        """Of a number the mean in each block, rounded; NaN where it is not known."""
        values, weights = self.sums(name)
        means: Floats = np.divide(values, weights, out=np.full(len(self), np.nan), where=weights > 0)
        return means.round(DIGITS)

    def totals(self) -> dict[str, Sum]:
        """Of each number the sum of all its values, and of their weights."""
        total = self._sums[: len(self)].sum(axis=0).tolist()
        return {name: (total[at][0], total[at][1]) for name, at in self._names.items()}

    def keep(self, part: int, version: int = 0) -> None:
        """One of so many parts of the points that a run alone may have."""
        self.most = max(2 * STEPS // part, FEWEST)
        self._fit(self.most, version)

    def _place(self, step: int) -> int:
        if not self._first:
            return step
        if step > self._first[-1]:
            return max(step - step % self.width, self._first[-1] + 1)
        return max((first for first in self._first if first <= step), default=self._first[0])

    def _column(self, name: str, version: int) -> int:
        if name not in self._names:
            self._names[name] = len(self._names)
            self._sums = np.pad(self._sums, ((0, 0), (0, 1), (0, 0)))
            self.layout = version
        return self._names[name]

    def _insert(self, index: int, place: int, version: int) -> None:
        count = len(self)
        if count == len(self._sums):
            self._sums = np.pad(self._sums, ((0, count), (0, 0), (0, 0)))
        self._sums[index + 1 : count + 1] = self._sums[index:count].copy()
        self._sums[index] = 0
        self.places.insert(index, place)
        self.versions.insert(index, version)
        if index < count:
            self.layout = version

    def _fit(self, points: int, version: int) -> None:
        """At most so many blocks, and at least one beside the first FIRST steps."""
        while len(self) > max(points, FIRST + 1):
            self._first = self._first or tuple(self.places[:FIRST])
            self.width *= 2
            blocks = list(map(self._place, self.places))
            self.places = list(dict.fromkeys(blocks))
            starts = [bisect_left(blocks, place) for place in self.places]
            sums = np.add.reduceat(self._sums[: len(blocks)], starts)
            self._sums = np.pad(sums, ((0, 8), (0, 0), (0, 0)))
            self.versions = [version] * len(sums)
            self.layout = version
