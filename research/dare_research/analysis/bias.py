"""How far an estimated reward is from the true one."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dare_research.analysis.truth import mode_answers, share_right
from dare_reward.analysis.bootstrap import Interval, mean_interval
from dare_reward.analysis.truth import known_groups, right_answers
from dare_reward.groups import Groups
from dare_reward.segments import Floats


@dataclass(frozen=True, slots=True)
class MajorityBias:
    """Bias of majority voting, mean over prompts.

    agreement   mean(1[y = mode]) - mean(R): Theorem 2.2 as the main text reads it
    mode        mean(R(mode)) - mean(R): the same theorem as its proof reads it. It is not zero for independent
                rollouts, and correlation makes it smaller
    """

    agreement: Interval
    mode: Interval


@dataclass(frozen=True, slots=True)
class EstimatorError:
    """Error of rewards r against truth R over rollouts.

    bias              mean(r - R)
    variance          var(r - R)
    mse               mean((r - R)^2)
    within_variance   mean over groups of the population variance of r inside the group
    correlation       corr(A, R) with A = (r - m)/s inside each group; NaN if no group has both spreads
    """

    bias: float
    variance: float
    mse: float
    within_variance: float
    correlation: float


def mv_bias(groups: Groups, correct_R: Floats, *, resamples: int = 2000, seed: int = 0) -> MajorityBias:
    """Both biases of majority voting with bootstrap intervals over prompts; no answer agrees with no mode."""
    right_P = share_right(groups, correct_R)
    mode_A = mode_answers(groups)
    agreement_P = groups.sum_by_group(groups.votes_A * mode_A) / np.maximum(groups.sizes_P, 1) - right_P
    mode_P = groups.sum_by_group(right_answers(groups, correct_R) * mode_A) - right_P
    return MajorityBias(
        mean_interval(agreement_P, resamples=resamples, seed=seed),
        mean_interval(mode_P, resamples=resamples, seed=seed),
    )


def estimator_error(groups: Groups, rewards_R: Floats, correct_R: Floats, advantages_R: Floats) -> EstimatorError:
    """`EstimatorError` over the groups whose truth is known; `advantages_R` as in `direction.normalised`."""
    known_P = known_groups(groups, correct_R)
    known_R = known_P[groups.group_R]
    if not known_R.any():
        return EstimatorError(*(np.nan,) * 5)
    error = rewards_R[known_R] - correct_R[known_R]
    mean_P = groups.sum_rollouts(rewards_R) / np.maximum(groups.sizes_P, 1)
    spread_P = groups.sum_rollouts((rewards_R - mean_P[groups.group_R]) ** 2) / np.maximum(groups.sizes_P, 1)
    a, r = advantages_R[known_R], correct_R[known_R]
    both = a.std() * r.std()
    correlation = float(np.mean((a - a.mean()) * (r - r.mean())) / both) if both > 0 else np.nan
    return EstimatorError(
        bias=float(error.mean()),
        variance=float(error.var()),
        mse=float(np.mean(error**2)),
        within_variance=float(spread_P[known_P].mean()),
        correlation=correlation,
    )
