"""T3RL: votes count more where an external check agrees (arXiv:2603.02203). Experimental."""

from __future__ import annotations

from typing import Annotated

import numpy as np

from dare_reward.estimators.common import by_answer
from dare_reward.estimators.method import Estimate, Method
from dare_reward.groups import Groups
from dare_reward.params import Param


def t3rl(
    groups: Groups,
    *,
    verified_weight: Annotated[
        float,
        Param(
            "weight of a rollout that is verified; all others weigh 1",
            gt=0,
            source="notes on the paper",
        ),
    ] = 5.0,
) -> Estimate:
    """r = 1 for the answer with the greatest weighted vote (ties: first seen), else 0."""
    verified_R = groups.column("verified") > 0
    share_A = groups.share(groups.sum_by_answer(np.where(verified_R, verified_weight, 1.0)))
    label_A = groups.first_max(share_A)
    return by_answer(groups, label_A.astype(np.float64), support={"p_hat": share_A}, label_A=label_A)


METHODS = (
    Method(
        name="t3rl",
        function=t3rl,
        summary="majority vote in which verified rollouts count more",
        paper="arXiv:2603.02203",
        evidence="experimental",
        requires=("answer", "verified"),
        cost="an external verdict per rollout, such as running its code",
        unverified="the weight 5, from notes on the paper",
    ),
)
