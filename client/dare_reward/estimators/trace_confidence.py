"""Confidence of a trace from the top-k log-probabilities of its tokens, as deepconf and scope define it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

import numpy as np

from ..errors import GroupError
from ..groups import Groups, Ragged
from ..segments import BLOCK, Floats, Ints, offsets, owners, positions, segment_means, segment_sums

Trace = Literal["bottom_window", "min_window", "tail", "mean"]


def token_confidence(topk: Ragged, *, rounded: bool) -> Floats:
    """C_t = -(1/k) sum over the top k of ln p_t(j); `rounded` to three digits as the official codes do. Shape [T]."""
    if not topk.values.size:
        return np.zeros(0)
    total_T = np.zeros(len(topk.values))
    for candidate_T in topk.values.T:  # k is small; a sum along the short axis is slow and k-dependent in order
        total_T += candidate_T
    confidence_T: Floats = -total_T / topk.values.shape[1]
    return np.round(confidence_T, 3) if rounded else confidence_T


def narrow_groups(groups: Groups, topk: Ragged) -> dict[int, GroupError]:
    """Groups whose `topk_logprobs` hold one candidate: that is the sampled token's surprisal, not confidence."""
    if topk.values.ndim == 2 and topk.values.shape[1] >= 2:
        return {}
    bad_P = groups.sum_rollouts(topk.lengths) > 0
    message = "topk_logprobs hold fewer than 2 candidates per token: of one, 'confidence' is surprisal, the opposite"
    return {int(p): GroupError("topk", message) for p in np.flatnonzero(bad_P)}


def step_confidence(confidence_T: Floats, lengths_R: Ints, ends: Ragged) -> Floats:
    """Mean over a trace's steps of the mean over the step's tokens; the tokens after the last end are a step too.

    `ends` are indices after the last token of each step. A trace without ends is one step. NaN for an empty trace.
    """
    starts_R = offsets(lengths_R)[:-1]
    rollout_S = owners(ends.lengths)
    cut = np.minimum(ends.values.astype(np.int64), lengths_R[rollout_S]) + starts_R[rollout_S]
    edges = np.unique(np.concatenate([cut, starts_R, [len(confidence_T)]]).astype(np.int64))
    lengths_S = np.diff(edges)
    means_S = segment_means(confidence_T, lengths_S)
    owner_S = np.searchsorted(starts_R + lengths_R, edges[:-1], side="right")
    count_R = np.bincount(owner_S, minlength=len(lengths_R))
    return segment_means(means_S, count_R)


def generated_ends(groups: Groups) -> Ragged:
    """`step_ends` counted over the tokens that `token_mask` leaves in."""
    ends, mask = groups.ragged("step_ends"), groups.columns.get("token_mask")
    if not isinstance(mask, Ragged):
        return ends
    owner = owners(ends.lengths)
    start = offsets(mask.lengths)[:-1][owner]
    running = offsets(mask.values)
    reach = start + np.minimum(ends.values.astype(np.int64), mask.lengths[owner])
    return Ragged(running[reach] - running[start], ends.lengths)


def window_confidence(
    confidence_T: Floats, lengths_R: Ints, *, kind: Trace, window: int, tail: int, bottom: float
) -> Floats:
    """Trace confidence from token confidences: over all tokens, the last `tail`, or the lowest of the sliding windows.

    bottom_window is the mean of the lowest share `bottom` of the window means (at least one), min_window the lowest; a
    trace shorter than a window is one window. NaN for an empty trace.
    """
    if kind == "mean":
        return segment_means(confidence_T, lengths_R)
    if kind == "tail":
        lengths = np.minimum(lengths_R, tail)
        keep_T = positions(lengths_R) >= np.repeat(lengths_R - lengths, lengths_R)
        return segment_means(confidence_T[keep_T], lengths)
    share = 0.0 if kind == "min_window" else bottom  # of one window at least
    out = np.full(len(lengths_R), np.nan)
    for rollouts, tokens in _padded_blocks(lengths_R):
        out[rollouts] = _lowest(*_windows(confidence_T[tokens], lengths_R[rollouts], window), share)
    return np.where(lengths_R > 0, out, np.nan)


def _padded_blocks(lengths_R: Ints) -> Iterator[tuple[slice, slice]]:
    """Runs of rollouts whose padded rectangle has at most BLOCK elements, or that are one rollout."""
    ends = offsets(lengths_R)
    padded_R = np.maximum(lengths_R, 1)
    first = 0
    while first < len(lengths_R):
        longest = np.maximum.accumulate(padded_R[first : first + max(BLOCK // int(padded_R[first]), 1)])
        area = longest * np.arange(1, len(longest) + 1)
        last = first + max(int(np.searchsorted(area, BLOCK, side="right")), 1)
        yield slice(first, last), slice(int(ends[first]), int(ends[last]))
        first = last


def _windows(values_T: Floats, lengths_R: Ints, window: int) -> tuple[Floats, Ints]:
    """Means of all sliding windows of each trace [R, N], +inf where there is none, and their number.

    Running sums start anew for each trace, so its windows do not depend on its neighbours.
    """
    longest = max(int(lengths_R.max(initial=0)), 1)
    padded = np.zeros((len(lengths_R), longest + 1))
    padded[owners(lengths_R), positions(lengths_R) + 1] = values_T
    running = np.cumsum(padded, axis=1)
    width_R = np.minimum(lengths_R, window)
    count_R = np.maximum(lengths_R - width_R + 1, 1)
    start = np.arange(int(count_R.max(initial=1)))
    rows = np.arange(len(lengths_R))[:, None]
    end = np.minimum(start[None, :] + width_R[:, None], longest)
    means = (running[rows, end] - running[rows, start[None, :]]) / np.maximum(width_R, 1)[:, None]
    return np.where(start[None, :] < count_R[:, None], means, np.inf), count_R


def _lowest(means: Floats, count_R: Ints, share: float) -> Floats:
    """Mean of the lowest share of each row, at least one."""
    number_R = np.maximum((count_R * share).astype(np.int64), 1)
    ordered = np.sort(means, axis=1)
    chosen = np.arange(means.shape[1])[None, :] < number_R[:, None]
    return segment_sums(ordered[chosen], number_R) / number_R
