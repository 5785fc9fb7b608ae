"""verl's `reward.custom_reward_function.path`: grades an answer against its ground truth.

Validation needs a verifier. In training the hook of dare_reward.stacks.verl replaces what this returns.
"""

from __future__ import annotations

from typing import Any

from dare_reward.answers import extract, grade
from dare_reward.answers.labels import read_labels
from dare_reward.stacks.rollout import label_of


def compute_score(data_source: Any, solution_str: str, ground_truth: Any, extra_info: Any = None, **_: Any) -> float:
    """1.0 if the answer in `solution_str` equals `ground_truth`, else 0.0."""
    return float(grade(extract(solution_str).answer, read_labels(label_of(ground_truth) or ())))
