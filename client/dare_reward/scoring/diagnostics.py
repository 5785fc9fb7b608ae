"""What is said of a request beside its rewards. Labels and `correct` flags end here; no estimator ever sees them.

Names are those that TTRL logs: `majority_ratio` (votes of the most voted answer over M), `label_accuracy` (the
pseudo-label is right), `leader_probability` (docs/selection.md),
`reward_accuracy` (share of rollouts whose agreement with the pseudo-label equals their
correctness), `ground_truth_ratio` (share of right rollouts).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..analysis.auroc import group_auroc
from ..analysis.leader import leader_probabilities
from ..analysis.passk import pass_at_k
from ..answers.classes import grades
from ..answers.effort import Effort
from ..groups import Groups
from ..segments import Bools, Floats, offsets
from .request import Prepared

__all__ = [
    "correctness",
    "describe_groups",
    "describe_request",
    "entropy_auroc",
    "entropy_flags",
    "pass_at_k",
]


LOW_ENTROPY = 0.02  # nats: below it a repetition loop is likelier than confidence


def correctness(prepared: Prepared, effort: Effort | None = None) -> NDArray[np.float64]:
    """1 right, 0 wrong, NaN unknown, per rollout: the `correct` flag, else the answer's class against the label."""
    flagged = np.array([np.nan if c is None else float(c) for c in prepared.correct_R], np.float64)
    if not any(label is not None for label in prepared.labels):
        return flagged
    groups = prepared.groups
    right_A = np.full(len(groups.text_A), np.nan)
    starts = offsets(groups.support_P)
    for p, label in enumerate(prepared.labels):
        if label is not None:
            own = slice(int(starts[p]), int(starts[p + 1]))
            kind, options = prepared.kinds[p], prepared.options[p]
            if effort is not None:
                effort.check(("groups", p))
            right_A[own] = grades(groups.text_A[own], label, kind=kind, options=options)
    known_R = np.array([label is not None for label in prepared.labels], bool)[groups.group_R]
    graded = np.where(known_R, groups.spread(right_A, fill=0.0), np.nan)
    return np.where(np.isnan(flagged), graded, flagged)


def describe_groups(prepared: Prepared, label_A: Bools, correct_R: Floats) -> list[dict[str, Any]]:
    """One dictionary per group; `label_A` marks the pseudo-label."""
    groups = prepared.groups
    top_P = np.maximum(groups.max_by_group(groups.votes_A), 0.0)
    ratio = (top_P / np.maximum(groups.sizes_P, 1)).tolist()
    answered = groups.sum_rollouts(groups.valid_R).astype(int).tolist()
    out: list[dict[str, Any]] = [
        {"majority_ratio": r, "answered": n, "leader_probability": chance}
        for r, n, chance in zip(ratio, answered, leader_probabilities(groups), strict=True)
    ]
    for entry, reasons in zip(out, prepared.unread, strict=True):
        if reasons:
            entry["no_answer"] = dict(sorted(reasons.items()))
    if np.isnan(correct_R).all():
        return out
    agrees_R = groups.spread(label_A, fill=False)
    starts = offsets(groups.sizes_P)
    for p, entry in enumerate(out):
        part = slice(int(starts[p]), int(starts[p + 1]))
        right, agrees = correct_R[part], agrees_R[part]
        if np.isnan(right).any():
            continue
        entry["ground_truth_ratio"] = float(right.mean())
        entry["reward_accuracy"] = float((agrees == (right > 0)).mean())
        entry["label_accuracy"] = float(agrees.any() and right[agrees].mean() > 0.5)
    return out


def entropy_flags(groups: Groups) -> tuple[Bools, Bools]:
    """Groups with an answer whose mean entropy is suspiciously low, and with one above 1 nat, whatever the method.

    A group that lacks the entropy of an answered rollout is called neither.
    """
    entropy_R = groups.column("mean_entropy")
    whole_P = groups.sum_rollouts(groups.valid_R & np.isnan(entropy_R)) == 0
    mean_A = groups.sum_by_answer(np.nan_to_num(entropy_R, nan=0.0)) / groups.votes_A
    low_P: Bools = whole_P & (groups.sum_by_group(mean_A < LOW_ENTROPY) > 0)
    high_P: Bools = whole_P & (groups.sum_by_group(mean_A > 1) > 0)
    return low_P, high_P


def describe_request(prepared: Prepared, entries: Sequence[Mapping[str, Any]], correct_R: Floats) -> dict[str, Any]:
    """Means over the groups that were scored, of which `entries` are; and what only a whole request has:
    `entropy_auroc`, `pass@k`.
    """
    out: dict[str, Any] = {"groups": len(prepared.group_ids), "rollouts": len(prepared.correct_R)}
    for name in ("majority_ratio", "label_accuracy", "reward_accuracy", "ground_truth_ratio"):
        if values := [e[name] for e in entries if name in e]:
            out[name] = float(np.mean(values))
    if np.isnan(correct_R).all():
        return out
    out["entropy_auroc"] = entropy_auroc(prepared.groups, correct_R)
    out.update(_pass_at(prepared.groups, correct_R))
    return out


def entropy_auroc(groups: Groups, correct_R: Floats) -> float | None:
    """Mean over groups of P(entropy of a right rollout < entropy of a wrong one), ties one half.

    Within groups, because a pooled figure measures how hard the prompts are. Groups with only right or only wrong
    rollouts say nothing; None if there is no other.
    """
    values_P = group_auroc(groups, groups.column("mean_entropy"), correct_R)
    return None if np.isnan(values_P).all() else float(np.nanmean(values_P))


def _pass_at(groups: Groups, correct_R: Floats) -> dict[str, float]:
    known_P = groups.sum_rollouts(np.isnan(correct_R)) == 0
    sizes, right = groups.sizes_P[known_P], groups.sum_rollouts(np.nan_to_num(correct_R))[known_P]
    if not len(sizes):
        return {}
    powers = [1 << i for i in range(int(sizes.min()).bit_length())]
    return {
        f"pass@{k}": float(np.mean([pass_at_k(int(n), int(c), k) for n, c in zip(sizes, right, strict=True)]))
        for k in powers
    }
