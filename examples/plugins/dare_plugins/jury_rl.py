"""JURY-RL: the votes propose an answer, a proof disposes (arXiv:2604.25419). Experimental.

`verified` of 1 is a proof of the plurality's answer, which is then rewarded like TTRL's. 0 and nothing are no proof: a
prover that fails says nothing. Then nobody is paid for agreeing, and what is left is spread over
the other rollouts by their support among themselves, with a sum of zero.
"""

from __future__ import annotations

from typing import Annotated

import numpy as np

from dare_reward.estimators.common import by_rollout
from dare_reward.estimators.method import Estimate, Method
from dare_reward.estimators.ttrl import majority
from dare_reward.groups import Groups
from dare_reward.params import Param


def jury_rl(
    groups: Groups,
    *,
    c: Annotated[float, Param("price of agreeing with an answer that is not proved", ge=0, source="no value known")],
) -> Estimate:
    """r = 1 for the plurality's answer, else 0, if a verdict proves it. Otherwise, with a its share of the M rollouts,
    R the other ones, and z(y) = (n(y) - 1)/(|R| - 1) their support (0 without an answer):

        r_i = a (z_i - mean z)[i in R] - c a [i not in R] + c a^2
    """
    label_A = majority(groups)
    in_R = groups.spread(label_A, fill=False)
    proved_R = in_R & (groups.column("verified") > 0)
    proved_P = groups.sum_rollouts(proved_R) > 0
    rest_P = groups.sum_rollouts(~in_R)
    share_R = ((groups.sizes_P - rest_P) / np.maximum(groups.sizes_P, 1))[groups.group_R]
    votes_R = groups.spread(groups.votes_A, fill=1.0)
    support_R = (votes_R - 1) / np.maximum(rest_P - 1, 1)[groups.group_R]
    centred_R = support_R - groups.mean_rollouts(support_R, ~in_R)[groups.group_R]
    residual_R = np.where(in_R, -c * share_R, share_R * centred_R) + c * share_R**2
    rewards_R = np.where(proved_P[groups.group_R], in_R.astype(np.float64), residual_R)
    return by_rollout(groups, rewards_R, label_A=label_A & proved_P[groups.group_A], flags_P={"unproved": ~proved_P})


METHODS = (
    Method(
        name="jury_rl",
        function=jury_rl,
        summary="majority vote where its answer is proved, zero-sum residual support elsewhere",
        paper="arXiv:2604.25419",
        evidence="experimental",
        requires=("answer", "verified"),
        cost="one verdict of a prover on the most voted answer of each prompt",
        unverified="z, the support of a residual answer (ours: its leave-one-out share), and c, which has no default",
    ),
)
