"""What one step in a reward's direction does to accuracy."""

from __future__ import annotations

import numpy as np

from dare_research.analysis.truth import share_right
from dare_reward.analysis.truth import known_groups
from dare_reward.groups import Groups
from dare_reward.segments import Floats

ROUNDING = 1e-12


def normalised(groups: Groups, rewards_R: Floats) -> Floats:
    """Group-normalised advantages (r - m)/s with the population deviation; 0 where a group's rewards do not differ.

    The constant of 1e-6 that some stacks add to s is left out: a group's advantages have variance 1 or 0. A deviation
    below 1e-12 of the group's greatest reward is rounding and counts as none.
    """
    size_P = np.maximum(groups.sizes_P, 1)
    scale_P = np.zeros(len(groups.sizes_P))
    np.maximum.at(scale_P, groups.group_R, np.abs(rewards_R))
    centred_R = rewards_R - (groups.sum_rollouts(rewards_R) / size_P)[groups.group_R]
    deviation_P = np.sqrt(groups.sum_rollouts(centred_R**2) / size_P)
    live_P = deviation_P > ROUNDING * scale_P
    return np.where(live_P[groups.group_R], centred_R / np.where(live_P, deviation_P, 1.0)[groups.group_R], 0.0)


def direction_gain(
    groups: Groups, advantages_R: Floats, correct_R: Floats, *, policy_A: Floats | None = None
) -> Floats:
    """First-order change of each prompt's accuracy per unit step of a softmax policy along the advantages.

    With S(y) = sum_{i: y_i = y} A_i / M the expected logit step of answer y and p the policy,

        dacc = sum_{y right} p(y) (S(y) - sum_y' p(y') S(y'))

    which for one right answer y* is p* (S(y*) - sum p S). `policy_A` is p where it is known (a simulation); the default
    is the observed share n(y)/M. Rollouts without an answer are one outcome, never right. NaN where truth is not known.
    """
    share_A = groups.votes_A / np.maximum(groups.sizes_P, 1)[groups.group_A]
    policy_R = groups.spread(share_A if policy_A is None else policy_A)
    silent_P = groups.sum_rollouts(~groups.valid_R) / np.maximum(groups.sizes_P, 1)
    policy_R = np.where(groups.valid_R, policy_R, silent_P[groups.group_R] if policy_A is None else 0.0)
    right_R = np.nan_to_num(correct_R)
    size_P = np.maximum(groups.sizes_P, 1)
    pull_P = groups.sum_rollouts(policy_R * advantages_R) / size_P
    gain_P = groups.sum_rollouts(policy_R * advantages_R * right_R) / size_P
    if policy_A is None:
        right_P = np.nan_to_num(share_right(groups, correct_R))
    else:
        right_A = groups.sum_by_answer(right_R) / np.maximum(groups.votes_A, 1)
        right_P = groups.sum_by_group(policy_A * right_A)
    return np.where(known_groups(groups, correct_R), gain_P - right_P * pull_P, np.nan)


def direction_of_counts(votes_A: Floats, rewards_A: Floats, right: int) -> float:
    """The same for one group given as votes and rewards per answer; `right` is the index of the right one.

    S(y) = n(y) A(y)/M, dacc = p* (S(y*) - sum p S), p = n/M, A the group-normalised reward.
    """
    total = votes_A.sum()
    p = votes_A / total
    centred = rewards_A - (p * rewards_A).sum()
    deviation = float(np.sqrt((p * centred**2).sum()))
    step = p * centred / deviation if deviation > 0 else np.zeros_like(p)
    return float(p[right] * (step[right] - (p * step).sum()))
