"""Vote share: EMPO (arXiv:2504.05812); the same as SC-RL (arXiv:2505.15134) on extracted answers."""

from __future__ import annotations

from typing import Annotated, Literal

import numpy as np

from ..groups import Groups
from ..params import Param
from .common import by_answer, share_of_votes
from .method import Estimate, Method


def empo(
    groups: Groups,
    *,
    share_of: Annotated[
        Literal["all", "valid"],
        Param(
            "the denominator M: every rollout, or those with an answer (dare with weight=none, alpha=0, tau=0)",
            source="official code: every rollout",
        ),
    ] = "all",
    no_answer: Annotated[
        Literal["zero", "singleton"],
        Param(
            "a rollout without an answer gets 0, or 1/M as a cluster of its own",
            source="official code: TRL form, verl form",
        ),
    ] = "zero",
) -> Estimate:
    """r = n(y)/M, the share of the group that has the rollout's answer."""
    share_A = share_of_votes(groups, groups.sizes_P if share_of == "all" else None)
    rewards_R = groups.spread(share_A)
    if no_answer == "singleton":
        m_P = groups.sizes_P if share_of == "all" else groups.sum_by_group(groups.votes_A)
        rewards_R = np.where(groups.valid_R, rewards_R, 1 / np.maximum(m_P, 1)[groups.group_R])
    return by_answer(groups, share_A, rewards_R=rewards_R, support={"p_hat": share_A})


METHODS = (
    Method(
        name="empo",
        function=empo,
        summary="the share of the group that has the rollout's answer",
        paper="arXiv:2504.05812",
        evidence="verified against official code",
    ),
)
