"""Which rollouts of a group are trained: the most and the least frequent (DDRL, arXiv:2604.21327, official code)."""

from __future__ import annotations

import numpy as np

from ..groups import Groups
from ..segments import Bools, Ints, positions


def training_size(groups: Groups, n_train: int | None) -> Ints:
    """K of each group: `n_train`, else the rollouts sent as trained where some only vote, else half; at most all."""
    trained_P = groups.sum_rollouts(groups.trains_R).astype(np.int64)
    default_P = np.where(trained_P < groups.sizes_P, trained_P, np.maximum(groups.sizes_P // 2, 1))
    wanted_P = default_P if n_train is None else np.full(len(groups.sizes_P), n_train, np.int64)
    return np.minimum(wanted_P, groups.sizes_P)


def select_ddrl(groups: Groups, n_train: int | None = None) -> Ints:
    """Place of each rollout among those to train, -1 for the others.

    Rollouts are ordered by the votes of their answer, descending and stable; one without an answer counts 0. Selected
    are the first k+ = min(votes of the leader, K // 2) and the last K - k+ of that order, which is the order of the
    places. The release takes int(ratio N) for the leader's votes, which is one too few for 36 pairs of votes and
    N <= 64; this takes the votes.
    """
    size_P = training_size(groups, n_train)
    high_P = np.minimum(np.maximum(groups.max_by_group(groups.votes_A), 0.0).astype(np.int64), size_P // 2)
    votes_R = groups.spread(groups.votes_A)
    order = np.lexsort((np.arange(len(votes_R)), -votes_R, groups.group_R))
    rank_R = np.empty(len(order), np.int64)
    rank_R[order] = positions(groups.sizes_P)
    first_low_R = (groups.sizes_P - (size_P - high_P))[groups.group_R]
    high_R = high_P[groups.group_R]
    place_R: Ints = np.where(
        rank_R < high_R, rank_R, np.where(rank_R >= first_low_R, rank_R - first_low_R + high_R, -1)
    )
    return place_R


def ddrl_flags(groups: Groups, place_R: Ints) -> dict[str, Bools]:
    """Where the release does not do what its paper says (docs/advantages.md)."""
    leads_R = groups.spread(groups.first_max(groups.votes_A), fill=False)
    leader_P = np.maximum(groups.max_by_group(groups.votes_A), 0.0)
    high_R = np.minimum(leader_P, groups.sum_rollouts(place_R >= 0) // 2)[groups.group_R]
    return {
        "unanimous": leader_P == groups.sizes_P,
        "positive_negatives": groups.sum_rollouts((place_R >= high_R) & leads_R) > 0,
        "tied_positives": groups.sum_rollouts((place_R >= 0) & (place_R < high_R) & ~leads_R) > 0,
    }
