"""How much the rollouts of a group repeat each other: overlap of their token ids, a mean over all pairs.

    jaccard      distinct tokens in common / distinct tokens of both
    multiset     tokens in common with multiplicity / length of the longer one
    dice         2 tokens in common with multiplicity / sum of the lengths
    positional   equal tokens at equal positions / length of the longer one
    prefix       length of the common prefix / length of the longer one
    ngram        jaccard of the distinct n-grams (n = 4)

Leave out the prompt and the end token, which all rollouts share. Two empty rollouts overlap by 1. `multiset` is the one
to report: jaccard saturates on long texts, positional collapses after one insertion.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dare_reward.groups import Groups
from dare_reward.segments import Floats, Ints, offsets

KINDS = ("jaccard", "multiset", "dice", "positional", "prefix", "ngram")
GRAM = 4
CHUNK = 1 << 13  # tokens, n-grams or positions at a time: of 64 rollouts a block of them takes 4 MiB at most

Entries = tuple[NDArray[Any], NDArray[Any], Ints]  # (rollout, column, how often), in the order of the columns


def token_ids(groups: Groups) -> tuple[tuple[NDArray[Any], ...], ...]:
    """The token ids of each group's rollouts; empty if none were sent."""
    sent = groups.ragged("token_ids")
    if not len(sent.values):
        return ()
    ends, starts = offsets(sent.lengths), offsets(groups.sizes_P)
    parts = [sent.values[low:high] for low, high in pairwise(ends.tolist())]
    return tuple(tuple(parts[low:high]) for low, high in pairwise(starts.tolist()))


def rollout_overlap(token_ids: Sequence[NDArray[Any] | Sequence[int]], kind: str = "multiset") -> float:
    """Mean overlap of one `kind` (`KINDS`) over the M(M-1)/2 pairs; NaN for fewer than two rollouts."""
    return every_overlap(token_ids).get(kind, np.nan)


def mean_overlap(prompts: Sequence[Sequence[NDArray[Any] | Sequence[int]]]) -> dict[str, float]:
    """Every kind, averaged over the prompts that have two rollouts; empty if none has."""
    found = [every_overlap(rollouts) for rollouts in prompts if len(rollouts) > 1]
    return {kind: float(np.mean([f[kind] for f in found])) for kind in KINDS} if found else {}


def every_overlap(rollouts: Sequence[NDArray[Any] | Sequence[int]]) -> dict[str, float]:
    """The mean of each kind over the M(M-1)/2 pairs of token-id arrays; empty for fewer than two rollouts."""
    if len(rollouts) < 2:
        return {}
    ids = [np.asarray(r, np.int64) for r in rollouts]
    lengths = np.array([len(r) for r in ids])
    pairs = np.triu_indices(len(ids), 1)
    longer = np.maximum(lengths[:, None], lengths[None, :])[pairs]
    number = _numbered(np.concatenate(ids))
    owner = np.repeat(np.arange(len(ids), dtype=np.int32), lengths)
    entries = _entries(owner, number)
    shared = _shared(entries, len(ids))
    common = (shared + _shared_again(entries, len(ids)))[pairs]
    same, prefix = _aligned(ids, lengths)
    values = {
        "jaccard": _jaccard(shared)[pairs],
        "multiset": _ratio(common, longer),
        "dice": _ratio(2 * common, (lengths[:, None] + lengths[None, :])[pairs]),
        "positional": _ratio(same[pairs], longer),
        "prefix": _ratio(prefix[pairs], longer),
        "ngram": _jaccard(_shared(_grams(owner, number), len(ids)))[pairs],
    }
    return {kind: float(np.mean(values[kind])) for kind in KINDS}


def _ratio(part: NDArray[Any], whole: NDArray[Any]) -> Floats:
    """1 where both are empty."""
    out: Floats = np.divide(part, whole, out=np.ones(len(part)), where=whole > 0)
    return out


def _numbered(values: NDArray[Any]) -> NDArray[np.int32]:
    """Equal values get equal numbers, 0, 1, ... in ascending order of the values."""
    if not len(values):
        return np.zeros(0, np.int32)
    order = np.argsort(values, kind="stable")
    ordered = values[order]
    numbers = np.empty(len(values), np.int32)
    numbers[order[0]] = 0
    numbers[order[1:]] = np.cumsum(ordered[1:] != ordered[:-1], dtype=np.int32)
    return numbers


