"""How many rollouts a right label takes: methods side by side on subsamples of the same rollouts.

The rollouts of each prompt are dealt at random into as many groups of 4, 8, 16, ... as they fill, up to what nine of
ten prompts have, up to DEALS times; every group is labelled anew. A figure is a mean over a prompt's groups, then over
prompts, which are the same in each column.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from ..groups import Groups, rows_of
from ..segments import Bools, Floats, Ints, offsets
from .shown import percent
from .truth import right_answers

Labeller = Callable[[Groups], Bools]  # the answers that are the label: at most one a group
RIGHT = "% of right labels, by rollouts of a prompt"
SMALLEST = 4
TENTH = 0.1
DEALS = 64  # one deal of 164 prompts moves a figure by a point, as much as a weight gains, and 16 by half a point
DEALT = 1 << 17  # rollouts of these prompts in all deals, about


@dataclass(frozen=True, slots=True)
class SizeRow:
    """Right labels of one labeller by size."""

    name: str
    share: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class BySize:
    """Shares of right labels of each labeller by group size."""

    sizes: tuple[int, ...]
    prompts: int
    rows: tuple[SizeRow, ...]

    def table(self) -> tuple[tuple[str, ...], tuple[tuple[str, ...], ...]]:
        """Head and rows of a table: a row a labeller, a column a size."""
        return (RIGHT, *map(str, self.sizes)), tuple((row.name, *map(percent, row.share)) for row in self.rows)


def sizes_of(groups: Groups, usable_P: Bools) -> tuple[int, ...]:
    """4, 8, 16, ... and the size that nine of ten of these prompts have; empty without prompts."""
    if not usable_P.any():
        return ()
    largest = int(np.quantile(groups.sizes_P[usable_P], TENTH, method="lower"))
    doubled = [SMALLEST << k for k in range(32) if SMALLEST << k < largest]
    return (*doubled, largest) if largest else ()


def by_size(
    groups: Groups,
    correct_R: Floats,
    labellers: Mapping[str, Labeller],
    *,
    usable_P: Bools | None = None,
    seed: int = 0,
) -> BySize:
    """The share of right labels of each labeller by group size, of the prompts `usable_P` (default: all)."""
    usable_P = np.ones(len(groups.sizes_P), bool) if usable_P is None else usable_P
    sizes = sizes_of(groups, usable_P)
    prompts_P = usable_P & (groups.sizes_P >= (sizes[-1] if sizes else 1))
    found: dict[str, list[float]] = {name: [] for name in labellers}
    right_A = right_answers(groups, correct_R) > 0.5
    rng = np.random.default_rng(seed)
    times = min(max(DEALT // max(int(groups.sizes_P[prompts_P].sum()), 1), 1), DEALS)
    for size in sizes:
        total: dict[str, Floats] = {name: np.zeros(len(prompts_P)) for name in labellers}
        deals = [None] if size == sizes[-1] else [rng] * times
        for deal in deals:
            part, prompt_G, old_A = dealt(groups, prompts_P, size, deal)
            for name, label in labellers.items():
                total[name] += np.bincount(prompt_G, part.sum_by_group(label(part) & right_A[old_A]), len(prompts_P))
        groups_P = len(deals) * (groups.sizes_P // size)[prompts_P]
        for name in labellers:
            found[name].append(float((total[name][prompts_P] / groups_P).mean()) if len(groups_P) else np.nan)
    rows = tuple(SizeRow(name, tuple(shares)) for name, shares in found.items())
    return BySize(sizes, int(prompts_P.sum()), rows)


def dealt(groups: Groups, prompts_P: Bools, size: int, rng: np.random.Generator | None) -> tuple[Groups, Ints, Ints]:
    """Groups of `size` rollouts of these prompts, each rollout in at most one, in random order or (None) as they stand.

    Returns them, the prompt of each, and which answer of `groups` each of their answers is.
    """
    own_R = np.flatnonzero(prompts_P[groups.group_R])
    random_R = own_R if rng is None else rng.random(len(own_R))
    order_R = own_R[np.lexsort((random_R, groups.group_R[own_R]))]
    place_R = np.arange(len(order_R)) - offsets(np.where(prompts_P, groups.sizes_P, 0))[groups.group_R[order_R]]
    full_P = np.where(prompts_P, groups.sizes_P // size, 0)
    order_R = order_R[place_R < (full_P * size)[groups.group_R[order_R]]]
    piece_R = np.arange(len(order_R)) // size
    prompt_G = np.repeat(np.arange(len(full_P)), full_P)
    old_R = groups.answer_R[order_R]
    valid_R = old_R >= 0
    code, first, inverse = np.unique(
        piece_R[valid_R] * (len(groups.text_A) + 1) + old_R[valid_R], return_index=True, return_inverse=True
    )
    seen = np.argsort(first, kind="stable")  # pieces follow one another, so this is first-seen order within each
    rank = np.empty_like(seen)
    rank[seen] = np.arange(len(seen))
    answer_R = np.full(len(order_R), -1, np.int64)
    answer_R[valid_R] = rank[inverse]
    old_A = (code % (len(groups.text_A) + 1))[seen]
    piece_A = (code // (len(groups.text_A) + 1))[seen]
    return (
        Groups(
            np.full(len(prompt_G), size, np.int64),
            answer_R,
            np.bincount(piece_A, minlength=len(prompt_G)).astype(np.int64),
            tuple(groups.text_A[a] for a in old_A.tolist()),
            {name: rows_of(column, order_R) for name, column in groups.columns.items()},
            None if groups.trained_R is None else groups.trained_R[order_R],
            columns_P={name: column[prompt_G] for name, column in groups.columns_P.items()},
        ),
        prompt_G,
        old_A,
    )
