"""Which prompts are worth a label: ranked from answers and entropies alone, before anybody has labelled one.

With n(y) the votes of an answer, u(y) its mean entropy and p(y) = n(y) / sum n the votes as probabilities, under which
E and Var are taken:

    information   Var ln(u(y) + eps)       what a label says about the exponent b of n / (u + eps)^b at b = 0: the
                                           variance of the score d/db ln p_b(y*), up to its sign
    worth         information              plus the same among contenders alone, the answers with at least half of the
                                           leader's votes: `calibrate` tests both, and no other answer can become the
                                           label. `dare-reward label` ranks by it
    contested     p of the second answer   where the two leading answers hold half of the votes or more, else 0: here a
                                           label, as a reward, can turn a prompt

A group without two distinct answers has no information and is not contested. `tests/golden/labels.json` holds values of
another implementation.
"""

from __future__ import annotations

import numpy as np

from ..estimators.common import share_of
from ..groups import Groups
from ..segments import Bools, Floats, positions

EPS = 0.05  # of the weight, as in `calibrated_vote`


def information(groups: Groups, *, eps: float = EPS) -> Floats:
    """Var ln(u(y) + eps) under the votes, of each group, nats^2; NaN where an answered rollout lacks an entropy."""
    return _variance(groups, share_of(groups, groups.votes_A), eps)


def calibration_worth(groups: Groups, *, eps: float = EPS) -> Floats:
    """`information` of each group, plus that among its contenders alone, nats^2."""
    contends_A = 2 * groups.votes_A >= groups.max_by_group(groups.votes_A)[groups.group_A]
    return information(groups, eps=eps) + _variance(groups, share_of(groups, groups.votes_A * contends_A), eps)


def _variance(groups: Groups, share_A: Floats, eps: float) -> Floats:
    log_A = log_uncertainty(groups, eps)
    mean_P = groups.sum_by_group(share_A * log_A)
    variance_P = groups.sum_by_group(share_A * (log_A - mean_P[groups.group_A]) ** 2)
    return np.where(groups.support_P > 1, variance_P, 0.0)


def contested(groups: Groups) -> Floats:
    """The second answer's share of the votes where the first two hold at least half of them, else 0."""
    order = np.lexsort((-groups.votes_A, groups.group_A))
    place_A = np.empty(len(order), np.int64)
    place_A[order] = positions(groups.support_P)
    first_P, second_P = (groups.sum_by_group(share_of(groups, groups.votes_A) * (place_A == k)) for k in (0, 1))
    return np.where(first_P + second_P >= 0.5, second_P, 0.0)


def most(worth_P: Floats, count: int) -> Bools:
    """The `count` groups that are worth most, the first of equals first; fewer where fewer are worth more than 0."""
    order = np.argsort(-np.nan_to_num(worth_P), kind="stable")[:count]
    chosen_P = np.zeros(len(worth_P), bool)
    chosen_P[order] = np.nan_to_num(worth_P)[order] > 0
    return chosen_P


def log_uncertainty(groups: Groups, eps: float) -> Floats:
    """ln(u(y) + eps), NaN where a rollout of the answer lacks an entropy."""
    return np.log(groups.sum_by_answer(groups.column("mean_entropy")) / np.maximum(groups.votes_A, 1) + eps)
