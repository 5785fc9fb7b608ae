"""Reading labelled rollouts for `analyse` and `preflight`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dare_reward._diagnostics import correctness
from dare_reward._request import UNLIMITED, Prepared, prepare
from dare_reward._segments import Floats, offsets
from dare_reward.errors import RequestError
from dare_reward.groups import Groups

from .group_lines import read_groups, warn
from .tables import number

__all__ = ["Labelled", "finite", "interval", "read_labelled"]


@dataclass(frozen=True, slots=True, eq=False)
class Labelled:
    """Groups with their truth; `token_ids` is empty if no rollout has any; `bad` lines could not be read."""

    groups: Groups
    correct_R: Floats
    prompts: tuple[str | None, ...]
    token_ids: tuple[tuple[NDArray[Any], ...], ...]
    bad: int


def read_labelled(path: str) -> Labelled:
    """Every good line of the file; a bad one is named on standard error. RequestError if none has a label."""
    groups: list[Mapping[str, Any]] = []
    bad = 0
    for number_, group in read_groups(path):
        fault = group if isinstance(group, RequestError) else _fault(group)
        if fault is None and not isinstance(group, RequestError):
            groups.append({**group, "group_id": f"{len(groups)}"})
            continue
        warn(f"line {number_}: {fault}")
        bad += 1
    if not groups:
        raise RequestError(f"{path}: no groups", code="empty")
    prepared = _prepared(groups)
    correct_R = correctness(prepared)
    if np.isnan(correct_R).all():
        raise RequestError(f"{path}: no group has a label or `correct` flags", code="label")
    prompts = tuple(g.get("prompt") for g in groups)
    return Labelled(prepared.groups, correct_R, prompts, _token_ids(prepared.groups), bad)


def _token_ids(groups: Groups) -> tuple[tuple[NDArray[Any], ...], ...]:
    """The token ids of each group's rollouts; empty if none were sent."""
    sent = groups.ragged("token_ids")
    if not len(sent.values):
        return ()
    ends, starts = offsets(sent.lengths), offsets(groups.sizes_P)
    parts = [sent.values[low:high] for low, high in pairwise(ends.tolist())]
    return tuple(tuple(parts[low:high]) for low, high in pairwise(starts.tolist()))


def _fault(group: Mapping[str, Any]) -> RequestError | None:
    try:
        _prepared([group])
    except RequestError as error:
        return error
    return None


def _prepared(groups: Sequence[Mapping[str, Any]]) -> Prepared:
    return prepare(groups, limits=UNLIMITED)


def finite(value: Any) -> Any:
    """NaN as null, at any depth of dictionaries."""
    if isinstance(value, dict):
        return {k: finite(v) for k, v in value.items()}
    return None if isinstance(value, float) and not np.isfinite(value) else value


def interval(found: Mapping[str, Any], digits: int = 3) -> str:
    """`0.612 [0.580, 0.641]`."""
    if np.isnan(found["estimate"]):
        return "-"
    return f"{number(found['estimate'], digits)} [{number(found['low'], digits)}, {number(found['high'], digits)}]"
