"""Methods on two groups of a prompt: Co-rewarding I and II (arXiv:2508.00410), Self-Harmony (arXiv:2511.01191).

`second_group` holds rollouts on a paraphrase of the question, `teacher_group` those of a slowly moving copy of the
policy. Answers of both groups are compared with each other; rollouts without an answer never vote and get 0.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..groups import Groups, View
from ..segments import Bools, Floats, positions
from .common import by_answer, winner
from .method import Estimate, Method


def co_rewarding_1(groups: Groups) -> Estimate:
    """Each group's label is the other's majority answer (ties: first seen); r = 1[a = label], 0 if there is none."""
    view = _view(groups, "second_group")
    pooled = view.pooled
    label_A, second_A = _majority(view, ~view.own_R), _majority(view, view.own_R)
    return _paired(groups, view, label_A, second_R=pooled.spread(second_A.astype(np.float64))[~view.own_R])


def co_rewarding_2(groups: Groups) -> Estimate:
    """The label is the majority answer of the teacher's rollouts, in which the policy has no vote; r = 1[a = label]."""
    view = _view(groups, "teacher_group")
    return _paired(groups, view, _majority(view, ~view.own_R))


def self_harmony(groups: Groups) -> Estimate:
    """The label has the greatest harmonic mean 2 p q/(p + q) of its shares in both groups; r = 1[a = label] in both.

    Shares are over all rollouts of a group. An answer that one group lacks scores 0; ties go to the greater total,
    then to the answer first seen. Without a common answer all rewards are 0.
    """
    view = _view(groups, "second_group")
    pooled = view.pooled
    votes_A, others_A = _votes(view, view.own_R), _votes(view, ~view.own_R)
    sizes_P, seconds_P = np.maximum(groups.sizes_P, 1), np.maximum(pooled.sizes_P - groups.sizes_P, 1)
    p_A, q_A = votes_A / sizes_P[pooled.group_A], others_A / seconds_P[pooled.group_A]
    both_A = (votes_A > 0) & (others_A > 0)
    score_A = np.divide(2 * p_A * q_A, p_A + q_A, out=np.zeros(len(p_A)), where=both_A)
    # Equal scores are equal fractions; a relative slack keeps rounding from deciding.
    best_A = score_A >= pooled.max_by_group(score_A)[pooled.group_A] * (1 - 1e-12)
    label_A = winner(pooled, np.where(best_A & both_A, votes_A + others_A, 0.0))
    rewards = pooled.spread(label_A.astype(np.float64))
    flag_P = pooled.sum_by_group(label_A) == 0
    return _paired(groups, view, label_A, second_R=rewards[~view.own_R], flags_P={"no_common_answer": flag_P})


def _view(groups: Groups, name: str) -> View:
    """The pooled groups; without a second one each group alone, which `requires` turns into an error."""
    return groups.views.get(name) or View(groups, np.ones(len(groups.answer_R), bool))


def _votes(view: View, from_R: Bools) -> Floats:
    return view.pooled.sum_by_answer(from_R.astype(np.float64))


def _majority(view: View, from_R: Bools) -> Bools:
    """The most voted answer of these rollouts; ties: the one that they said first."""
    pooled = view.pooled
    voting_R = from_R & pooled.valid_R
    first_A = np.full(len(pooled.text_A), np.inf)
    np.minimum.at(first_A, pooled.answer_R[voting_R], positions(pooled.sizes_P)[voting_R].astype(np.float64))
    votes_A = _votes(view, from_R)
    return winner(pooled, np.where(votes_A > 0, (1 + pooled.sizes_P)[pooled.group_A] * votes_A - first_A, 0.0))


def _paired(groups: Groups, view: View, label_A: Bools, **others: Any) -> Estimate:
    """The estimate of the groups themselves for a label among the pooled answers."""
    pooled = view.pooled
    rewards_R = pooled.spread(label_A.astype(np.float64))[view.own_R]
    reward_A = groups.sum_by_answer(rewards_R) / groups.votes_A
    text: list[str | None] = [None] * len(groups.sizes_P)
    for a in np.flatnonzero(label_A).tolist():
        text[int(pooled.group_A[a])] = pooled.text_A[a]
    for a in np.flatnonzero(reward_A > 0).tolist():  # the group's own spelling, where it has the answer
        text[int(groups.group_A[a])] = groups.text_A[a]
    return by_answer(groups, reward_A, rewards_R=rewards_R, label_A=reward_A > 0, label_P=tuple(text), **others)


METHODS = (
    Method(
        name="co_rewarding_1",
        function=co_rewarding_1,
        summary="the majority answer on a paraphrase is the label, and the other way round",
        paper="arXiv:2508.00410",
        evidence="verified against official code",
        requires=("answer", "second_group"),
        cost="a paraphrase of each question and a second group of rollouts, which are trained on as well",
    ),
    Method(
        name="co_rewarding_2",
        function=co_rewarding_2,
        summary="the majority answer of a slowly moving teacher is the label",
        paper="arXiv:2508.00410",
        evidence="verified against official code",
        requires=("answer", "teacher_group"),
        cost="a second set of weights and a group of its rollouts",
    ),
    Method(
        name="self_harmony",
        function=self_harmony,
        summary="the answer most agreed on across the question and a reframing of it",
        paper="arXiv:2511.01191",
        evidence="verified against official code",
        requires=("answer", "second_group"),
        cost="a reframing of each question and a second group of rollouts, which are trained on as well",
    ),
)
