"""COMPASS: confidence-calibrated label and decisiveness of the path (arXiv:2510.17923). Experimental.

With d_t = p_t(1) - p_t(2), the gap of the two likeliest tokens, and H_t the token's entropy:

    C_i = exp(s std_t d_t)                            trace confidence; the sign s is not known
    y*  = argmax_y sum_i C_i 1[a_i = y]
    g   = max_{a_i = y*} C_i / max_i C_i              credibility
    r_i = g 1[a_i = y*] + sum_t w_t d_t,  w_t = H_t / sum_t H_t
"""

from __future__ import annotations

from typing import Annotated, Literal

import numpy as np

from ..groups import Groups, Ragged
from ..params import Param
from ..segments import Floats, segment_means, segment_sums
from .common import by_rollout
from .method import Estimate, Method
from .trace_confidence import narrow_groups


def compass(
    groups: Groups,
    *,
    conf_sign: Annotated[
        Literal[-1, 1],
        Param(
            "s: -1 takes a steady gap for confidence, 1 an unsteady one",
            source="not verified: notes on the paper disagree",
        ),
    ] = -1,
    path_weight: Annotated[float, Param("factor of the path term", ge=0, source="not verified")] = 1.0,
) -> Estimate:
    """Rewards of rollouts with an answer; 0 without one."""
    topk, entropy = groups.generated("topk_logprobs"), groups.generated("token_entropies")
    first_T, second_T = _top_two(topk)
    gap_T = first_T - second_T
    mean_R = segment_means(gap_T, topk.lengths)
    square_R = segment_means((gap_T - np.repeat(mean_R, topk.lengths)) ** 2, topk.lengths)
    confidence_R = np.exp(conf_sign * np.sqrt(np.nan_to_num(square_R, nan=0.0)))

    path_R = np.zeros(len(topk.lengths))
    both_R = (topk.lengths > 0) & (topk.lengths == entropy.lengths)
    paired, lengths = entropy.values[np.repeat(both_R, entropy.lengths)], topk.lengths[both_R]
    total = segment_sums(paired, lengths)
    weighted = segment_sums(paired * gap_T[np.repeat(both_R, topk.lengths)], lengths)
    path_R[both_R] = np.where(total > 0, weighted / np.where(total > 0, total, 1.0), np.nan_to_num(mean_R[both_R]))

    share_A = groups.share(groups.sum_by_answer(confidence_R))
    label_A = groups.first_max(share_A)
    best_P = groups.max_rollouts(np.where(groups.valid_R, confidence_R, 0.0))
    agrees_R = groups.spread(label_A, fill=False)
    credible_P = groups.max_rollouts(np.where(agrees_R, confidence_R, 0.0)) / np.where(best_P > 0, best_P, 1.0)
    answer_R = agrees_R * credible_P[groups.group_R]
    rewards_R = np.where(groups.valid_R, answer_R + path_weight * path_R, 0.0)
    return by_rollout(
        groups,
        rewards_R,
        support={"p_hat": share_A},
        label_A=label_A,
        used_entropy_P=groups.support_P > 0,
        errors=narrow_groups(groups, topk),
        extra_P={"credibility": credible_P},
    )


def _top_two(topk: Ragged) -> tuple[Floats, Floats]:
    """Probabilities of the likeliest and the second token at each position."""
    if topk.values.ndim != 2 or topk.values.shape[1] < 2:
        return np.zeros(len(topk.values)), np.zeros(len(topk.values))
    best_T = np.partition(topk.values.astype(np.float64), -2, axis=1)[:, -2:]
    return np.exp(best_T[:, 1]), np.exp(best_T[:, 0])


METHODS = (
    Method(
        name="compass",
        function=compass,
        summary="credibility of a confidence-weighted label plus decisiveness of the path",
        paper="arXiv:2510.17923",
        evidence="experimental",
        requires=("answer", "topk_logprobs", "token_entropies"),
        cost="top-2 log-probabilities and the entropy of each token",
        unverified="sign of the confidence, normalisation of the path's weights",
    ),
)
