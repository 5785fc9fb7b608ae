"""Which answer a group's reward picks, and whether it is right. Truth stays on this side of the estimators."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import Any, Final

import numpy as np

from ..answers.labels import read_labels
from ..answers.rollouts import kind_of, option_tuple
from ..errors import RequestError
from ..groups import Groups
from ..segments import Bools, Floats

LABELS: Final = 32  # labelled prompts that are enough to decide on a certainty


def is_labelled(group: Mapping[str, Any]) -> bool:
    """Whether a group of a file says what is right, of its prompt or of one of its rollouts."""
    return group.get("label") is not None or any(r.get("correct") is not None for r in group["rollouts"])


def is_known(group: Mapping[str, Any]) -> bool:
    """Whether it says of each of its rollouts whether it is right, as far as a group can tell that nobody has checked:
    `known_groups` will have it."""
    if all(isinstance(r, Mapping) and r.get("correct") is not None for r in group["rollouts"]):
        return True
    label = None if group.get("label_conflict") else group.get("label")
    with suppress(RequestError, AttributeError, TypeError):  # of another type, which is refused later
        return label is not None and bool(read_labels(label, kind=kind_of(group), options=option_tuple(group)))
    return False


def known_groups(groups: Groups, correct_R: Floats) -> Bools:
    """Groups in which every rollout's truth is known."""
    known_P: Bools = (groups.sum_rollouts(np.isnan(correct_R)) == 0) & (groups.sizes_P > 0)
    return known_P


def right_answers(groups: Groups, correct_R: Floats) -> Floats:
    """Share of the rollouts of each answer that are right: 0 or 1 where truth belongs to the answer."""
    return groups.sum_by_answer(np.nan_to_num(correct_R)) / np.maximum(groups.votes_A, 1)
