"""What a policy can do: rollouts on fixed problems, graded by the answer room, and what entropy says of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from dare_reward.analysis.auroc import group_auroc
from dare_reward.analysis.passk import majority_at_k
from dare_reward.analysis.truth import right_answers
from dare_reward.analysis.verdict import judge as verdict_of
from dare_reward.groups import Groups
from dare_reward.scoring.diagnostics import correctness
from dare_reward.scoring.request import UNLIMITED, prepare
from dare_reward.segments import Floats, offsets

from ..simulation.arms import judge
from ..simulation.model import Sample
from .arms import ARMS
from .families import Exercises
from .sampling import SampledRollout, sample

COMPARED = tuple(a.name for a in ARMS.values() if a.compared)
LONGEST = 64
JSON = Mapping[str, Any]


@dataclass(frozen=True, slots=True, eq=False)
class Graded:
    """Rollouts of problems with their truth: `families` per problem, `length_R` in tokens."""

    families: tuple[str, ...]
    groups: Groups
    correct_R: Floats
    length_R: Floats


def examine(
    model: Any,
    tokenizer: Any,
    problems: Exercises,
    *,
    each: int,
    seed: int,
    temperature: float = 1.0,
) -> Graded:
    """`each` rollouts per problem, graded."""
    found = drawn(model, tokenizer, problems, each=each, seed=seed, temperature=temperature)
    texts = [[rollout(tokenizer, c) for c in completions] for completions in found]
    lengths = [len(c.ids) for completions in found for c in completions]
    return grade(problems, texts, lengths)


def drawn(
    model: Any, tokenizer: Any, problems: Exercises, *, each: int, seed: int, temperature: float = 1.0
) -> list[list[SampledRollout]]:
    """`each` rollouts per problem; the sampling of whoever calls is not disturbed."""
    import torch

    prompts = [tokenizer(p.prompt)["input_ids"] for _, p in problems]
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        return sample(model, prompts, each=each, longest=LONGEST, end=tokenizer.eos_token_id, temperature=temperature)


def grade(problems: Exercises, rollouts: Sequence[Sequence[JSON]], lengths: Sequence[int]) -> Graded:
    """Rollouts of each problem, in the shape of a request, read and graded as `POST /reward` does by default.

    So a rollout that was cut off counts here as it counts in training.
    """
    groups = [
        {"group_id": str(i), "kind": "exact", "label": problem.answer, "rollouts": list(own)}
        for i, ((_, problem), own) in enumerate(zip(problems, rollouts, strict=True))
    ]
    prepared = prepare(groups, limits=UNLIMITED)
    return Graded(tuple(f for f, _ in problems), prepared.groups, correctness(prepared), np.array(lengths, np.float64))


def rollout(tokenizer: Any, completion: SampledRollout) -> dict[str, Any]:
    ended = completion.ids[-1] == tokenizer.eos_token_id
    return {
        "text": tokenizer.decode(completion.ids, skip_special_tokens=True),
        "finish_reason": "stop" if ended else "length",
        "mean_entropy": float(completion.entropies.mean()),
        "num_tokens": len(completion.ids),
    }


def summary(graded: Graded, *, brief: bool = False) -> dict[str, Any]:
    """What a record keeps of a set of problems: counts per problem, and means. `brief`: no other lists than `right`."""
    groups, correct_R = graded.groups, graded.correct_R
    each = int(groups.sizes_P[0])
    entropy_R = groups.column("mean_entropy")
    auroc_P = group_auroc(groups, entropy_R, correct_R)
    majority_P = majority_at_k(groups, correct_R, each)
    lists = {"majority": np.round(majority_P, 4).tolist(), "distinct": groups.support_P.tolist()}
    return {
        "n": each,
        "right": groups.sum_rollouts(correct_R > 0).astype(int).tolist(),
        **({} if brief else {**lists, "family": list(graded.families)}),
        "parsed": float(groups.valid_R.mean()),
        "length": float(graded.length_R.mean()),
        "entropy": float(entropy_R.mean()),
        "answer_entropy": float(np.mean(_answer_entropies(groups))),
        "auroc": _mean(auroc_P),
        "auroc_wrong_mode": _mean(auroc_P[majority_P < 0.5]),
        "auroc_length": _mean(group_auroc(groups, graded.length_R, correct_R)),
    }


def _answer_entropies(groups: Groups) -> list[float]:
    """Nats, of the answers of each group."""
    out = []
    for low, high in pairwise(offsets(groups.sizes_P).tolist()):
        answers = groups.answer_R[low:high]
        _, counts = np.unique(answers[answers >= 0], return_counts=True)
        share = counts / max(counts.sum(), 1)
        out.append(float(-(share * np.log(share)).sum()))
    return out


def _mean(values: Floats) -> float | None:
    known = values[~np.isnan(values)]
    return float(known.mean()) if len(known) else None


def treatments(graded: Graded, arms: Sequence[str] = COMPARED) -> dict[str, Mapping[str, float]]:
    """How each method would treat these rollouts, beside the vote: its label, flips, advantages and first step."""
    groups, correct_R = graded.groups, graded.correct_R
    whole = Sample(groups, np.zeros(len(groups.text_A), np.int64), correct_R)
    right_A = right_answers(groups, correct_R) > 0
    rival = judge("ttrl", whole)
    out: dict[str, Mapping[str, float]] = {}
    for name in arms:
        found = judge(name, whole)
        own, other = (groups.sum_by_group(at & right_A) for at in (found.label_A, rival.label_A))
        moved = np.minimum(groups.support_P, 1) - np.minimum(groups.sum_by_group(found.label_A & rival.label_A), 1)
        out[name] = {
            "label_accuracy": float(own.mean()),
            "flips": float(moved.mean()),
            "to_right": float((own > other).mean()),
            "from_right": float((own < other).mean()),
            "cosine_ttrl": _cosine(groups, found.advantages_R, rival.advantages_R),
            "dacc": float((groups.sum_rollouts(found.advantages_R * correct_R) / groups.sizes_P).mean()),
        }
    return out


def preflights(graded: Graded, *, prompts: int = 50, tries: int = 4) -> list[dict[str, Any]]:
    """What `dare-reward calibrate` says from `prompts` of these problems, drawn anew each time."""
    groups, correct_R, out = graded.groups, graded.correct_R, []
    for seed in range(tries):
        order = np.random.default_rng(seed).permutation(len(groups.sizes_P))
        chosen_P = np.isin(np.arange(len(order)), order[:prompts])
        found = verdict_of(groups, np.where(np.repeat(chosen_P, groups.sizes_P), correct_R, np.nan), seed=seed)
        c = found.calibration
        out.append(
            {
                "prompts": c.prompts,
                "verdict": found.use,
                "auroc": c.auroc.estimate,
                "exponent": c.exponent,
                "statistic": c.statistic,
                "gain": c.gain.estimate,
            }
        )
    return out


def _cosine(groups: Groups, one_R: Floats, other_R: Floats) -> float:
    """Mean cosine of the advantages over the groups in which both have any."""
    dot, one, other = (groups.sum_rollouts(x) for x in (one_R * other_R, one_R**2, other_R**2))
    both = (one > 0) & (other > 0)
    return float((dot[both] / np.sqrt(one[both] * other[both])).mean()) if both.any() else float("nan")
