"""What becomes of rewards: advantages as the training stacks compute them, which rollouts train, what is reshaped.

`rewards_R` are the rewards of the trained rollouts, `sizes_P` how many each group has. m and s are the mean and the
standard deviation (ddof 1 unless said otherwise) of a group's rewards.

Names differ between the stacks; the table in docs/advantages.md is made from `ADVANTAGES`. The options of a request
that ask for these, and their order, are in `scoring/update.py`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from math import comb, sqrt
from types import MappingProxyType

import numpy as np
from numpy.typing import ArrayLike

from .errors import RequestError, unknown_value
from .groups import Groups
from .segments import Bools, Floats, Ints, owners, positions

LEAST_VARIANCE = 1e-8  # OpenRLHF's clamp in the normalisation over a batch


def grpo(rewards_R: Floats, sizes_P: Ints) -> Floats:
    """(r - m)/(s + 1e-6); a group of one keeps r/(1 + 1e-6), as verl sets m = 0 and s = 1 there."""
    mean_R, deviation_R = moments(rewards_R, sizes_P, ddof=1)
    alone_R = np.repeat(sizes_P == 1, sizes_P)
    return np.where(alone_R, rewards_R / (1 + 1e-6), (rewards_R - mean_R) / (deviation_R + 1e-6))


def grpo_openrlhf(rewards_R: Floats, sizes_P: Ints) -> Floats:
    """(r - m)/(s + 1e-9); 0 in a group of one, where OpenRLHF's own value is not a number."""
    mean_R, deviation_R = moments(rewards_R, sizes_P, ddof=1)
    return (rewards_R - mean_R) / (deviation_R + 1e-9)


def grpo_population(rewards_R: Floats, sizes_P: Ints) -> Floats:
    """(r - m)/(s + 1e-6) with the population standard deviation (ddof 0)."""
    mean_R, deviation_R = moments(rewards_R, sizes_P, ddof=0)
    return (rewards_R - mean_R) / (deviation_R + 1e-6)


def dr_grpo(rewards_R: Floats, sizes_P: Ints) -> Floats:
    """r - m."""
    return rewards_R - moments(rewards_R, sizes_P, ddof=1)[0]


def rloo(rewards_R: Floats, sizes_P: Ints) -> Floats:
    """r minus the mean of the other rewards = (r - m) M/(M - 1); a group of one keeps r, as in verl."""
    size_R = np.repeat(sizes_P, sizes_P).astype(np.float64)
    others = dr_grpo(rewards_R, sizes_P) * size_R / np.maximum(size_R - 1, 1)
    return np.where(size_R == 1, rewards_R, others)


def reinforce(rewards_R: Floats, sizes_P: Ints) -> Floats:
    """r: Williams' REINFORCE without a baseline. OpenRLHF's `reinforce` is REINFORCE++."""
    return rewards_R.copy()


def reinforce_pp(rewards_R: Floats, sizes_P: Ints) -> Floats:
    """(r - mean)/std over the whole request: REINFORCE++ without a KL term, each rollout one sample.

    The stacks take each token as a sample, so there long rollouts weigh more in mean and std; with equal lengths it is
    the same. Population std, at least 1e-4. Depends on every group of the request.
    """
    if not len(rewards_R):
        return rewards_R.copy()
    centred_R = rewards_R - rewards_R.mean()
    out: Floats = centred_R / np.sqrt(max(float(np.mean(centred_R**2)), LEAST_VARIANCE))
    return out


def reinforce_pp_baseline(rewards_R: Floats, sizes_P: Ints) -> Floats:
    """REINFORCE++-baseline: r - m, then normalised over the whole request like `reinforce_pp`."""
    return reinforce_pp(dr_grpo(rewards_R, sizes_P), sizes_P)


def pass_at_k_pair(rollouts: int, failed: int, k: int) -> tuple[float, float]:
    """Advantages A+ of a success and A- of a failure for pass@k, with N rollouts of which F failed.

    R = 1 - C(F, k)/C(N, k), s = sqrt(R (1 - R)), A+ = (1 - R)/s, A- = (1 - R - C(F-1, k-1)/C(N-1, k-1))/s; 0 if s = 0.
    """
    fail = comb(failed, k) / comb(rollouts, k) if k <= rollouts else 0.0
    deviation = sqrt((1 - fail) * fail)
    if deviation < 1e-6 or not failed:
        return 0.0, 0.0
    conditional = comb(failed - 1, k - 1) / comb(rollouts - 1, k - 1)
    return fail / deviation, (fail - conditional) / deviation


