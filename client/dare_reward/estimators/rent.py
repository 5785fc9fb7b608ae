"""Confidence of single rollouts: RENT (arXiv:2505.22660) and EM-RL (arXiv:2505.15134). No answers are compared."""

from __future__ import annotations

from typing import Annotated

import numpy as np

from ..groups import Groups
from ..params import Param
from .common import by_rollout
from .method import Estimate, Method


def rent(
    groups: Groups,
    *,
    format_rule: Annotated[
        bool, Param("a rollout without an answer gets -invalid_entropy", source="official code: base_format")
    ] = True,
    invalid_entropy: Annotated[
        float,
        Param("entropy that stands for a missing answer, in nats", ge=0, le=1e3, source="official code: entropy_base"),
    ] = 7.0,
) -> Estimate:
    """r = -(1/T) sum_t H_t, the negative mean token entropy; 0 without tokens, unless the format rule applies."""
    rewards_R = -np.nan_to_num(groups.column("mean_entropy"), nan=0.0)
    if format_rule:
        rewards_R = np.where(groups.valid_R, rewards_R, -invalid_entropy)
    return by_rollout(groups, rewards_R, used_entropy_P=groups.sizes_P > 0)


def em_rl_token(groups: Groups) -> Estimate:
    """r = -sum_t H_t: a sum, so shorter rollouts are paid better."""
    entropy_R, length_R = groups.column("mean_entropy"), groups.column("num_tokens")
    rewards_R = -np.nan_to_num(entropy_R, nan=0.0) * np.nan_to_num(length_R, nan=0.0)
    return by_rollout(groups, rewards_R, used_entropy_P=groups.sizes_P > 0)


def em_rl_sequence(groups: Groups) -> Estimate:
    """r = sum_t ln pi(y_t | y_<t), the log-likelihood of the rollout: a sum, so shorter rollouts are paid better."""
    return by_rollout(groups, np.nan_to_num(groups.column("sum_logprob"), nan=0.0))


METHODS = (
    Method(
        name="rent",
        function=rent,
        summary="negative mean token entropy, with a penalty for a missing answer",
        paper="arXiv:2505.22660",
        evidence="verified against official code",
        requires=("mean_entropy",),
        cost="one entropy per token from the engine or the trainer, averaged",
    ),
    Method(
        name="em_rl_token",
        function=em_rl_token,
        summary="negative sum of the token entropies",
        paper="arXiv:2505.15134",
        evidence="from the paper",
        requires=("mean_entropy", "num_tokens"),
        cost="one entropy per token from the engine or the trainer, averaged; the number of tokens",
        unverified="the official repository holds evaluation code only",
    ),
    Method(
        name="em_rl_sequence",
        function=em_rl_sequence,
        summary="log-likelihood of the rollout",
        paper="arXiv:2505.15134",
        evidence="from the paper",
        requires=("sum_logprob",),
        cost="log-probabilities of the sampled tokens, which engines return",
        unverified="the official repository holds evaluation code only",
    ),
)
