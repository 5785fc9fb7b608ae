"""Majority vote: TTRL, Test-Time Reinforcement Learning (arXiv:2504.16084)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

import numpy as np

from ..groups import Groups
from ..inputs import MAX_ENTROPY
from ..params import Param
from ..segments import Bools, Ints
from .common import by_answer, no_groups
from .method import Ballots, Estimate, Method, When

Tie = Literal["first", "lexicographic", "certainty", "all", "none"]


def ttrl(
    groups: Groups,
    *,
    tie: Annotated[
        Tie,
        Param(
            "which of equally voted answers is the label: the first seen, the least string, the one with the lowest "
            "mean entropy (certainty), each of them, or none",
            source="official code: Counter.most_common, first seen; certainty: ours",
        ),
    ] = "first",
    no_answer: Annotated[
        Literal["clean", "official"],
        Param(
            "rollouts without an answer never vote and get 0, or vote as one answer that can win and be paid",
            source="ours; official code",
        ),
    ] = "clean",
) -> Estimate:
    """r = 1 for the rollouts whose answer is the mode y* of the group, else 0.

    `no_answer=official` reproduces the released extractor, which returns the empty string where it finds nothing: if
    that "answer" has the most votes, its rollouts get 1 and all others 0.
    """
    voting, place_A = _with_blank(groups) if no_answer == "official" else (groups, np.arange(len(groups.text_A)))
    label = majority(voting, tie).astype(np.float64)
    blank_won_P = voting.sum_by_group(label) > groups.sum_by_group(label[place_A])
    return by_answer(
        groups,
        label[place_A],
        rewards_R=voting.spread(label),
        used_entropy_P=voting.tied_P if tie == "certainty" else no_groups(groups),
        flags_P={"no_answer_label": blank_won_P},
        label_A=label[place_A] > 0,
    )


def ballots(groups: Groups, params: Mapping[str, Any]) -> Ballots:
    """How the groups vote under these parameters of `ttrl`."""
    voting = _with_blank(groups)[0] if params["no_answer"] == "official" else groups
    tie = "all" if params["tie"] == "certainty" else params["tie"]  # votes to come change the entropies as well
    return Ballots(voting, majority(voting, tie), first_wins=tie == "first")


def majority(groups: Groups, tie: str = "first") -> Bools:
    """Which answers have the most votes; of several, those that `tie` names. Of equally sure ones the first seen."""
    votes_A = groups.votes_A
    best_A: Bools = votes_A == groups.most_votes_P[groups.group_A]
    if tie == "all":
        return best_A
    if tie == "none":
        alone_P: Bools = groups.sum_by_group(best_A) == 1
        return best_A & alone_P[groups.group_A]
    rank_A = np.zeros(len(votes_A))
    if tie == "certainty":
        rank_A = -groups.sum_by_answer(np.nan_to_num(groups.column("mean_entropy"), nan=MAX_ENTROPY)) / votes_A
    if tie == "lexicographic":
        rank_A[np.argsort(np.array(groups.text_A, dtype=object), kind="stable")] = -np.arange(len(votes_A))
    return groups.first_max(np.where(best_A, rank_A, -np.inf)) & best_A


def _with_blank(groups: Groups) -> tuple[Groups, Ints]:
    """The groups with "" as the answer of every rollout that has none, and each old answer's new index."""
    answers, position_R = len(groups.text_A), np.arange(len(groups.answer_R))
    blank_P = groups.sum_rollouts(~groups.valid_R) > 0
    code_P = answers + np.cumsum(blank_P) - 1
    code_R = np.where(groups.valid_R, groups.answer_R, code_P[groups.group_R])
    first = np.full(answers + int(blank_P.sum()), len(code_R))
    np.minimum.at(first, code_R, position_R)
    order = np.argsort(first, kind="stable")
    place = np.empty_like(order)
    place[order] = np.arange(len(order))
    text = (*groups.text_A, *[""] * int(blank_P.sum()))
    voting = Groups(
        groups.sizes_P, place[code_R], groups.support_P + blank_P, tuple(text[i] for i in order), groups.columns
    )
    return voting, place[:answers]


METHODS = (
    Method(
        name="ttrl",
        function=ttrl,
        summary="1 for the majority answer, else 0",
        paper="arXiv:2504.16084",
        evidence="verified against official code",
        when=(When("mean_entropy", "tie=certainty", lambda params: params["tie"] == "certainty"),),
        pays_one=True,
        ballots=ballots,
    ),
)
