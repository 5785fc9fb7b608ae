"""Reading labelled rollouts for `analyse` and `preflight`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dare_reward.diagnostics import correctness
from dare_reward.errors import RequestError
from dare_reward.groups import Groups
from dare_reward.request import Limits, Prepared, prepare
from dare_reward.segments import Floats

from .common import read_groups, warn

__all__ = ["Labelled", "finite", "interval", "number", "read_labelled"]

LIMITS = Limits(groups=1 << 40, rollouts=1 << 40)  # a local file: the service's limits are not its own
TOKENS = "token_ids"


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
    tokens = tuple(tuple(np.asarray(r.get(TOKENS, ()), np.int64) for r in g["rollouts"]) for g in groups)
    sent = any(len(r) for g in tokens for r in g)
    return Labelled(prepared.groups, correct_R, tuple(g.get("prompt") for g in groups), tokens if sent else (), bad)


def _fault(group: Mapping[str, Any]) -> RequestError | None:
    try:
        _prepared([group])
    except RequestError as error:
        return error
    return None


def _prepared(groups: Sequence[Mapping[str, Any]]) -> Prepared:
    return prepare([_without_tokens(g) for g in groups], limits=LIMITS)


def _without_tokens(group: Mapping[str, Any]) -> Mapping[str, Any]:
    """The group without token ids, which no estimator looks at."""
    rollouts = group.get("rollouts")
    if not isinstance(rollouts, list) or not any(isinstance(r, dict) and TOKENS in r for r in rollouts):
        return group
    bare = [{k: v for k, v in r.items() if k != TOKENS} if isinstance(r, dict) else r for r in rollouts]
    return {**group, "rollouts": bare}


def finite(value: Any) -> Any:
    """NaN as null, at any depth of dictionaries."""
    if isinstance(value, dict):
        return {k: finite(v) for k, v in value.items()}
    return None if isinstance(value, float) and not np.isfinite(value) else value


def number(value: float | None, digits: int = 3) -> str:
    return "-" if value is None or np.isnan(value) else f"{value:.{digits}f}"


def interval(found: Mapping[str, Any], digits: int = 3) -> str:
    """`0.612 [0.580, 0.641]`."""
    if np.isnan(found["estimate"]):
        return "-"
    return f"{number(found['estimate'], digits)} [{number(found['low'], digits)}, {number(found['high'], digits)}]"
