"""The numbers of one scored group that add up over a step, and the charts that show them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from ..analysis.auroc import pooled_auroc
from ..analysis.passk import pass_at_k
from ..runs.tracker import deviation, trained

__all__ = ["CHARTS", "LABELLED", "Chart", "Curve", "measures"]

Sum = tuple[float, float]  # of values, and of their weights


@dataclass(frozen=True, slots=True)
class Curve:
    """One line of a chart: the key of its column, its name in the legend, its colour by role."""

    key: str
    name: str
    tone: str = "main"


@dataclass(frozen=True, slots=True)
class Chart:
    """share: the values lie in 0 to 1; labelled: it needs labels; dashed: a level to compare with."""

    name: str
    title: str
    meaning: str
    curves: tuple[Curve, ...]
    unit: str = "share"
    labelled: bool = False
    level: float | None = None


# Declared once: the report, the page, `dare-reward plot` and docs/report.md are made of it.
CHARTS: Final = (
    Chart(
        "truth",
        "Agreement against truth",
        "The vote's share beside what the labels say. A share that rises while pass@1 falls is a consensus on wrong "
        "answers.",
        (
            Curve("majority_ratio", "majority share", "main"),
            Curve("label_accuracy", "label accuracy", "good"),
            Curve("reward_accuracy", "reward accuracy", "other"),
            Curve("pass@1", "pass@1", "bad"),
            Curve("pass@k", "pass@k", "quiet"),
        ),
        labelled=True,
    ),
    Chart(
        "agreement",
        "Agreement",
        "Votes of the most voted answer over all rollouts, and the share of groups whose rewards are all equal: these "
        "teach nothing.",
        (Curve("majority_ratio", "majority share", "main"), Curve("zero_variance", "zero variance", "warn")),
    ),
    Chart(
        "distinct",
        "Distinct answers within a prompt",
        "How many different answers the rollouts of one prompt give, on average.",
        (Curve("distinct_within", "answers", "main"),),
        unit="answers",
    ),
    Chart(
        "across",
        "Distinct answers across prompts",
        "Different pseudo-labels of a step over its prompts that have one. A fall means that different prompts get the "
        "same answer.",
        (Curve("distinct_across", "pseudo-labels per prompt", "main"),),
    ),
    Chart(
        "reward",
        "Reward",
        "Mean over rollouts, and the standard deviation over a group's trained rollouts, which scales advantages.",
        (Curve("reward_mean", "mean", "main"), Curve("reward_sd", "sd in a group", "other")),
        unit="reward",
    ),
    Chart(
        "lost",
        "Pruned, invalid, cut off",
        "Rollouts whose answer was pruned, rollouts without an answer, and rollouts that the length limit cut off.",
        (
            Curve("pruned", "pruned", "other"),
            Curve("invalid", "no answer", "warn"),
            Curve("truncated", "cut off", "bad"),
        ),
    ),
    Chart(
        "entropy",
        "Entropy",
        "Mean token entropy of a rollout, of all, and of those that agree with the pseudo-label and those that do not.",
        (
            Curve("entropy", "all", "main"),
            Curve("entropy_agrees", "agrees", "other"),
            Curve("entropy_differs", "differs", "quiet"),
        ),
        unit="nats",
    ),
    Chart(
        "entropy_truth",
        "Entropy of right and wrong",
        "Mean token entropy of right and of wrong rollouts. Entropy can help only where wrong lies above right.",
        (Curve("entropy_right", "right", "good"), Curve("entropy_wrong", "wrong", "bad")),
        unit="nats",
        labelled=True,
    ),
    Chart(
        "auroc",
        "Does low entropy mean right?",
        "AUROC inside a group: the chance that a right rollout has the lower entropy. At .5 entropy says nothing, "
        "below it misleads. In trained models dare broke even with the vote at .57.",
        (Curve("entropy_auroc", "AUROC", "main"),),
        labelled=True,
        level=0.5,
    ),
    Chart(
        "length",
        "Length",
        "Generated tokens of a rollout.",
        (Curve("length", "tokens", "main"),),
        unit="tokens",
    ),
    Chart(
        "votes",
        "Rollouts of a prompt",
        "Rollouts behind the label, and how many of them are trained. With adaptive voting, the gap to the full number "
        "of votes is what was saved.",
        (Curve("votes", "all", "main"), Curve("votes_trained", "trained", "quiet")),
        unit="rollouts",
    ),
    Chart(
        "flips",
        "Label flips",
        "Share of the prompts seen again (by group_id) whose pseudo-label differs from the last visit's.",
        (Curve("flips", "flipped", "main"),),
    ),
)
LABELLED: Final = ("label_accuracy", "reward_accuracy", "pass@1", "entropy_auroc")


def measures(line: Mapping[str, Any]) -> dict[str, Sum]:
    """What a scored group adds to its step: a sum and its weight for each column that it knows."""
    found, flags = line.get("diagnostics") or {}, line.get("flags") or ()
    valid, keep, support = line.get("valid") or (), line.get("keep") or (), line.get("support") or ()
    size = max(len(valid), 1)
    pruned = max(sum(valid) - sum(map(bool, keep)), 0) if keep else 0  # what is kept has an answer
    out: dict[str, Sum] = {
        "zero_variance": (float("zero_variance" in flags), 1.0),
        "distinct_within": (float(len(support)), 1.0),
        "votes": (float(len(valid)), 1.0),
        "votes_trained": (float(sum(line.get("trained") or [True] * len(valid))), 1.0),
        "pruned": (float(pruned), size),
        "invalid": (float(len(valid) - sum(valid)), size),
    }
    for name in ("majority_ratio", "label_accuracy", "reward_accuracy"):
        if found.get(name) is not None:
            out[name] = (float(found[name]), 1.0)
    out |= _mean("truncated", line.get("truncated")) | _mean("reward_mean", line.get("rewards"))
    if line.get("rewards") and (spread := deviation(trained(line, "rewards"))) is not None:
        out["reward_sd"] = (spread, 1.0)
    out |= _mean("length", line.get("num_tokens"))
    out |= _entropies(line, valid)
    out |= _truth(line.get("correct"))
    return out | _shadows(found)


def _mean(name: str, values: Sequence[float | None] | None) -> dict[str, Sum]:
    known = [v for v in values or () if v is not None]
    return {name: (float(sum(known)), float(len(known)))} if known else {}


def _entropies(line: Mapping[str, Any], valid: Sequence[bool]) -> dict[str, Sum]:
    """Of answered rollouts: all, by agreement with the pseudo-label, by truth; the AUROC where both sides are."""
    answers, correct, label = line.get("answers") or (), line.get("correct"), line.get("pseudo_label")
    total = agreeing = count = agrees = 0.0
    rows = []
    for i, (u, answered, answer) in enumerate(zip(line.get("mean_entropies") or (), valid, answers, strict=False)):
        if u is None or not answered:
            continue
        total, count = total + u, count + 1
        if answer == label:
            agreeing, agrees = agreeing + u, agrees + 1
        if correct:
            rows.append((i, u))
    out: dict[str, Sum] = {}
    if count:
        out["entropy"] = (total, count)
    if agrees:
        out["entropy_agrees"] = (agreeing, agrees)
    if agrees and count > agrees:
        out["entropy_differs"] = (total - agreeing, count - agrees)
    told = [(u, correct[i]) for i, u in rows if correct[i] is not None] if correct else []
    right, wrong = [u for u, c in told if c], [u for u, c in told if not c]
    out |= _mean("entropy_right", right) | _mean("entropy_wrong", wrong)
    if right and wrong:
        score = np.array([*right, *wrong])
        auroc = pooled_auroc(score, np.array([1.0] * len(right) + [0.0] * len(wrong)))
        out["entropy_auroc"] = (auroc, 1.0)
        out["entropy_auroc_squares"] = (auroc * auroc, 1.0)
    return out


def _truth(correct: Sequence[bool | None] | None) -> dict[str, Sum]:
    """pass@k for each power of two up to the size of a group whose every rollout is known."""
    if not correct or any(c is None for c in correct):
        return {}
    size, right = len(correct), sum(map(bool, correct))
    return {f"pass@{1 << i}": (pass_at_k(size, right, 1 << i), 1.0) for i in range(size.bit_length())}


def _shadows(found: Mapping[str, Any]) -> dict[str, Sum]:
    """Of each shadow method: another label or not; on the groups where it has one, who was right."""
    out: dict[str, Sum] = {}
    for name, said in (found.get("shadow") or {}).items():
        if not isinstance(said, Mapping) or said.get("label_agreement") is None:
            continue
        differs = 1.0 - float(said["label_agreement"])
        out[f"differs:{name}"] = (differs, 1.0)
        if said.get("flipped") is not None:
            out[f"flipped:{name}"] = (float(said["flipped"]), 1.0)
        if differs and said.get("label_accuracy") is not None and found.get("label_accuracy") is not None:
            out[f"right:{name}"] = (float(said["label_accuracy"]), 1.0)
            out[f"ours:{name}"] = (float(found["label_accuracy"]), 1.0)
    return out
