"""The gate of `dare_plus`, a method that failed its bar and left dare-reward: when to trust entropy, without labels.

Where a majority is clear and has a rival, the majority is probably right. In such a group A is the chance that a
rollout with the majority's answer has less entropy than one with the rival's (ties one half). Over the n groups of this
request, and the n' of earlier ones with mean A',

    A^    = (prior / 2 + n' A' + sum A) / (prior + n' + n)
    trust = min(max((A^ - 1/2) / (full - 1/2), 0), 1)
    w(y)  = n(y) / (u(y) + eps)^trust
    r(y)  = w(y) / sum_y' w(y')

Trust 0 gives the share of votes, trust 1 the distribution of `dare` without bonus and pruning. The gate is as good as
clear majorities are. In the confirm runs they were right in 56 to 59 of 100 such groups, and A^ told nothing: the
method kept little of what `dare` gains where entropy is informative, and still lost where it misleads.
research/docs/training.md has its runs. Fifty labelled prompts (`dare-reward preflight`) tell more.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from dare_reward.groups import Groups
from dare_reward.segments import Bools, Floats, offsets

MAJORITY: Final = 0.6  # share of the answered rollouts from which on a majority is clear
RIVAL: Final = 0.05  # and from which on the second answer is a rival, not slips
PRIOR: Final = 4.0  # groups with A = 1/2 that are counted in
FULL: Final = 0.55  # the chance A^ from which on entropy is trusted fully


def agreement(groups: Groups, asked_P: Bools) -> Floats:
    """A of each group with a clear majority and a rival, else NaN."""
    n_A = groups.votes_A
    top_A = groups.first_max(n_A)
    second_A = groups.first_max(np.where(top_A, 0.0, n_A)) & ~top_A
    valid_P, top_P, second_P = (groups.sum_by_group(x) for x in (n_A, n_A * top_A, n_A * second_A))
    clear_P = asked_P & (top_P >= MAJORITY * valid_P) & (second_P >= np.maximum(RIVAL * valid_P, 1))
    entropy_R = groups.column("mean_entropy")
    top_R, second_R = (groups.spread(x, fill=False) for x in (top_A, second_A))
    out = np.full(len(groups.sizes_P), np.nan)
    bounds = offsets(groups.sizes_P).tolist()
    for p in np.flatnonzero(clear_P).tolist():
        part = slice(bounds[p], bounds[p + 1])
        out[p] = _chance(entropy_R[part][top_R[part]], entropy_R[part][second_R[part]])
    return out


def trust(steps_SP: Floats) -> Floats:
    """Trust at each step of a run, from A of its groups; a NaN was not asked."""
    count_S = PRIOR + np.cumsum((~np.isnan(steps_SP)).sum(axis=1))
    mean_S = (PRIOR / 2 + np.cumsum(np.nansum(steps_SP, axis=1))) / count_S
    return np.clip((mean_S - 0.5) / (FULL - 0.5), 0, 1)


def _chance(one: Floats, other: Floats) -> float:
    """P(a value of `one` < a value of `other`), ties one half."""
    other = np.sort(other)
    below, through = (np.searchsorted(other, one, side=side) for side in ("left", "right"))
    return float(1 - (below + through).mean() / (2 * len(other)))
