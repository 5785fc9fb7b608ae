"""EVOL-RL: majority for direction, novelty for variation (arXiv:2509.15194).

Among the rollouts whose answer holds a digit ("valid"), with S the cosine similarity of their embeddings clipped to
[0, 1]:

    u_i = 1 - (s_i + m_i)/2     s_i mean similarity to the others of i's class (majority answer or not), to all
                                others if i is alone in its class; m_i the greatest similarity to any other
    v_i = (u_i - min u)/(max u - min u) over i's class
    r_i = 0.5 + 0.5 v_i for the majority answer, -1 + 0.5 v_i for others, -1 if not valid

A class of one gets 1 or -0.5, a class of equals 0.75 or -0.75; with fewer than two valid rollouts all get -1.
"""

from __future__ import annotations

from typing import Annotated

import numpy as np
from numpy.typing import NDArray

from ..groups import Groups
from ..params import Param
from ..segments import Bools, Floats, offsets
from .common import by_rollout
from .method import Estimate, Method
from .ttrl import majority

EQUAL = 1e-9  # novelties nearer than this are one: rounding must not decide between -1 and -0.5


def evol_rl(
    groups: Groups,
    *,
    need_digit: Annotated[
        bool,
        Param("an answer without a digit counts as none; switch off for letters and words", source="official code"),
    ] = True,
) -> Estimate:
    """Rewards in [-1, 1]; groups with fewer than two valid rollouts carry the flag `few_valid`."""
    digits_A = np.array([not need_digit or any(c.isdigit() for c in text) for text in groups.text_A], bool)
    valid_R = groups.spread(digits_A, fill=False) & groups.has("embedding")
    label_A = majority(_only(groups, digits_A)) & digits_A
    leads_R = groups.spread(label_A, fill=False)
    place_R, embedding = groups.vectors("embedding")
    rewards_R = np.full(len(valid_R), -1.0)
    few_P = groups.sum_rollouts(valid_R) < 2
    starts = offsets(groups.sizes_P)
    for p in np.flatnonzero(~few_P):
        at = starts[p] + np.flatnonzero(valid_R[starts[p] : starts[p + 1]])
        rewards_R[at] = _rewards(embedding[place_R[at]].astype(np.float64), leads_R[at])
    return by_rollout(
        groups,
        rewards_R,
        keep_R=valid_R,
        support={"kept": digits_A},
        label_A=label_A,
        flags_P={"few_valid": few_P},
    )


def _only(groups: Groups, at_A: Bools) -> Groups:
    """The groups with the votes for other answers withdrawn."""
    counted_R = groups.spread(at_A, fill=False)
    return Groups(groups.sizes_P, np.where(counted_R, groups.answer_R, -1), groups.support_P, groups.text_A)


def _rewards(embedding_MD: NDArray[np.float64], leads_M: Bools) -> Floats:
    """Rewards of the valid rollouts of one group."""
    length_M = np.sqrt(np.einsum("md,md->m", embedding_MD, embedding_MD))
    unit = embedding_MD / np.maximum(length_M, 1e-8)[:, None]
    similar = np.clip(unit @ unit.T, 0.0, 1.0)
    np.fill_diagonal(similar, 0.0)
    same = leads_M[:, None] == leads_M[None, :]
    np.fill_diagonal(same, val=False)
    others = np.maximum(same.sum(axis=1), 1)
    alone = ~same.any(axis=1)
    mean_M = np.where(alone, similar.sum(axis=1) / (len(leads_M) - 1), (similar * same).sum(axis=1) / others)
    novelty_M = 1.0 - 0.5 * (mean_M + similar.max(axis=1))
    rewards = np.empty(len(leads_M))
    for leads, base, single in ((True, 0.5, 1.0), (False, -1.0, -0.5)):
        members = leads_M == leads
        if members.any():
            rewards[members] = single if members.sum() == 1 else base + 0.5 * _scaled(novelty_M[members])
    return rewards


def _scaled(values: Floats) -> Floats:
    """Min-max to [0, 1]; one half where all are equal."""
    low, high = values.min(), values.max()
    return (values - low) / (high - low) if high - low > EQUAL else np.full(len(values), 0.5)


METHODS = (
    Method(
        name="evol_rl",
        function=evol_rl,
        summary="the majority answer's sign, graded by the novelty of the reasoning",
        paper="arXiv:2509.15194",
        evidence="verified against official code",
        requires=("answer", "embedding"),
        cost="an embedding model over every rollout's text",
    ),
)
