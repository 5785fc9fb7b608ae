"""What several families share: the frame of an estimate for methods that score answers, or rollouts one by one."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..groups import Groups
from ..segments import Bools, Floats
from .method import Estimate


def share_of_votes(groups: Groups, m_P: NDArray[Any] | None = None) -> Floats:
    """n(y)/M of each answer, shape [A].

    Args:
        groups: the batch
        m_P: M of each group; default: its rollouts with an answer
    """
    m_P = groups.sum_by_group(groups.votes_A) if m_P is None else m_P
    return groups.votes_A / np.maximum(m_P, 1)[groups.group_A]


def share_of_exp(groups: Groups, log_R: Floats, used_R: Bools) -> Floats:
    """exp of the used rollouts' values, summed by answer, over the group's sum; relative to the group's greatest value,
    so that nothing underflows into a tie. Shape [A]."""
    shifted_R = np.where(used_R, log_R, -np.inf)
    most_P = groups.max_rollouts(shifted_R)
    mass_R = np.exp(shifted_R - np.where(np.isfinite(most_P), most_P, 0.0)[groups.group_R])
    return groups.share(groups.sum_by_answer(mass_R))


def winner(groups: Groups, value_A: Floats) -> Bools:
    """The answer of each group with the greatest value above 0; of equals the first seen."""
    winner_A: Bools = groups.first_max(value_A) & (value_A > 0)
    return winner_A


def no_groups(groups: Groups) -> Bools:
    return np.zeros(len(groups.sizes_P), bool)


def by_answer(groups: Groups, reward_A: NDArray[Any], **others: Any) -> Estimate:
    """The estimate in which every rollout gets its answer's reward, and one without an answer 0.

    Args:
        groups: the batch
        reward_A: the reward of each answer, shape [A]
        others: further fields of `Estimate`
    """
    support = {"reward": reward_A, "kept": np.ones(len(reward_A), bool), **others.pop("support", {})}
    if "p_hat" not in support:
        support["p_hat"] = share_of_votes(groups)
    support.setdefault("p", support["p_hat"])
    fields = {
        "rewards_R": groups.spread(reward_A.astype(np.float64)),
        "keep_R": groups.valid_R,
        "used_entropy_P": no_groups(groups),
        **others,
    }
    return Estimate(support_A=support, **fields)


def by_rollout(groups: Groups, rewards_R: Floats, **others: Any) -> Estimate:
    """The estimate in which each rollout has a reward of its own, an answer in the table the mean of its rollouts'.

    Where `others` names no `label_A`, no answer is the pseudo-label; None: any that was kept.
    """
    reward_A = groups.sum_by_answer(rewards_R) / groups.votes_A
    fields = {"label_A": np.zeros(len(reward_A), bool), **others}
    return by_answer(groups, reward_A, **{"rewards_R": rewards_R, **fields})
