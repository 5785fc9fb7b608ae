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

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._segments import Floats, Ints

__all__ = ["KINDS", "every_overlap", "mean_overlap", "rollout_overlap"]

KINDS = ("jaccard", "multiset", "dice", "positional", "prefix", "ngram")
GRAM = 4
CHUNK = 1 << 14  # columns of an incidence matrix at a time: 64 rollouts x 16384 float32 are 4 MiB


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
    types, counts = _counts(ids)
    common = _shared_counts(counts)[pairs]
    same, prefix = _aligned(ids, lengths)
    values = {
        "jaccard": _jaccard(types, len(ids))[pairs],
        "multiset": _ratio(common, longer),
        "dice": _ratio(2 * common, (lengths[:, None] + lengths[None, :])[pairs]),
        "positional": _ratio(same[pairs], longer),
        "prefix": _ratio(prefix[pairs], longer),
        "ngram": _jaccard(_grams(ids), len(ids))[pairs],
    }
    return {kind: float(np.mean(values[kind])) for kind in KINDS}


def _ratio(part: NDArray[Any], whole: NDArray[Any]) -> Floats:
    """1 where both are empty."""
    out: Floats = np.divide(part, whole, out=np.ones(len(part)), where=whole > 0)
    return out


def _owners(ids: Sequence[Ints]) -> Ints:
    return np.repeat(np.arange(len(ids)), [len(r) for r in ids])


def _counts(ids: Sequence[Ints]) -> tuple[tuple[Ints, Ints, int], NDArray[Any]]:
    """The distinct tokens of each rollout as (rollout, column) pairs, and how often each occurs: [M, V]."""
    _, column = np.unique(np.concatenate(ids), return_inverse=True)
    width = int(column.max(initial=-1)) + 1
    flat = np.bincount(_owners(ids) * max(width, 1) + column, minlength=len(ids) * max(width, 1))
    counts = flat.reshape(len(ids), max(width, 1))
    rows, columns = np.nonzero(counts)
    return (rows, columns, max(width, 1)), counts


def _shared_counts(counts: NDArray[Any]) -> Ints:
    """Sum over the tokens of the smaller count, for each pair."""
    out = np.zeros((len(counts), len(counts)), np.int64)
    for i in range(len(counts) - 1):
        out[i, i + 1 :] = np.minimum(counts[i], counts[i + 1 :]).sum(axis=1)
    return out


def _jaccard(incidence: tuple[Ints, Ints, int], size: int) -> Floats:
    """Shared over united distinct entries for each pair, from the (rollout, column) pairs that occur."""
    rows, columns, width = incidence
    order = np.argsort(columns, kind="stable")
    rows, columns = rows[order], columns[order]
    shared = np.zeros((size, size))
    for start in range(0, width, CHUNK):
        low, high = np.searchsorted(columns, [start, start + CHUNK])
        block = np.zeros((size, min(CHUNK, width - start)), np.float32)
        block[rows[low:high], columns[low:high] - start] = 1
        shared += block @ block.T  # whole numbers far below 2^24: exact in float32
    own = np.diag(shared)
    union = own[:, None] + own[None, :] - shared
    return np.divide(shared, union, out=np.ones_like(shared), where=union > 0)


def _grams(ids: Sequence[Ints]) -> tuple[Ints, Ints, int]:
    """The distinct n-grams of each rollout as (rollout, column) pairs."""
    parts = [np.lib.stride_tricks.sliding_window_view(r, GRAM) for r in ids if len(r) >= GRAM]
    owner = np.repeat(np.arange(len(ids)), [max(len(r) - GRAM + 1, 0) for r in ids])
    if not parts:
        return np.zeros(0, np.int64), np.zeros(0, np.int64), 1
    rows = np.ascontiguousarray(np.concatenate(parts))
    _, column = np.unique(rows.view(np.dtype((np.void, rows.itemsize * GRAM))).ravel(), return_inverse=True)
    both = np.unique(owner * (int(column.max()) + 1) + column)
    return both // (int(column.max()) + 1), both % (int(column.max()) + 1), int(column.max()) + 1


def _aligned(ids: Sequence[Ints], lengths: Ints) -> tuple[Ints, Ints]:
    """Equal positions, and length of the common prefix, for each pair."""
    padded = np.full((len(ids), int(lengths.max(initial=0)) + 1), -1, np.int64)
    for row, r in zip(padded, ids, strict=True):
        row[: len(r)] = r
    same = np.zeros((len(ids), len(ids)), np.int64)
    prefix = np.zeros_like(same)
    for i in range(len(ids) - 1):
        equal = (padded[i] == padded[i + 1 :]) & (padded[i] >= 0)
        same[i, i + 1 :] = equal.sum(axis=1)
        prefix[i, i + 1 :] = np.argmin(equal, axis=1)  # the last column is never equal
    return same, prefix
