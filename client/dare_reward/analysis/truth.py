"""Which answer a group's reward picks, and whether it is right. Truth stays on this side of the estimators."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import numpy as np

from ..groups import Groups
from ..segments import Bools, Floats

LABELS: Final = 32  # labelled prompts that are enough to decide on a certainty


def is_labelled(group: Mapping[str, Any]) -> bool:
    """Whether a group of a file says what is right, of its prompt or of one of its rollouts."""
    return group.get("label") is not None or any(r.get("correct") is not None for r in group["rollouts"])


def known_groups(groups: Groups, correct_R: Floats) -> Bools:
    """Groups in which every rollout's truth is known."""
    known_P: Bools = (groups.sum_rollouts(np.isnan(correct_R)) == 0) & (groups.sizes_P > 0)
    return known_P


def right_answers(groups: Groups, correct_R: Floats) -> Floats:
    """Share of the rollouts of each answer that are right: 0 or 1 where truth belongs to the answer."""
    return groups.sum_by_answer(np.nan_to_num(correct_R)) / np.maximum(groups.votes_A, 1)
