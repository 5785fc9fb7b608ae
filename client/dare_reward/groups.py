"""The one in-memory form of a batch of groups: flat arrays over P groups, R rollouts and A distinct answers.

What an estimator may see, and nothing else: no texts, no prompts, no labels. (Method `gt`, whose entry asks for it,
gets a column `label`: 1 for right rollouts.)
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .errors import RequestError
from .segments import Bools, Floats, Ints, offsets, segment_sums


@dataclass(frozen=True, slots=True, eq=False)
class Ragged:
    """One value (or row of k) per token: `values` [sum(lengths)] or [sum(lengths), k], `lengths` [R]."""

    values: NDArray[Any]
    lengths: Ints

    def only(self, where_N: Bools) -> Ragged:
        """These segments; the others are empty."""
        return Ragged(self.values[np.repeat(where_N, self.lengths)], np.where(where_N, self.lengths, 0))

    def at_tokens_of(self, other: Ragged) -> NDArray[Any]:
        """The values at the tokens of another input, which some rollouts may lack."""
        whole = len(self.values) == len(other.values)
        return self.values if whole else self.values[np.repeat(other.lengths > 0, self.lengths)]


@dataclass(frozen=True, slots=True, eq=False)
class View:
    """Every group pooled with a second one of the same prompt (a paraphrase, a teacher), own rollouts first.

    pooled    the pooled groups; their answers are numbered in common
    own_R     the pooled rollout is of the group itself
    """

    pooled: Groups
    own_R: Bools


@dataclass(frozen=True, eq=False)
class Groups:
    """P groups of rollouts.

    Attributes:
        sizes_P: rollouts of each group (M)
        answer_R: index of each rollout's answer in 0..A-1, -1 for no answer
        support_P: distinct answers of each group; the answers of a group are numbered in first-seen order
        text_A: the answer as a string (its class's representative)
        columns: further inputs by field name: float64 [R] or [R, D] with NaN where missing, or `Ragged`; a vector may
            be either, with a length of 1 where it is there and of 0 where it is missing
        trained_R: false: the rollout only votes
        views: pooled with a second group, by the name of the request's field
        columns_P: inputs of whole groups by name: float64 [P] with NaN where missing; 1 for a text that is there
    """

    sizes_P: Ints
    answer_R: Ints
    support_P: Ints
    text_A: tuple[str, ...]
    columns: Mapping[str, NDArray[Any] | Ragged] = field(default_factory=lambda: MappingProxyType({}))
    trained_R: Bools | None = None
    views: Mapping[str, View] = field(default_factory=lambda: MappingProxyType({}))
    columns_P: Mapping[str, Floats] = field(default_factory=lambda: MappingProxyType({}))

    @classmethod
    def of(cls, answers: Sequence[Sequence[Hashable | None]], **columns: Sequence[Sequence[float | None]]) -> Groups:
        """Groups from answers that are compared by `==`; `None` is no answer. `columns` hold one number per rollout."""
        index: list[int] = []
        support: list[int] = []
        text: list[str] = []
        for group in answers:
            seen: dict[Hashable, int] = {}
            index += [-1 if a is None else seen.setdefault(a, len(text) + len(seen)) for a in group]
            support.append(len(seen))
            text += map(str, seen)
        if wrong := [name for name, rows in columns.items() if [*map(len, rows)] != [*map(len, answers)]]:
            raise RequestError("must have one number for each rollout of each group", loc=wrong[:1], code="length")
        sizes = np.array([len(g) for g in answers], np.int64)
        flat = {name: np.array([x for g in rows for x in g], np.float64) for name, rows in columns.items()}
        return cls(sizes, np.array(index, np.int64), np.array(support, np.int64), tuple(text), flat)

    @cached_property
    def group_R(self) -> Ints:
        """Group of each rollout."""
        return np.repeat(np.arange(len(self.sizes_P)), self.sizes_P)

    @cached_property
    def group_A(self) -> Ints:
        """Group of each answer."""
        return np.repeat(np.arange(len(self.support_P)), self.support_P)

    @cached_property
    def valid_R(self) -> Bools:
        """The rollout has an answer."""
        return self.answer_R >= 0

    @cached_property
    def votes_A(self) -> Floats:
        """n(y), Eq. 8."""
        return self.sum_by_answer(np.ones(len(self.answer_R)))

    @cached_property
    def most_votes_P(self) -> Floats:
        """Votes of the most voted answer; 0 where nobody answers."""
        return np.maximum(self.max_by_group(self.votes_A), 0.0)

    @cached_property
    def tied_P(self) -> Bools:
        """Several answers have the most votes."""
        return self.sum_by_group(self.votes_A == self.most_votes_P[self.group_A]) > 1

    @cached_property
    def trains_R(self) -> Bools:
        """The rollout is trained on, not a vote only."""
        return np.ones(len(self.answer_R), bool) if self.trained_R is None else self.trained_R

    def column_P(self, name: str) -> Floats:
        """An input of whole groups, NaN where missing; of a text, 1 where there is one."""
        column = self.columns_P.get(name)
        return np.full(len(self.sizes_P), np.nan) if column is None else column

    def column(self, name: str) -> Floats:
        """A scalar input, NaN where missing."""
        column = self.columns.get(name)
        return np.full(len(self.answer_R), np.nan) if column is None or isinstance(column, Ragged) else column

    def ragged(self, name: str) -> Ragged:
        """A per-token or list input; length 0 where missing."""
        column = self.columns.get(name)
        return column if isinstance(column, Ragged) else Ragged(np.zeros(0), np.zeros(len(self.answer_R), np.int64))

    def vectors(self, name: str) -> tuple[Ints, NDArray[Any]]:
        """A vector input: for each rollout the index of its row, and the rows; `has` says whose index means one."""
        column = self.columns.get(name)
        if isinstance(column, Ragged):
            return offsets(column.lengths)[:-1], column.values
        rows = np.zeros((0, 1)) if column is None else column
        return np.arange(len(self.answer_R)), rows

    def generated(self, name: str) -> Ragged:
        """A per-token input without the tokens that `token_mask` leaves out."""
        ragged, mask = self.ragged(name), self.columns.get("token_mask")
        if not isinstance(mask, Ragged):
            return ragged
        keep_T = mask.at_tokens_of(ragged)
        return Ragged(
            ragged.values[keep_T], segment_sums(mask.values, mask.lengths).astype(np.int64) * (ragged.lengths > 0)
        )

    def has(self, name: str) -> Bools:
        """The rollout has this input."""
        column = self.columns.get(name)
        if column is None:
            return np.zeros(len(self.answer_R), bool)
        if isinstance(column, Ragged):
            return column.lengths > 0
        present_R: Bools = ~np.isnan(column if column.ndim == 1 else column[:, 0])
        return present_R

    def sum_by_answer(self, values_R: NDArray[Any]) -> Floats:
        """Sum over the rollouts of each answer."""
        valid = self.valid_R
        return np.bincount(self.answer_R[valid], values_R[valid], minlength=len(self.text_A)).astype(
            np.float64, copy=False
        )

    def sum_by_group(self, values_A: NDArray[Any]) -> Floats:
        """Sum over the answers of each group."""
        return np.bincount(self.group_A, values_A, minlength=len(self.sizes_P)).astype(np.float64, copy=False)

    def share(self, values_A: Floats, *, counts_A: Floats | None = None) -> Floats:
        """Each value over its group's sum, 0 where that is 0. The sum is over rollouts if `counts_A` says how many have
        each answer."""
        total_A = self.sum_by_group(values_A if counts_A is None else values_A * counts_A)[self.group_A]
        return np.divide(values_A, total_A, out=np.zeros(len(values_A)), where=total_A > 0)

    def sum_rollouts(self, values_R: NDArray[Any]) -> Floats:
        """Sum over the rollouts of each group."""
        return np.bincount(self.group_R, values_R, minlength=len(self.sizes_P)).astype(np.float64, copy=False)

    def mean_rollouts(self, values_R: NDArray[Any], where_R: Bools) -> Floats:
        """Mean over the chosen rollouts of each group; 0 where there is none."""
        count_P = self.sum_rollouts(where_R)
        return self.sum_rollouts(np.where(where_R, values_R, 0.0)) / np.maximum(count_P, 1)

    def max_rollouts(self, values_R: NDArray[Any]) -> Floats:
        """Greatest value among the rollouts of each group."""
        out = np.full(len(self.sizes_P), -np.inf)
        np.maximum.at(out, self.group_R, values_R)
        return out

    def all_equal(self, values_R: NDArray[Any], where_R: Bools | slice = slice(None)) -> Bools:
        """Whether no two of a group's (chosen) rollouts differ."""
        values, group = values_R[where_R], self.group_R[where_R]
        differs = (values[1:] != values[:-1]) & (group[1:] == group[:-1])  # from the one before it in its group
        equal_P: Bools = np.bincount(group[1:][differs], minlength=len(self.sizes_P)) == 0
        return equal_P

    def max_by_group(self, values_A: NDArray[Any]) -> Floats:
        """Greatest value among the answers of each group; -inf for a group without answers."""
        out = np.full(len(self.sizes_P), -np.inf)
        np.maximum.at(out, self.group_A, values_A)
        return out

    def median_by_group(self, values_A: NDArray[Any]) -> Floats:
        """Median over the answers of each group, the mean of the two middle ones of an even number; NaN without any."""
        starts, count_P = offsets(self.support_P)[:-1], self.support_P
        ordered_A = np.append(values_A[np.lexsort((values_A, self.group_A))], np.nan)
        low_P, high_P = (starts + np.maximum(count_P - 1, 0) // 2, starts + count_P // 2)
        return np.where(count_P > 0, (ordered_A[low_P] + ordered_A[high_P]) / 2, np.nan)

    def first_max(self, values_A: NDArray[Any]) -> Bools:
        """True for the first answer of each group that has the group's greatest value."""
        best = np.flatnonzero(values_A == self.max_by_group(values_A)[self.group_A])
        own, first, out = self.group_A[best], np.ones(len(best), bool), np.zeros(len(values_A), bool)
        first[1:] = own[1:] != own[:-1]
        out[best[first]] = True
        return out

    def spread(self, values_A: NDArray[Any], *, fill: float = 0.0) -> NDArray[Any]:
        """The value of each rollout's answer; `fill` where there is none."""
        out = np.full(len(self.answer_R), fill, values_A.dtype)
        out[self.valid_R] = values_A[self.answer_R[self.valid_R]]
        return out

    def with_column(self, name: str, column: NDArray[Any] | Ragged) -> Groups:
        return replace(self, columns={**self.columns, name: column})


def rows_of(column: NDArray[Any] | Ragged, order_R: Ints) -> NDArray[Any] | Ragged:
    """A column of some of the rollouts, in this order."""
    if not isinstance(column, Ragged):
        return column[order_R]
    lengths = column.lengths[order_R]
    begin = offsets(column.lengths)[:-1][order_R] - offsets(lengths)[:-1]
    return Ragged(column.values[np.repeat(begin, lengths) + np.arange(int(lengths.sum()))], lengths)
