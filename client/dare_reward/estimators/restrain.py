"""RESTRAIN: every answer as a pseudo-label, weighted, with self-penalties (arXiv:2510.02172). Experimental.

With f_j = n_j/M the share of answer a_j, g(f) = exp(-(f - k)^2/(2 sigma^2)), and A_ij the group-normalised value of
1[a_i = a_j] over the trained rollouts:

    w_j = g(f_j)/sum_j g(f_j)
    A_i = u_x sum_j w_j A_ij,   u_x = g(majority share under the frozen base model)
    if max_j n_j < kappa:  every indicator is 0 and A_ij = -delta

These are advantages: a trainer must not normalise them again. At an importance ratio of 1 they give the paper's loss.
"""

from __future__ import annotations

from typing import Annotated, Literal

import numpy as np

from ..groups import Groups
from ..params import Param
from ..segments import Floats
from .common import by_rollout, share_of_votes
from .method import Estimate, Method, When

EPSILON = 1e-6  # verl's, in the group normalisation


def restrain(
    groups: Groups,
    *,
    k: Annotated[
        float,
        Param(
            "centre of g. 1 weights answers by how near they are to unanimity",
            ge=0,
            le=1,
            source="not verified; to try: 1",
        ),
    ],
    sigma: Annotated[float, Param("width of g", gt=0, source="not verified; to try: 0.5")],
    kappa: Annotated[
        float,
        Param(
            "fewest votes of the leading answer, else the group is penalised",
            ge=0,
            source="not verified; to try: 3 M/16",
        ),
    ],
    delta: Annotated[float, Param("the penalty", ge=0, source="not verified; to try: 1")],
    prompt_weights: Annotated[
        Literal["given", "current", "one"],
        Param(
            "u_x: the group's prompt_weight; g of this group's own majority share; 1",
            source="paper: from the frozen base model, computed once",
        ),
    ] = "given",
) -> Estimate:
    """Advantages of all rollouts; a rollout without an answer agrees with no answer."""
    share_A = share_of_votes(groups, groups.sizes_P)
    weight_A = _gaussian(share_A, k, sigma)
    total_A = groups.sum_by_group(weight_A)[groups.group_A]
    weight_A = np.divide(weight_A, total_A, out=1.0 / groups.support_P[groups.group_A], where=total_A > 0)

    hit_A, miss_A = _normalised(groups)
    base_P = groups.sum_by_group(weight_A * miss_A)
    advantage_R = base_P[groups.group_R] + groups.spread(weight_A * (hit_A - miss_A))
    penal_P = groups.max_by_group(groups.votes_A) < kappa
    u_P = _prompt_weights(groups, prompt_weights, k, sigma)
    value_R = u_P[groups.group_R] * np.where(penal_P[groups.group_R], -delta, advantage_R)
    return by_rollout(
        groups,
        value_R,
        label_A=None,
        support={"p_hat": share_A, "p": weight_A},
        flags_P={"penalised": penal_P},
        extra_P={"prompt_weight": u_P},
    )


def _normalised(groups: Groups) -> tuple[Floats, Floats]:
    """For each answer as the label: the normalised advantage of a trained rollout that has it, and of one without."""
    trained_P = np.maximum(groups.sum_rollouts(groups.trains_R), 1.0)
    mean_A = groups.sum_by_answer(groups.trains_R.astype(np.float64)) / trained_P[groups.group_A]
    spread_P = trained_P / np.maximum(trained_P - 1, 1)
    deviation_A = np.sqrt(spread_P[groups.group_A] * mean_A * (1 - mean_A)) + EPSILON
    return (1 - mean_A) / deviation_A * (mean_A > 0) * (mean_A < 1), -mean_A / deviation_A * (mean_A < 1)


def _prompt_weights(groups: Groups, source: str, k: float, sigma: float) -> Floats:
    if source == "one":
        return np.ones(len(groups.sizes_P))
    if source == "given":
        return np.nan_to_num(groups.column_P("prompt_weight"), nan=0.0)
    return _gaussian(groups.most_votes_P / np.maximum(groups.sizes_P, 1), k, sigma)


def _gaussian(shares: Floats, k: float, sigma: float) -> Floats:
    """g(f), for any sigma > 0: its square may be more, or less, than a number holds."""
    with np.errstate(over="ignore"):
        out: Floats = np.exp(-0.5 * np.square((shares - k) / sigma))
    return out


METHODS = (
    Method(
        name="restrain",
        function=restrain,
        summary="all answers as weighted pseudo-labels, penalties for low consistency; advantages",
        paper="arXiv:2510.02172",
        evidence="experimental",
        requires=("answer",),
        when=(When("prompt_weight", "prompt_weights=given", lambda p: p["prompt_weights"] == "given"),),
        output="advantages",
        cost="answers; a vote of the base model on each prompt, once, for its prompt weight",
        unverified="k, sigma, kappa, delta; the denominator of the normalisation",
    ),
)
