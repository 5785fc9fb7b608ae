"""The paper's measures, as pure functions: bias, information, direction, overlap, convergence."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dare_reward.analysis.auroc import equally_long, group_auroc
from dare_reward.analysis.bootstrap import Interval, mean_interval
from dare_reward.analysis.truth import known_groups, right_answers
from dare_reward.groups import Groups
from dare_reward.segments import Floats, Ints, offsets

ROUNDING = 1e-12
Curve = Sequence[tuple[int, float]]


def share_right(groups: Groups, correct_R: Floats) -> Floats:
    """mean(R) of each group, over all its rollouts; NaN where truth is not known."""
    share_P = groups.sum_rollouts(np.nan_to_num(correct_R)) / np.maximum(groups.sizes_P, 1)
    return np.where(known_groups(groups, correct_R), share_P, np.nan)


def entropy_auroc(groups: Groups, correct_R: Floats, *, seed: int = 0) -> dict[str, Any]:
    """P(entropy of a right rollout < entropy of a wrong one), ties one half; rollouts without an answer are left out.

    within       mean over groups that have both; with a bootstrap interval over prompts
    pooled       over all pairs of rollouts of all prompts: for comparison only
    controlled   over the pairs of a group whose lengths differ by at most a tenth, which are `pairs` of all
    length       the same with length in place of entropy: P(a right rollout is shorter)
    """
    entropy_R, length_R = groups.column("mean_entropy"), groups.column("num_tokens")
    controlled, pairs = equally_long(groups, entropy_R, correct_R, seed=seed)
    at_R = groups.valid_R & ~np.isnan(correct_R)
    answers = [["right" if right else "wrong" for right in (correct_R[at_R] > 0).tolist()]]
    pooled = group_auroc(Groups.of(answers), entropy_R[at_R], correct_R[at_R]) if at_R.any() else [np.nan]
    within, length = (mean_interval(group_auroc(groups, x_R, correct_R), seed=seed) for x_R in (entropy_R, length_R))
    return {
        "within": asdict(within),
        "pooled": float(pooled[0]),
        "controlled": asdict(controlled),
        "pairs": pairs,
        "length": asdict(length),
    }


# --- how far a reward is from the true one ---------------------------------------------------------------------------


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


def majority(groups: Groups, correct_R: Floats, *, seed: int = 0) -> dict[str, Interval]:
    """The majority vote, means over prompts with bootstrap intervals; no answer agrees with no mode.

    agreement_bias      mean(1[y = mode]) - mean(R): Theorem 2.2 as the main text reads it
    mode_bias           mean(R(mode)) - mean(R): the same theorem as its proof reads it. It is not zero for independent
                        rollouts, and correlation makes it smaller
    majority_ratio      mean(1[y = mode])
    right_in_minority   the right answer is there without winning
    """
    rate_P, right_A = share_right(groups, correct_R), right_answers(groups, correct_R)
    mode_A = groups.first_max(groups.votes_A)  # the first-seen answer with the most votes, Eq. 1
    share_P = groups.sum_by_group(groups.votes_A * mode_A) / np.maximum(groups.sizes_P, 1)
    won_P, there_P = (groups.sum_by_group(among_A & (right_A > 0.5)) > 0 for among_A in (mode_A, np.ones_like(mode_A)))
    found = {
        "agreement_bias": share_P - rate_P,
        "mode_bias": groups.sum_by_group(right_A * mode_A) - rate_P,
        "majority_ratio": share_P,
        "right_in_minority": there_P & ~won_P,
    }
    known_P = known_groups(groups, correct_R)
    return {name: mean_interval(np.where(known_P, of_P, np.nan), seed=seed) for name, of_P in found.items()}


def estimator_error(groups: Groups, rewards_R: Floats, correct_R: Floats, advantages_R: Floats) -> EstimatorError:
    """`EstimatorError` over the groups whose truth is known; `advantages_R` as of `normalised`."""
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


# --- what one step along a reward does to accuracy -------------------------------------------------------------------


def normalised(groups: Groups, rewards_R: Floats) -> Floats:
    """Group-normalised advantages (r - m)/s with the population deviation; 0 where a group's rewards do not differ.

    The constant of 1e-6 that some stacks add to s is left out: a group's advantages have variance 1 or 0. A deviation
    below 1e-12 of the group's greatest reward is rounding and counts as none.
    """
    size_P = np.maximum(groups.sizes_P, 1)
    scale_P = np.maximum(groups.max_rollouts(np.abs(rewards_R)), 0.0)
    centred_R = rewards_R - (groups.sum_rollouts(rewards_R) / size_P)[groups.group_R]
    deviation_P = np.sqrt(groups.sum_rollouts(centred_R**2) / size_P)
    live_P = deviation_P > ROUNDING * scale_P
    return np.where(live_P[groups.group_R], centred_R / np.where(live_P, deviation_P, 1.0)[groups.group_R], 0.0)


def direction_gain(groups: Groups, advantages_R: Floats, correct_R: Floats) -> Floats:
    """First-order change of each prompt's accuracy per unit step of a softmax policy along the advantages.

    With S(y) = sum_{i: y_i = y} A_i / M the expected logit step of answer y and p(y) = n(y)/M,

        dacc = sum_{y right} p(y) (S(y) - sum_y' p(y') S(y'))

    which for one right answer y* is p* (S(y*) - sum p S). Rollouts without an answer are one outcome, never right. NaN
    where truth is not known.
    """
    size_P = np.maximum(groups.sizes_P, 1)
    silent_P = groups.sum_rollouts(~groups.valid_R) / size_P
    policy_R = groups.spread(groups.votes_A / size_P[groups.group_A])
    policy_R = np.where(groups.valid_R, policy_R, silent_P[groups.group_R])
    pull_P = groups.sum_rollouts(policy_R * advantages_R) / size_P
    gain_P = groups.sum_rollouts(policy_R * advantages_R * np.nan_to_num(correct_R)) / size_P
    return gain_P - share_right(groups, correct_R) * pull_P


# --- information about being right -----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Information:
    """I(R; X) and what it is compared with.

    nats, bits    plug-in estimate sum p ln(p/(p_r p_x))
    corrected     the same minus Miller and Madow's first-order bias (r - 1)(c - 1)/(2N), in nats; may be negative
    share         I/H(R): 1 if X tells everything. R is a function of the answer Y, so I(R; Y) = H(R)
    entropy       H(R) in nats
    """

    nats: float
    bits: float
    corrected: float
    share: float
    entropy: float


def entropy(weights: Floats) -> float:
    """-sum p ln p in nats of non-negative weights, normalised."""
    p = weights[weights > 0] / weights.sum()
    return float(-(p * np.log(p)).sum())


def quantile_bins(x_N: Floats, bins: int) -> Ints:
    """Bin of each value: cut at the interior quantiles, equal values together; each value its own if few.

    A value goes into the bin in which the middle of its tied block lies.
    """
    values, place, mass = np.unique(x_N, return_inverse=True, return_counts=True)
    if len(values) <= bins:
        return place.astype(np.int64)
    middle = (np.cumsum(mass) - mass / 2) / mass.sum()
    bin_V: Ints = np.minimum((middle * bins).astype(np.int64), bins - 1)
    return bin_V[place]


def mutual_information(truth_N: NDArray[Any], x_N: NDArray[Any], *, bins: int = 24) -> Information:
    """I(R; X) of 0/1 truth and an estimator's values; continuous values are cut into `bins` quantile bins.

    Raw rewards pooled over prompts are credited for knowing which prompts are easy, which group normalisation erases:
    report I(R; A) with group-normalised advantages A beside I(R; r). `bins` bounds what is seen of X from above, and
    small samples overstate it (`corrected`).
    """
    right = (np.asarray(truth_N) > 0).astype(np.int64)
    column = quantile_bins(np.asarray(x_N, np.float64), bins)
    width = int(column.max(initial=0)) + 1
    joint = np.bincount(right * width + column, minlength=2 * width).reshape(2, -1)
    rows, columns, total = joint.sum(axis=1), joint.sum(axis=0), joint.sum()
    if total <= 0:
        return Information(np.nan, np.nan, np.nan, np.nan, np.nan)
    full = joint > 0
    expected = np.outer(rows, columns) / total
    nats = max(float((joint[full] * np.log(joint[full] / expected[full])).sum() / total), 0.0)
    excess = (int((rows > 0).sum()) - 1) * (int((columns > 0).sum()) - 1) / (2 * total)
    whole = entropy(rows)
    return Information(nats, nats / float(np.log(2)), nats - excess, nats / whole if whole > 0 else np.nan, whole)


# --- how much the rollouts of a group repeat each other ---------------------------------------------------------------


def token_ids(groups: Groups) -> tuple[tuple[NDArray[Any], ...], ...]:
    """The token ids of each group's rollouts; empty if none were sent."""
    sent = groups.ragged("token_ids")
    if not len(sent.values):
        return ()
    parts = [sent.values[low:high] for low, high in pairwise(offsets(sent.lengths).tolist())]
    return tuple(tuple(parts[low:high]) for low, high in pairwise(offsets(groups.sizes_P).tolist()))


def mean_overlap(prompts: Sequence[Sequence[NDArray[Any] | Sequence[int]]]) -> float:
    """Averaged over the prompts that have two rollouts; NaN if none has."""
    found = [rollout_overlap(rollouts) for rollouts in prompts if len(rollouts) > 1]
    return float(np.mean(found)) if found else np.nan


def rollout_overlap(rollouts: Sequence[NDArray[Any] | Sequence[int]]) -> float:
    """Token ids in common with their multiplicity / length of the longer rollout, mean over the M(M-1)/2 pairs.

    1 for two empty ones, NaN for fewer than two. Leave out the prompt and the end token, which all rollouts share. Of
    distinct tokens alone the share saturates on long texts; of equal positions it collapses after one insertion.
    """
    if len(rollouts) < 2:
        return np.nan
    ids = [np.asarray(r, np.int64) for r in rollouts]
    lengths = np.array([len(r) for r in ids])
    _, column = np.unique(np.concatenate(ids), return_inverse=True)
    counts_MV = np.zeros((len(ids), int(column.max(initial=-1)) + 1), np.int64)
    np.add.at(counts_MV, (np.repeat(np.arange(len(ids)), lengths), column), 1)
    one, other = np.triu_indices(len(ids), 1)
    common, longer = np.minimum(counts_MV[one], counts_MV[other]).sum(axis=1), np.maximum(lengths[one], lengths[other])
    return float(np.divide(common, longer, out=np.ones(len(one)), where=longer > 0).mean())


# --- convergence ------------------------------------------------------------------------------------------------------


def steps_to_threshold(curve: Curve, thresholds: Sequence[float]) -> list[int | None]:
    """First evaluated step with accuracy >= each threshold, None if never; `curve` is (step, accuracy).

    Compare curves that were evaluated at the same steps only.
    """
    ordered = sorted(curve)
    return [next((step for step, accuracy in ordered if accuracy >= t), None) for t in thresholds]