def pass_at_k_advantage(rewards_R: Floats, sizes_P: Ints, *, k: int) -> Floats:
    """A+ for reward 1, A- for reward 0 (`pass_at_k_pair`). Other rewards are a RequestError."""
    if not np.isin(rewards_R, (0.0, 1.0)).all():
        raise RequestError(f"pass@{k} needs rewards of 0 and 1", loc=("advantage",), code="rewards")
    right_P = np.bincount(owners(sizes_P), rewards_R, minlength=len(sizes_P)).astype(np.int64)
    pairs = [pass_at_k_pair(n, n - c, k) for n, c in zip(sizes_P.tolist(), right_P.tolist(), strict=True)]
    plus_P, minus_P = np.array(pairs, np.float64).reshape(-1, 2).T
    return np.where(rewards_R > 0, np.repeat(plus_P, sizes_P), np.repeat(minus_P, sizes_P))


def fixed(rewards_R: Floats, sizes_P: Ints) -> Floats:
    """2r - 1 for rewards of 0 and 1: no mean, no deviation (DDRL, arXiv:2604.21327, official code)."""
    if not np.isin(rewards_R, (0.0, 1.0)).all():
        raise RequestError("fixed needs rewards of 0 and 1", loc=("advantage",), code="rewards")
    out: Floats = 2 * rewards_R - 1
    return out


Function = Callable[[Floats, Ints], Floats]


@dataclass(frozen=True, slots=True)
class Advantage:
    """An advantage estimator: what the stacks call it, whether it looks beyond the group, and whether it divides by the
    group's deviation."""

    function: Function
    formula: str
    openrlhf: str = "-"
    verl: str = "-"
    over: str = "group"
    divides: bool = False


# By the names of their functions.
ADVANTAGES: Mapping[str, Advantage] = MappingProxyType({a.function.__name__: a for a in (
    Advantage(grpo, "(r - m)/(s + 1e-6)", verl="grpo", divides=True),
    Advantage(grpo_openrlhf, "(r - m)/(s + 1e-9)", openrlhf="group_norm", divides=True),
    Advantage(grpo_population, "(r - m)/(s + 1e-6), s with ddof 0", divides=True),
    Advantage(dr_grpo, "r - m", openrlhf="dr_grpo", verl="grpo without std"),
    Advantage(rloo, "(r - m) M/(M - 1)", openrlhf="rloo", verl="rloo"),
    Advantage(reinforce, "r"),
    Advantage(fixed, "2r - 1, from rewards of 0 and 1"),
    Advantage(
        reinforce_pp, "(r - mean)/std over the request, ddof 0", "reinforce", "reinforce_plus_plus", over="request"
    ),
    Advantage(
        reinforce_pp_baseline, "r - m, then as reinforce_pp", "reinforce_baseline", "reinforce_plus_plus_baseline",
        over="request",
    ),
)})  # fmt: skip


def find_advantage(name: str) -> Function:
    """The estimator of that name; `pass@4` and the like for pass@k."""
    if name in ADVANTAGES:
        return ADVANTAGES[name].function
    if match := re.fullmatch(r"pass@([1-9]\d{0,3})", name):
        return partial(pass_at_k_advantage, k=int(match[1]))
    known = [*ADVANTAGES, "pass@k with a number for k"]
    raise RequestError(unknown_value("advantage", name, known), loc=("advantage",), code="advantage")


def advantages(name: str, rewards_R: ArrayLike, sizes_P: ArrayLike, *, trained_R: ArrayLike | None = None) -> Floats:
    """Advantages by name, as the training stacks compute them (docs/advantages.md has the formulas).

    Args:
        name: grpo, rloo, dr_grpo, pass@K and the like
        rewards_R: the rewards, over all groups
        sizes_P: rollouts of each group
        trained_R: False: the rollout only votes; it enters neither means nor deviations

    Returns:
        One advantage per rollout, NaN where it is not trained.
    """
    function, rewards, sizes = find_advantage(name), np.asarray(rewards_R, np.float64), np.asarray(sizes_P, np.int64)
    trained = np.ones(len(rewards), bool) if trained_R is None else np.asarray(trained_R, bool)
    if not len(rewards) == len(trained) == sizes.sum():
        raise RequestError(
            f"{len(rewards)} rewards, and groups of {sizes.sum()} rollouts", loc=("sizes_P",), code="length"
        )
    out = np.full(len(rewards), np.nan)
    out[trained] = function(rewards[trained], np.bincount(owners(sizes), trained, len(sizes)).astype(np.int64))
    return out


