"""TTRL-CoCoV: routes by consistency, advantages for pass@k (arXiv:2606.03608).

With C the share of the leading answer, N trained rollouts and F of them without the label:

    label   C >= tau_low: the majority answer; below: the answer that its self-verifications accept most often, if
            by more than one half, else none and all advantages are 0
    R = 1 - C(F, k)/C(N, k),  s = sqrt(R (1 - R))
    A+ = (1 - R)/s,  A- = (1 - R - C(F-1, k-1)/C(N-1, k-1))/s
    C > tau_high: A_i += lam min(|l_i - mu|/(sigma + 1e-5), c_max) on label rollouts (l tokens; mu, sigma over
            them), then (A - mean)/(std + 1e-6) with the population std, and label rollouts get at least A+

These are advantages: a trainer must not normalise them again.
"""

from __future__ import annotations

from typing import Annotated

import numpy as np
from numpy.typing import NDArray

from dare_reward.advantages import pass_at_k_pair
from dare_reward.estimators.common import by_rollout
from dare_reward.estimators.method import Estimate, Method, When
from dare_reward.estimators.ttrl import majority
from dare_reward.groups import Groups
from dare_reward.params import Param

Bools = NDArray[np.bool_]
Floats = NDArray[np.float64]


def cocov(
    groups: Groups,
    *,
    k: Annotated[int, Param("of pass@k", ge=1, source="official script")] = 4,
    tau_high: Annotated[
        float, Param("above this consistency lengths are diversified", ge=0, le=1, source="official script")
    ] = 0.6,
    tau_low: Annotated[
        float,
        Param(
            "below this consistency the label needs pass_rate; 0 never needs it",
            ge=0,
            le=1,
            source="ours: off unless self-verifications are sent",
        ),
    ] = 0.0,
    length_weight: Annotated[
        float, Param("lam, weight of the length diversity", ge=0, le=1e3, source="official script")
    ] = 0.05,
    length_cap: Annotated[
        float, Param("c_max, its cap in standard deviations", ge=0, le=1e3, source="official script")
    ] = 2.0,
) -> Estimate:
    """Advantages of all rollouts; a rollout without an answer is a failure."""
    share_P = groups.most_votes_P / np.maximum(groups.sizes_P, 1)
    label_A = _label(groups, share_P < tau_low)
    right_R = groups.spread(label_A, fill=False)
    trained_P = groups.sum_rollouts(groups.trains_R).astype(np.int64)
    failed_P = groups.sum_rollouts(groups.trains_R & ~right_R).astype(np.int64)
    pairs = np.array([pass_at_k_pair(n, f, k) for n, f in zip(trained_P.tolist(), failed_P.tolist(), strict=True)])
    plus_P, minus_P = pairs.reshape(-1, 2).T
    raw_R = np.where(right_R, plus_P[groups.group_R], minus_P[groups.group_R])
    wide_P = (share_P > tau_high) & (trained_P > 1)
    length_R = np.nan_to_num(groups.column("num_tokens"), nan=0.0)
    distance_R = np.abs(_standardised(groups, length_R, right_R & groups.trains_R, 1e-5))
    spread_R = raw_R + length_weight * np.minimum(distance_R, length_cap) * right_R
    scaled_R = _standardised(groups, spread_R, groups.trains_R, 1e-6)
    final_R = np.where(right_R, np.maximum(scaled_R, raw_R), scaled_R)
    labelled_P = groups.sum_by_group(label_A) > 0
    value_R = np.where(wide_P[groups.group_R], final_R, raw_R) * labelled_P[groups.group_R]
    return by_rollout(
        groups,
        value_R,
        label_A=label_A,
        flags_P={"verified_label": (share_P < tau_low) & labelled_P, "no_label": ~labelled_P},
    )


def _label(groups: Groups, low_P: Bools) -> Bools:
    """The majority answer, or in groups of low consistency the answer that its self-verifications accept most often."""
    rate_R = groups.column("pass_rate")
    rate_A = groups.sum_by_answer(np.nan_to_num(rate_R, nan=0.0)) / groups.votes_A
    accepted_A = rate_A > 0.5
    best_A = groups.first_max(np.where(accepted_A, rate_A * 1e6 + groups.votes_A, -1.0)) & accepted_A
    return np.where(low_P[groups.group_A], best_A, majority(groups))


def _standardised(groups: Groups, values_R: Floats, at_R: Bools, least: float) -> Floats:
    """(x - mu)/(sigma + least), mu and sigma over the chosen rollouts of each group."""
    centred_R = values_R - groups.mean_rollouts(values_R, at_R)[groups.group_R]
    sigma_P = np.sqrt(groups.mean_rollouts(centred_R**2, at_R))
    out: Floats = centred_R / (sigma_P + least)[groups.group_R]
    return out


METHODS = (
    Method(
        name="cocov",
        function=cocov,
        summary="pass@k advantages of a label routed by consistency, with length diversity",
        paper="arXiv:2606.03608",
        evidence="verified against official code",
        requires=("answer",),
        when=(
            When("num_tokens", "length_weight > 0", lambda p: p["length_weight"] > 0),
            When("pass_rate", "tau_low > 0", lambda p: p["tau_low"] > 0),
        ),
        output="advantages",
        cost="answers and token counts; self-verifications of the candidates if tau_low > 0",
        unverified="how the verified label is chosen among several accepted ones (ours: the greatest rate)",
    ),
)