def _entries(owner: NDArray[Any], number: NDArray[Any]) -> Entries:
    """What occurs: each (rollout, number) once, with its count, in the order of the numbers."""
    order = np.argsort(number, kind="stable")  # owners ascend already
    rows, columns = owner[order], number[order]
    begins = np.ones(len(rows), bool)
    begins[1:] = (rows[1:] != rows[:-1]) | (columns[1:] != columns[:-1])
    first = np.flatnonzero(begins)
    return rows[first], columns[first], np.diff(first, append=len(rows))


def _in_several(entries: Entries) -> Entries:
    """Without the columns that one rollout has alone: no pair shares them, and most n-grams are such."""
    rows, columns, counts = entries
    kept = np.bincount(columns)[columns] > 1 if len(columns) else np.zeros(0, bool)
    return rows[kept], _numbered(columns[kept]), counts[kept]


def _blocks(entries: Entries, size: int, dtype: type[np.generic]) -> Iterator[NDArray[Any]]:
    """The counts as matrices [M, columns], CHUNK columns at a time."""
    rows, columns, counts = entries
    for start in range(0, int(columns.max(initial=-1)) + 1, CHUNK):
        low, high = np.searchsorted(columns, [start, start + CHUNK])
        block: NDArray[Any] = np.zeros((size, min(CHUNK, int(columns[-1]) + 1 - start)), dtype)
        block[rows[low:high], columns[low:high] - start] = counts[low:high]
        yield block


def _shared(entries: Entries, size: int) -> Floats:
    """For each pair of rollouts the columns that both have; on the diagonal those of each."""
    shared = np.zeros((size, size))
    rows, columns, counts = _in_several(entries)
    for present in _blocks((rows, columns, np.ones_like(counts)), size, np.float32):
        shared += present @ present.T  # whole numbers far below 2^24: exact in float32
    np.fill_diagonal(shared, np.bincount(entries[0], minlength=size))
    return shared


def _shared_again(entries: Entries, size: int) -> Floats:
    """For each pair the sum over the columns of the smaller count less one, where both have the column."""
    rows, columns, counts = entries
    again = counts > 1
    out = np.zeros((size, size))
    for block in _blocks(_in_several((rows[again], columns[again], counts[again] - 1)), size, np.int64):
        for i in range(size - 1):
            out[i, i + 1 :] += np.minimum(block[i], block[i + 1 :]).sum(axis=1)
    return out


def _jaccard(shared: Floats) -> Floats:
    """Shared over united distinct entries for each pair."""
    own = np.diag(shared)
    union = own[:, None] + own[None, :] - shared
    return np.divide(shared, union, out=np.ones_like(shared), where=union > 0)


def _grams(owner: NDArray[Any], number: NDArray[Any]) -> Entries:
    """The n-grams of each rollout: pairs of numbers are numbered, then pairs of pairs."""
    width = GRAM
    while width > 1:
        step = GRAM // width
        number = number[:-step] * np.int64(int(number.max(initial=0)) + 1) + number[step:]
        number, width = _numbered(number), width // 2
    inside = owner[: len(number)] == owner[GRAM - 1 :]
    return _entries(owner[: len(number)][inside], number[inside])


def _aligned(ids: Sequence[Ints], lengths: Ints) -> tuple[Ints, Ints]:
    """Equal positions, and length of the common prefix, for each pair."""
    same = np.zeros((len(ids), len(ids)), np.int64)
    prefix = np.zeros_like(same)
    for start in range(0, int(np.sort(lengths)[-2]), CHUNK):
        there = np.flatnonzero(lengths > start)
        block = np.full((len(there), CHUNK), -1, np.int64)
        for row, i in zip(block, there.tolist(), strict=True):
            part = ids[i][start : start + CHUNK]
            row[: len(part)] = part
        for at, i in enumerate(there[:-1]):
            others = there[at + 1 :]
            equal = (block[at] == block[at + 1 :]) & (block[at] >= 0)
            same[i, others] += equal.sum(axis=1)
            begun = np.where(equal.all(axis=1), CHUNK, np.argmin(equal, axis=1))
            prefix[i, others] += np.where(prefix[i, others] == start, begun, 0)
    return same, prefix
