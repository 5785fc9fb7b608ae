"""The builders of groups for tests of methods: what rollouts said, a letter each, and what the group gets for it."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import dare_reward
from dare_reward.reply import GroupReply


def said(answers: Iterable[str | None], **columns: Any) -> list[dict[str, Any]]:
    """A rollout an answer, with its value of each column, where None and NaN are nothing; a dot is no answer."""
    rollouts = [{"answer": None if answer == "." else answer} for answer in answers]
    for name, column in columns.items():
        for rollout, value in zip(rollouts, column or (), strict=False):
            if value is not None and not (isinstance(value, float) and math.isnan(value)):
                rollout[name] = value
    return rollouts


def exact(answers: Sequence[Iterable[str | None]], **columns: Any) -> list[dict[str, Any]]:
    """A group of a request for each list of answers, which are compared as they stand, as `Groups.of` compares them."""
    rows = [{name: column[p] for name, column in columns.items()} for p in range(len(answers))]
    return [{"kind": "exact", "rollouts": said(group, **own)} for group, own in zip(answers, rows, strict=True)]


def scored(
    rollouts: list[dict[str, Any]], method: str, group: Mapping[str, Any] | None = None, **params: Any
) -> GroupReply:
    """What one group of these rollouts gets, whose answers are compared as they stand."""
    sent = {"kind": "exact", **(group or {}), "rollouts": rollouts}
    return dare_reward.estimate([sent], method=method, **params).groups[0]
