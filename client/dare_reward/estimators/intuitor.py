"""INTUITOR: self-certainty of single rollouts (arXiv:2505.19590).

    KL(U || p_t) = -ln V - (1/V) sum_j ln p_t(j)

The official code computes logsumexp(z) - mean(z) = KL(U || p) + ln V; the constant cancels in a group-normalised
advantage. It takes the whole vocabulary: the mean over V is dominated by the tail, so top-k log-probabilities cannot
give it.
"""

from __future__ import annotations

from typing import Annotated, Literal

import numpy as np

from ..groups import Groups
from ..params import Param
from .common import by_rollout
from .method import Estimate, Method


def intuitor(
    groups: Groups,
    *,
    sent: Annotated[
        Literal["code", "kl"],
        Param(
            "what the given self-certainties are: logsumexp(z) - mean(z), or KL(U||p)",
            source="official code: the first",
        ),
    ] = "code",
    returned: Annotated[
        Literal["as_sent", "kl", "code"], Param("convention of the rewards; converting needs vocab_size", source="ours")
    ] = "as_sent",
    vocab_size: Annotated[int, Param("V, which separates the conventions by ln V", ge=2, source="Qwen2.5")] = 151936,
) -> Estimate:
    """r = mean over the rollout's tokens of its self-certainty; 0 without tokens. Answers do not matter."""
    certainty_R = groups.column("mean_self_certainty")
    steps = 0 if returned in {"as_sent", sent} else 1 if returned == "code" else -1
    rewards_R = np.nan_to_num(
        np.where(groups.column("num_tokens") == 0, 0.0, certainty_R + steps * np.log(vocab_size)), nan=0.0
    )
    return by_rollout(groups, rewards_R)


METHODS = (
    Method(
        name="intuitor",
        function=intuitor,
        summary="mean self-certainty: how far the policy's token distributions are from uniform",
        paper="arXiv:2505.19590",
        evidence="verified against official code",
        requires=("mean_self_certainty",),
        cost="full logits: a trainer's log-probability pass; engines that return top-k cannot give it",
    ),
)
