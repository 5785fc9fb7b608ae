"""Labelled reward: what GRPO, REINFORCE and REINFORCE++ train on in the tables. The only method that sees labels."""

from __future__ import annotations

import numpy as np

from ..groups import Groups
from .common import by_rollout, winner
from .method import Estimate, Method


def gt(groups: Groups) -> Estimate:
    """r = 1 if the rollout is right (its `correct` flag, else its answer against the group's `label`), else 0."""
    right_R = np.nan_to_num(groups.column("label"), nan=0.0) > 0
    rewards_R = right_R.astype(np.float64)
    return by_rollout(groups, rewards_R, label_A=winner(groups, groups.sum_by_answer(rewards_R)))


METHODS = (
    Method(
        name="gt",
        function=gt,
        summary="1 for right rollouts by the label: supervised, the upper reference of the tables",
        paper="arXiv:2402.03300",
        evidence="from the paper",
        requires=("answer", "label"),
        pays_one=True,
        cost="labels",
    ),
)
