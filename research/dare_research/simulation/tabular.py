"""Training in the model: one softmax policy per prompt, GRPO on votes of M and a trained part of them.

Each step draws M rollouts, takes rewards from all of them and advantages over the first `trained`, and moves the logits
by lr (S(y) - p(y) sum S), S(y) = sum_{i trained, y_i = y} A_i / trained: the policy gradient of a softmax. Entropies
do not change as the policy sharpens, answers are labels, and nothing is shared between prompts: what is seen is the
estimator, not a language model.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from dare_research.analysis.curves import steps_to_threshold
from dare_reward.analysis.passk import standard_error
from dare_reward.segments import Floats

from .arms import judge
from .model import Sample, Scenario, draw_prompts, draw_sample

THRESHOLDS = (0.40, 0.45, 0.50, 0.55, 0.60)


@dataclass(frozen=True, slots=True)
class Training:
    prompts: int = 500
    steps: int = 100
    trained: int = 32
    lr: float = 0.5


@dataclass(frozen=True, slots=True, eq=False)
class SimulatedRun:
    """Mean accuracy by step, and the policies at both ends, [P, K]."""

    curve: list[tuple[int, float]]
    start: Floats
    end: Floats


def train_arms(
    scenario: Scenario, arms: Sequence[str], settings: Training, *, seed: int, rival: str = "ttrl"
) -> dict[str, dict[str, Any]]:
    """A row per arm, ready for JSON. All arms start from the same prompts, so differences are paired over prompts."""
    runs = {arm: train(scenario, arm, settings, seed=seed) for arm in {*arms, rival}}
    rows = {}
    for arm in arms:
        difference_P = runs[arm].end[:, 0] - runs[rival].end[:, 0]
        steps = steps_to_threshold(runs[arm].curve, THRESHOLDS)
        rows[arm] = {
            **_ends(runs[arm].start, runs[arm].end),
            "over_ttrl": float(difference_P.mean()),
            "over_ttrl_se": standard_error(difference_P),
            "steps": {f"{t:.2f}": s for t, s in zip(THRESHOLDS, steps, strict=True)},
            "curve": [[s, round(a, 5)] for s, a in runs[arm].curve if s % 5 == 0],
        }
    return rows


def train(scenario: Scenario, arm: str, settings: Training, *, seed: int) -> SimulatedRun:
    """One run; the seed fixes prompts and draws."""
    drawn = draw_prompts(scenario, settings.prompts, np.random.default_rng(seed))
    logits = np.log(drawn.policy_PK + 1e-300)
    start = drawn.policy_PK
    curve = [(0, float(start[:, 0].mean()))]
    rng = np.random.default_rng((seed, 1))
    for step in range(1, settings.steps + 1):
        policy = _softmax(logits)
        sample = draw_sample(scenario, drawn, rng, policy_PK=policy)
        rewards_R = judge(arm, sample, seed=seed + step).rewards_R
        assert rewards_R is not None, f"{arm} gives advantages: they are not normalised here"
        logits += settings.lr * _step(sample, rewards_R, policy, settings.trained)
        curve.append((step, float(_softmax(logits)[:, 0].mean())))
    return SimulatedRun(curve, start, _softmax(logits))


def _step(sample: Sample, rewards_R: Floats, policy: Floats, trained: int) -> Floats:
    """The logits' step per unit learning rate, [P, K]."""
    rewards = rewards_R.reshape(len(policy), -1)[:, :trained]
    label = sample.label_A[sample.groups.answer_R].reshape(len(policy), -1)[:, :trained]
    centred = rewards - rewards.mean(axis=1, keepdims=True)
    deviation = rewards.std(axis=1, keepdims=True)
    advantage = np.where(deviation > 1e-9, centred / np.maximum(deviation, 1e-9), 0.0)
    flat = np.arange(len(policy))[:, None] * policy.shape[1] + label
    total: Floats = np.bincount(flat.ravel(), advantage.ravel(), minlength=policy.size).astype(np.float64)
    pull = total.reshape(policy.shape) / trained
    out: Floats = pull - policy * pull.sum(axis=1, keepdims=True)
    return out


def _softmax(logits: Floats) -> Floats:
    weights = np.exp(logits - logits.max(axis=1, keepdims=True))
    out: Floats = weights / weights.sum(axis=1, keepdims=True)
    return out


def _ends(start: Floats, end: Floats) -> dict[str, Any]:
    """Final accuracy, what is left of diversity, and which majorities changed."""
    was, now = start.argmax(axis=1) == 0, end.argmax(axis=1) == 0
    return {
        "accuracy": float(end[:, 0].mean()),
        "start_accuracy": float(start[:, 0].mean()),
        "pass@8": float((1 - (1 - end[:, 0]) ** 8).mean()),
        "start_pass@8": float((1 - (1 - start[:, 0]) ** 8).mean()),
        "entropy": float(-(end * np.log(np.maximum(end, 1e-300))).sum(axis=1).mean()),
        "start_entropy": float(-(start * np.log(np.maximum(start, 1e-300))).sum(axis=1).mean()),
        "minority_flipped": float(now[~was].mean()) if (~was).any() else float("nan"),
        "majority_lost": float((~now)[was].mean()) if was.any() else float("nan"),
    }