def moments(rewards_R: Floats, sizes_P: Ints, *, ddof: int) -> tuple[Floats, Floats]:
    """Mean and standard deviation of each rollout's group. Exactly m = r and s = 0 where all rewards are equal."""
    group_R = owners(sizes_P)
    first_R = rewards_R[(np.cumsum(sizes_P) - sizes_P)[group_R]]
    shift_P = np.bincount(group_R, rewards_R - first_R, minlength=len(sizes_P)) / np.maximum(sizes_P, 1)
    mean_R = first_R + shift_P[group_R]
    square_P = np.bincount(group_R, (rewards_R - mean_R) ** 2, minlength=len(sizes_P)) / np.maximum(sizes_P - ddof, 1)
    return mean_R, np.sqrt(square_P)[group_R]


# --- what follows an advantage: entropy-based reshaping (ETTRL, arXiv:2508.11356) -------------------------------------


def ear(
    advantages_R: Floats,
    mean_entropy_R: Floats,
    sizes_P: Ints,
    *,
    trained_R: Bools | None = None,
    floor: float | None = 0.0,
) -> Floats:
    """A'_i = Y_i A_i, Y_i = 2 - H_i/H_mean, over the trained rollouts of a group; Y = 1 where H_mean is 0.

    The paper's Y is negative above twice the mean, and turns the advantage around: `floor` bounds it from below, None
    takes it literally. Groups that lack an entropy get NaN.
    """
    group_R = owners(sizes_P)
    counted_R = np.ones(len(group_R), bool) if trained_R is None else trained_R
    number_P = np.bincount(group_R, counted_R, minlength=len(sizes_P))
    total_P = np.bincount(group_R, np.where(counted_R, mean_entropy_R, 0.0), minlength=len(sizes_P))
    mean_R = (total_P / np.maximum(number_P, 1))[group_R]
    known_R = np.isnan(mean_R) | (mean_R > 0)
    factor_R = 2 - np.divide(mean_entropy_R, mean_R, out=np.ones(len(group_R)), where=known_R)
    if floor is not None:
        factor_R = np.maximum(factor_R, floor)
    out: Floats = advantages_R * factor_R
    return out


# --- which rollouts train: the most and the least frequent (DDRL, arXiv:2604.21327, official code) --------------------


def training_size(groups: Groups, n_train: int | None) -> Ints:
    """K of each group: `n_train`, else the rollouts sent as trained where some only vote, else half; at most all."""
    trained_P = groups.sum_rollouts(groups.trains_R).astype(np.int64)
    default_P = np.where(trained_P < groups.sizes_P, trained_P, np.maximum(groups.sizes_P // 2, 1))
    wanted_P = default_P if n_train is None else np.full(len(groups.sizes_P), n_train, np.int64)
    return np.minimum(wanted_P, groups.sizes_P)


def select_ddrl(groups: Groups, n_train: int | None = None) -> Ints:
    """Place of each rollout among those to train, -1 for the others.

    Rollouts are ordered by the votes of their answer, descending and stable; one without an answer counts 0. Selected
    are the first k+ = min(votes of the leader, K // 2) and the last K - k+ of that order, which is the order of the
    places. The release takes int(ratio N) for the leader's votes, which is one too few for 36 pairs of votes and
    N <= 64; this takes the votes.
    """
    size_P = training_size(groups, n_train)
    high_P = np.minimum(groups.most_votes_P.astype(np.int64), size_P // 2)
    votes_R = groups.spread(groups.votes_A)
    order = np.lexsort((np.arange(len(votes_R)), -votes_R, groups.group_R))
    rank_R = np.empty(len(order), np.int64)
    rank_R[order] = positions(groups.sizes_P)
    first_low_R = (groups.sizes_P - (size_P - high_P))[groups.group_R]
    high_R = high_P[groups.group_R]
    place_R: Ints = np.where(
        rank_R < high_R, rank_R, np.where(rank_R >= first_low_R, rank_R - first_low_R + high_R, -1)
    )
    return place_R


def ddrl_flags(groups: Groups, place_R: Ints) -> dict[str, Bools]:
    """Where the release does not do what its paper says (docs/advantages.md)."""
    leads_R = groups.spread(groups.first_max(groups.votes_A), fill=False)
    high_R = np.minimum(groups.most_votes_P, groups.sum_rollouts(place_R >= 0) // 2)[groups.group_R]
    return {
        "unanimous": groups.most_votes_P == groups.sizes_P,
        "positive_negatives": groups.sum_rollouts((place_R >= high_R) & leads_R) > 0,
        "tied_positives": groups.sum_rollouts((place_R >= 0) & (place_R < high_R) & ~leads_R) > 0,
    }
