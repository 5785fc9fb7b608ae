"""What is said of a request beside its rewards. Labels and `correct` flags end here; no estimator ever sees them.

The numbers are those of `dare_reward.numbers` that stand in a reply.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import lru_cache, partial
from itertools import accumulate, pairwise
from math import comb
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..analysis.auroc import group_auroc
from ..answers.classes import grades
from ..answers.labels import read_labels
from ..groups import Groups
from ..numbers import MAJORITY, NUMBERS, means, pass_sums
from ..segments import Bools, Floats, offsets
from .request import Effort, Prepared

SAID = tuple(n.name for n in NUMBERS if n.reply)
LOW_ENTROPY = 0.02  # nats: below it a repetition loop is likelier than confidence


def correctness(prepared: Prepared, effort: Effort | None = None) -> NDArray[np.float64]:
    """1 right, 0 wrong, NaN unknown, per rollout: the `correct` flag, else the answer's class against the label."""
    flagged, effort = prepared.correct_R, effort or Effort()
    if not any(label is not None for label in prepared.labels):
        return flagged
    groups = prepared.groups
    right_A = np.full(len(groups.text_A), np.nan)
    known_P = np.zeros(len(prepared.labels), bool)
    starts = offsets(groups.support_P)
    for p, label in enumerate(prepared.labels):
        kind, options = prepared.kinds[p], prepared.options[p]
        # A label that no answer can equal labels nothing: `gt` would call every rollout wrong.
        if label is not None and (accepted := read_labels(label, kind=kind, options=options)):
            known_P[p] = True
            own = slice(int(starts[p]), int(starts[p + 1]))
            check = partial(effort.check, ("groups", p))
            right_A[own] = grades(
                groups.text_A[own], accepted, kind=kind, options=options, rules=prepared.rules, after_each=check
            )
    graded = np.where(known_P[groups.group_R], groups.spread(right_A, fill=0.0), np.nan)
    return np.where(np.isnan(flagged), graded, flagged)


def describe_groups(prepared: Prepared, label_A: Bools, correct_R: Floats) -> list[dict[str, Any]]:
    """One dictionary per group; `label_A` marks the pseudo-label."""
    groups = prepared.groups
    ratio = (groups.most_votes_P / np.maximum(groups.sizes_P, 1)).tolist()
    out: list[dict[str, Any]] = [
        {MAJORITY: r, "leader_probability": chance}
        for r, chance in zip(ratio, leader_probabilities(groups), strict=True)
    ]
    for entry, reasons in zip(out, prepared.unread, strict=True):
        if reasons:
            entry["no_answer"] = dict(sorted(reasons.items()))
    if np.isnan(correct_R).all():
        return out
    agrees_R = groups.spread(label_A, fill=False)
    size_P = np.maximum(groups.sizes_P, 1)
    right_P, agree_P = groups.sum_rollouts(correct_R), groups.sum_rollouts(agrees_R)
    both_P = groups.sum_rollouts(np.where(agrees_R, correct_R, 0.0))
    columns = {
        "ground_truth_ratio": right_P / size_P,
        "reward_accuracy": groups.sum_rollouts(agrees_R == (correct_R > 0)) / size_P,
        "label_accuracy": (2 * both_P > agree_P).astype(np.float64),
    }
    for p in np.flatnonzero(~np.isnan(right_P)).tolist():
        out[p] |= {name: float(column[p]) for name, column in columns.items()}
    return out


def entropy_flags(groups: Groups) -> tuple[Bools, Bools]:
    """Groups with an answer whose mean entropy is suspiciously low, and with one above 1 nat, whatever the method.

    A group that lacks the entropy of an answered rollout is called neither.
    """
    entropy_R = groups.column("mean_entropy")
    missing_R = np.isnan(entropy_R)
    whole_P = groups.sum_rollouts(groups.valid_R & missing_R) == 0
    mean_A = groups.sum_by_answer(np.where(missing_R, 0.0, entropy_R)) / groups.votes_A
    low_P: Bools = whole_P & (groups.sum_by_group(mean_A < LOW_ENTROPY) > 0)
    high_P: Bools = whole_P & (groups.sum_by_group(mean_A > 1) > 0)
    return low_P, high_P


def describe_request(
    prepared: Prepared, entries: Sequence[Mapping[str, Any]], scored_P: Bools, correct_R: Floats
) -> dict[str, Any]:
    """Means over the groups that were scored, of which `entries` are, as `numbers` declares them."""
    out: dict[str, Any] = {"groups": len(prepared.group_ids), "rollouts": len(prepared.correct_R)}
    for name in SAID:
        if values := [v for e in entries if (v := e.get(name)) is not None]:
            out[name] = math.fsum(values) / len(values)
    if np.isnan(correct_R).all():
        return out
    groups = prepared.groups
    truth_R = np.where(scored_P[groups.group_R], correct_R, np.nan)
    auroc_P = group_auroc(groups, groups.column("mean_entropy"), truth_R)
    out["entropy_auroc"] = None if np.isnan(auroc_P).all() else float(np.nanmean(auroc_P))
    return out | means(pass_sums(groups.sizes_P, groups.sum_rollouts(truth_R)))


@lru_cache(maxsize=1 << 14)
def leader_probability(leader: int, runner_up: int) -> float:
    """P(the leader is the likelier of the two most voted answers), by a flat prior over their shares.

    P(Beta(a+1, b+1) > 1/2) = 2^-(a+b+1) sum_{i <= a} C(a+b+1, i), exactly (Adaptive-Consistency, arXiv:2305.11860):
    4 votes to none are .97, 2 to 1 are .69. It says nothing of a third answer, nor of votes that are not independent.
    """
    draws = leader + runner_up + 1
    favourable = sum(comb(draws, i) for i in range(leader + 1))
    return favourable / (1 << draws)


def leader_probabilities(groups: Groups) -> list[float | None]:
    """`leader_probability` of each group; None where nobody answers."""
    votes = groups.votes_A.astype(np.int64).tolist()
    out: list[float | None] = []
    for begin, end in pairwise((0, *accumulate(groups.support_P.tolist()))):
        top = sorted(votes[begin:end], reverse=True)
        out.append(leader_probability(top[0], top[1] if len(top) > 1 else 0) if top else None)
    return out
