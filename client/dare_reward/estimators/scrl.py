"""SCRL: selective positive and negative pseudo-labels (arXiv:2603.19880).

With p(y) = n(y)/M over all M rollouts, H(y) the mean trace entropy of the rollouts with answer y and H that of the
group:

    y+  = the most voted answer, if p(y+) >= tau_pos and p(y+) - p(second) > tau_marg, else none
    N-  = {y != y+: p(y) < tau_neg and H(y) >= H}
    r   = p(y) 1[y = y+] - (tau_neg - p(y)) 1[y in N-] - lambda_h (H(y) - H)        continuous
    r   = 1[y = y+] - 1[y in N-]                                                    binary

A rollout without an answer counts in M and H, is neither candidate nor negative, and gets `invalid`.
"""

from __future__ import annotations

from typing import Annotated, Literal

import numpy as np

from ..groups import Groups
from ..params import Param
from .common import by_answer, share_of_votes
from .method import Estimate, Method


def scrl(
    groups: Groups,
    *,
    form: Annotated[
        Literal["continuous", "binary"],
        Param("graded rewards, or +1, -1 and 0", source="official script: continuous; its code's default: binary"),
    ] = "continuous",
    tau_pos: Annotated[
        float, Param("least share of a positive label", ge=0, le=1, source="official script; its code's default 0.5")
    ] = 0.375,
    tau_marg: Annotated[
        float, Param("least lead over the second answer", ge=0, le=1, source="official script; its code's default 0.15")
    ] = 0.125,
    tau_neg: Annotated[
        float,
        Param(
            "answers below this share can be negatives", ge=0, le=1, source="official script; its code's default 0.15"
        ),
    ] = 0.125,
    lambda_h: Annotated[
        float, Param("weight of the entropy term of the continuous form", ge=0, le=1e3, source="official script")
    ] = 0.1,
    invalid: Annotated[
        float, Param("reward of a rollout without an answer", ge=-1e3, le=1e3, source="official code")
    ] = -1.0,
) -> Estimate:
    """Rewards, possibly negative; groups without a positive label carry the flag `no_positive`."""
    share_A = share_of_votes(groups, groups.sizes_P)
    entropy_R = groups.column("mean_entropy")
    mean_P = groups.mean_rollouts(entropy_R, ~np.isnan(entropy_R))
    excess_A = groups.sum_by_answer(np.nan_to_num(entropy_R)) / groups.votes_A - mean_P[groups.group_A]

    top_A = groups.first_max(share_A)
    second_P = np.maximum(groups.max_by_group(np.where(top_A, -np.inf, groups.votes_A)), 0.0)
    alone_P = groups.support_P == 1
    # One division of counts: 11/20 - 7/20 of two would be more than 0.2.
    lead_A = (groups.votes_A - second_P[groups.group_A]) / groups.sizes_P[groups.group_A] > tau_marg
    positive_A = top_A & (share_A >= tau_pos) & (lead_A | alone_P[groups.group_A])
    # Means of equal entropies differ by rounding.
    negative_A = ~positive_A & (share_A < tau_neg) & (excess_A >= -1e-12 * mean_P[groups.group_A])
    if form == "binary":
        reward_A = positive_A.astype(np.float64) - negative_A
    else:
        reward_A = np.where(positive_A, share_A, np.where(negative_A, share_A - tau_neg, 0.0)) - lambda_h * excess_A
    return by_answer(
        groups,
        reward_A,
        rewards_R=np.where(groups.valid_R, groups.spread(reward_A), invalid),
        support={"p_hat": share_A, "uncertainty": excess_A + mean_P[groups.group_A]},
        used_entropy_P=groups.support_P > 0,
        label_A=positive_A,
        flags_P={"no_positive": groups.sum_by_group(positive_A) == 0},
        extra_P={"negatives": groups.sum_by_group(negative_A)},
    )


METHODS = (
    Method(
        name="scrl",
        function=scrl,
        summary="a positive label only if it leads clearly, negatives for rare and uncertain answers",
        paper="arXiv:2603.19880",
        evidence="verified against official code",
        requires=("answer", "mean_entropy"),
        cost="one entropy per token from the engine or the trainer, averaged",
    ),
)
