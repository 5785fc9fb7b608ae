"""Sums and means over the ragged segments of one flat array.

Sums are in float64 whatever the input's type. A float64 `reduceat` over float32 would copy the whole input first, so
the input is cast block by block; a segment never spans two blocks, hence its sum does not depend on its neighbours.
`np.add.reduceat` returns a neighbour's value for an empty segment, hence the detour over the non-empty ones.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]

BLOCK = 1 << 18  # elements cast at a time: 2 MiB of float64, which stays in a core's cache


def offsets(lengths: NDArray[Any]) -> Ints:
    """Start of each segment and the end of the last: shape [N + 1]."""
    out = np.zeros(len(lengths) + 1, np.int64)
    np.cumsum(lengths, out=out[1:])
    return out


def owners(lengths: NDArray[Any]) -> Ints:
    """The segment of each element."""
    return np.repeat(np.arange(len(lengths)), lengths)


def positions(lengths: NDArray[Any]) -> Ints:
    """Index of each element within its segment."""
    return np.arange(int(lengths.sum())) - np.repeat(offsets(lengths)[:-1], lengths)


def blocks(lengths_N: NDArray[Any], *, size: int = BLOCK) -> Iterator[tuple[slice, slice]]:
    """Runs of whole segments of about `size` elements: (slice of segments, slice of elements)."""
    ends = offsets(lengths_N)
    first = 0
    while first < len(lengths_N):
        last = max(first + 1, int(np.searchsorted(ends, ends[first] + size, side="right")) - 1)
        yield slice(first, last), slice(int(ends[first]), int(ends[last]))
        first = last


def segment_sums(values_T: NDArray[Any], lengths_N: NDArray[Any], *, mask_T: NDArray[Any] | None = None) -> Floats:
    """Sum of each segment in float64; 0 for an empty one. `mask_T` leaves tokens out."""
    out = np.zeros(len(lengths_N), np.float64)
    for segments, elements in blocks(lengths_N):
        lengths = lengths_N[segments]
        values = values_T[elements].astype(np.float64)
        if mask_T is not None:
            values *= mask_T[elements]
        full = lengths > 0
        if full.any():
            out[segments][full] = np.add.reduceat(values, offsets(lengths)[:-1][full])
    return out


def segment_means(values_T: NDArray[Any], lengths_N: NDArray[Any], *, mask_T: NDArray[Any] | None = None) -> Floats:
    """Mean of each segment over its unmasked tokens; NaN where there is none."""
    counts = lengths_N if mask_T is None else segment_sums(mask_T, lengths_N)
    sums = segment_sums(values_T, lengths_N, mask_T=mask_T)
    means: Floats = np.divide(sums, counts, out=np.full(len(sums), np.nan), where=counts > 0)
    return means


def segment_sort(values_T: NDArray[Any], lengths_N: NDArray[Any]) -> Floats:
    """The values of each segment in ascending order."""
    out = np.empty(len(values_T), np.float64)
    for segments, elements in blocks(lengths_N):
        lengths = lengths_N[segments]
        values = values_T[elements].astype(np.float64)
        out[elements] = values[np.lexsort((values, owners(lengths)))]
    return out


def segment_quantiles(values_T: NDArray[Any], lengths_N: NDArray[Any], q: float) -> Floats:
    """The q-quantile of each segment, linear between order statistics; NaN for an empty one."""
    ordered, starts = segment_sort(values_T, lengths_N), offsets(lengths_N)[:-1]
    out = np.full(len(lengths_N), np.nan)
    full = lengths_N > 0
    place = q * (lengths_N[full] - 1)
    low = np.floor(place).astype(np.int64)
    high = np.minimum(low + 1, lengths_N[full] - 1)
    below, above = ordered[starts[full] + low], ordered[starts[full] + high]
    out[full] = below + (above - below) * (place - low)
    return out
