"""Does low entropy mean right? The go/no-go diagnostic for DARE.

Within groups: a figure pooled over prompts measures how hard the prompts are, which group normalisation erases.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Protocol

import numpy as np

from ..groups import Groups
from ..segments import Bools, Floats, Ints, offsets
from .bootstrap import Interval, ratio_interval

WIDTH = 0.1


class _Rollouts(Protocol):
    """Groups of rollouts, of which some have an answer: `Groups`, or columns of a run log."""

    @property
    def sizes_P(self) -> Ints: ...
    @property
    def group_R(self) -> Ints: ...
    @property
    def valid_R(self) -> Bools: ...


def group_auroc(groups: _Rollouts, score_R: Floats, correct_R: Floats) -> Floats:
    """P(score of a right rollout < score of a wrong one) of each group, ties one half (Mann-Whitney U).

    Over rollouts with an answer, a score and a truth; NaN for a group with only right or only wrong ones. By the sum of
    the right ones' ranks, of which the least is n (n + 1) / 2.
    """
    group_R, count = groups.group_R, len(groups.sizes_P)
    usable_R = groups.valid_R & ~np.isnan(score_R) & ~np.isnan(correct_R)
    right_R = usable_R & (correct_R > 0)
    rank_R = np.where(right_R, group_ranks(score_R, group_R, usable_R), 0.0)
    rights_P, wrongs_P = np.bincount(group_R, right_R, count), np.bincount(group_R, usable_R & ~right_R, count)
    pairs_P = rights_P * wrongs_P
    above_P = np.bincount(group_R, rank_R, count) - rights_P * (rights_P + 1) / 2
    share_P: Floats = np.divide(pairs_P - above_P, pairs_P, out=np.full(count, np.nan), where=pairs_P > 0)
    return share_P


def equally_long(groups: Groups, score_R: Floats, correct_R: Floats, *, seed: int = 0) -> tuple[Interval, float]:
    """The same over pairs of a group whose lengths differ by at most a tenth, and which share of all pairs they are.

    NaN without lengths.
    """
    known_R = np.where(groups.valid_R, correct_R, np.nan)
    wins_P, matched_P, all_P = matched_pairs(groups, score_R, groups.column("num_tokens"), known_R)
    share = float(matched_P.sum() / all_P.sum()) if all_P.sum() else np.nan
    return ratio_interval(wins_P, matched_P, seed=seed), share


def matched_pairs(
    groups: Groups, score_R: Floats, length_R: Floats, correct_R: Floats
) -> tuple[Floats, Floats, Floats]:
    """Pairs of a right and a wrong rollout of equal length, |ln(La/Lb)| <= WIDTH, in each group.

    Returns, per group: pairs with the right one lower (ties one half), matched pairs, all pairs.
    """
    starts = offsets(groups.sizes_P).tolist()
    log_R = np.log(np.maximum(length_R, 1.0))
    usable_R = ~np.isnan(score_R) & ~np.isnan(correct_R) & ~np.isnan(log_R)
    wins, matched, pairs = np.zeros((3, len(groups.sizes_P)))
    for p, (low, high) in enumerate(pairwise(starts)):
        inside = usable_R[low:high]
        score, log, right = score_R[low:high][inside], log_R[low:high][inside], correct_R[low:high][inside] > 0
        near = np.abs(log[right][:, None] - log[~right]) <= WIDTH
        difference = score[right][:, None] - score[~right]
        wins[p] = (near * ((difference < 0) + 0.5 * (difference == 0))).sum()
        matched[p], pairs[p] = near.sum(), near.size
    return wins, matched, pairs


def group_ranks(values_N: Floats, group_N: Ints, among_N: Bools) -> Floats:
    """The rank of each value in its group, among those that count: 1 for the least, ties by mean ranks; 0 elsewhere."""
    place = np.flatnonzero(among_N & ~np.isnan(values_N))
    place = place[np.lexsort((values_N[place], group_N[place]))]
    value, group = values_N[place], group_N[place]
    first = np.ones(len(place), bool)
    first[1:] = (value[1:] != value[:-1]) | (group[1:] != group[:-1])
    low = np.flatnonzero(first)
    high = np.append(low[1:], len(place))
    begin = offsets(np.bincount(group))[group]
    out = np.zeros(len(values_N))
    out[place] = ((low + high + 1) / 2)[np.cumsum(first) - 1] - begin
    return out
