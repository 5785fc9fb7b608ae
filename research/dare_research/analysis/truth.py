"""The vote's answer, and how much of a group is right: what the studies measure."""

from __future__ import annotations

import numpy as np

from dare_reward.analysis.truth import known_groups
from dare_reward.groups import Groups
from dare_reward.segments import Bools, Floats


def mode_answers(groups: Groups) -> Bools:
    """The first-seen answer with the most votes, Eq. 1."""
    return groups.first_max(groups.votes_A)


def share_right(groups: Groups, correct_R: Floats) -> Floats:
    """mean(R) of each group, over all its rollouts; NaN where truth is not known."""
    share_P = groups.sum_rollouts(np.nan_to_num(correct_R)) / np.maximum(groups.sizes_P, 1)
    return np.where(known_groups(groups, correct_R), share_P, np.nan)
