"""Vote share: EMPO (arXiv:2504.05812); the same as SC-RL (arXiv:2505.15134) on extracted answers."""

from __future__ import annotations

from typing import Annotated, Literal

import numpy as np

from ..groups import Groups
from ..params import Param
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
    n_A = groups.votes_A
    m_P = np.maximum(groups.sizes_P if share_of == "all" else groups.sum_by_group(n_A), 1).astype(np.float64)
    share_A = n_A / m_P[groups.group_A]
    rewards_R = groups.spread(share_A)
    if no_answer == "singleton":
        rewards_R = np.where(groups.valid_R, rewards_R, 1 / m_P[groups.group_R])
    return Estimate(
        rewards_R=rewards_R,
        keep_R=groups.valid_R,
        support_A={"p_hat": share_A, "p": share_A, "reward": share_A, "kept": np.ones(len(n_A), bool)},
        used_entropy_P=np.zeros(len(m_P), bool),
    )


METHODS = (
    Method(
        name="empo",
        function=empo,
        summary="the share of the group that has the rollout's answer",
        paper="arXiv:2504.05812",
        evidence="verified against official code",
    ),
)
