"""One scenario measured: error, information and first-order accuracy change of each arm."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from dare_research.analysis.bias import estimator_error, mv_bias
from dare_research.analysis.direction import direction_gain
from dare_research.analysis.information import mutual_information
from dare_research.analysis.truth import mode_answers
from dare_reward.analysis.auroc import entropy_auroc
from dare_reward.analysis.passk import standard_error
from dare_reward.analysis.truth import right_answers
from dare_reward.segments import Bools, Floats

from .arms import Opinion, judge
from .model import Sample, Scenario, draw_prompts, draw_sample

RIVAL = "ttrl"


def measure(scenario: Scenario, arms: Sequence[str], *, prompts: int, seed: int) -> dict[str, Any]:
    """Numbers of a scenario, ready for JSON: a row per arm, and what is the same for all."""
    rng = np.random.default_rng(seed)
    drawn = draw_prompts(scenario, prompts, rng)
    sample = draw_sample(scenario, drawn, rng)
    groups, correct_R = sample.groups, sample.correct_R
    policy_A = sample.policy(drawn.policy_PK)
    right_A = right_answers(groups, correct_R) > 0
    minority_R = groups.spread(right_A & ~mode_answers(groups), fill=False)
    rival = judge(RIVAL, sample, seed=seed)
    references = {
        "ttrl": direction_gain(groups, rival.advantages_R, correct_R, policy_A=policy_A),
        "dist": direction_gain(groups, judge("dare_dist", sample).advantages_R, correct_R, policy_A=policy_A),
    }
    bias = mv_bias(groups, correct_R, resamples=200, seed=seed)
    rows = {}
    for name in arms:
        found = rival if name == RIVAL else judge(name, sample, seed=seed)
        gain_P = direction_gain(groups, found.advantages_R, correct_R, policy_A=policy_A)
        rows[name] = {
            **_row(sample, found, right_A, minority_R),
            "dacc": float(gain_P.mean()),
            "dacc_se": standard_error(gain_P),
            **_paired(gain_P, references),
            "flips": _flips(sample, found.label_A, rival.label_A, right_A),
        }
    return {
        "prompts": prompts,
        "accuracy": float(drawn.policy_PK[:, 0].mean()),
        "mode_wrong": float(1 - groups.sum_by_group(right_A & mode_answers(groups)).mean()),
        "auroc": entropy_auroc(groups, correct_R).within.estimate,
        "mode_bias": bias.mode.estimate,
        "agreement_bias": bias.agreement.estimate,
        "arms": rows,
    }


def _paired(gain_P: Floats, references: Mapping[str, Floats]) -> dict[str, float]:
    """Difference to each reference and its standard error, paired by prompt."""
    out = {}
    for name, other_P in references.items():
        out[f"dacc_over_{name}"] = float((gain_P - other_P).mean())
        out[f"dacc_over_{name}_se"] = standard_error(gain_P - other_P)
    return out


def _row(sample: Sample, found: Opinion, right_A: Bools, minority_R: Bools) -> dict[str, float | None]:
    groups, correct_R = sample.groups, sample.correct_R
    label_P = groups.sum_by_group(found.label_A & right_A)
    return {
        "label_accuracy": float(label_P.mean()),
        **_of_rewards(sample, found),
        "mi_advantage": mutual_information(correct_R, np.round(found.advantages_R, 9)).bits,
        "minority_positive": _share(found.advantages_R > 0, minority_R),
    }


def _of_rewards(sample: Sample, found: Opinion) -> dict[str, float | None]:
    """What compares rewards with the truth: not defined for a method that gives advantages."""
    names = ("bias", "variance", "mse", "within_variance", "correlation", "mi_reward")
    if found.rewards_R is None:
        return dict.fromkeys(names)
    error = estimator_error(sample.groups, found.rewards_R, sample.correct_R, found.advantages_R)
    information = mutual_information(sample.correct_R, found.rewards_R)
    values = (error.bias, error.variance, error.mse, error.within_variance, error.correlation, information.bits)
    return dict(zip(names, values, strict=True))


def _share(at_R: Bools, where_R: Bools) -> float:
    return float(at_R[where_R].mean()) if where_R.any() else float("nan")


def _flips(sample: Sample, label_A: Bools, rival_A: Bools, right_A: Bools) -> dict[str, float]:
    """Share of groups whose picked answer is not the vote's: in all, to a right one, away from a right one."""
    own, other = (sample.groups.sum_by_group(at & right_A) for at in (label_A, rival_A))
    moved: Floats = 1 - np.minimum(sample.groups.sum_by_group(label_A & rival_A), 1)
    return {
        "all": float(moved.mean()),
        "to_right": float((own > other).mean()),
        "from_right": float((own < other).mean()),
    }
