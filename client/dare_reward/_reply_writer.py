"""From what methods say of a request's groups to the reply: its tables, flags, advantages and diagnostics."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ._diagnostics import describe_overlap, describe_request, entropy_flags
from ._request import Prepared
from ._segments import Bools, Floats, Ints, offsets
from ._shadow_methods import compare, normalised, summary
from ._version import __version__
from .advantages import advantages
from .answers import ANSWERS_VERSION
from .groups import Groups, Ragged
from .methods import Estimate, Method
from .reply import GroupReply, Problem, Reply, Support

__all__ = ["Judged", "write"]

SUPPORT_COLUMNS = ("uncertainty", "p_hat", "p", "bonus", "reward")


@dataclass(frozen=True, slots=True, eq=False)
class Judged:
    """A method's estimate of the prepared groups, its pseudo-labels, and what is said of each group."""

    method: Method
    result: Estimate
    label_A: Bools
    labels_P: Sequence[str | None]
    entries: list[dict[str, Any]]


def write(
    prepared: Prepared,
    main: Judged,
    shadows: Mapping[str, Judged],
    correct_R: Floats,
    *,
    advantage: str | None,
    config_id: str,
) -> Reply:
    entries = _entries(prepared, main, shadows)
    return Reply(
        method=main.method.name,
        output=main.method.output,
        config_id=config_id,
        version=__version__,
        answers_version=ANSWERS_VERSION,
        groups=tuple(_group_replies(prepared, main, entries, _advantages(prepared, main, advantage))),
        diagnostics=_over_request(prepared, main, entries, correct_R, tuple(shadows)),
    )


def _entries(prepared: Prepared, main: Judged, shadows: Mapping[str, Judged]) -> list[dict[str, Any]]:
    """The diagnostics of each group."""
    groups, out = prepared.groups, main.entries
    for name, column in main.result.extra_P.items():
        for entry, value in zip(out, _numbers(column, len(out)), strict=True):
            entry[name] = value
    for entry, overlap in zip(out, describe_overlap(groups), strict=True):
        if overlap:
            entry["overlap"] = overlap
    if not shadows:
        return out
    own_R = normalised(groups, main.method, main.result)
    for entry in out:
        entry["shadow"] = {}
    for name, other in shadows.items():
        other_R = normalised(groups, other.method, other.result)
        labels = (main.labels_P, other.labels_P)
        for entry, found in zip(
            out, compare(groups, (own_R, other_R), labels, other.entries, other.result), strict=True
        ):
            entry["shadow"][name] = found
    return out


def _over_request(
    prepared: Prepared,
    main: Judged,
    entries: Sequence[Mapping[str, Any]],
    correct_R: Floats,
    shadow: Sequence[str],
) -> dict[str, Any]:
    scored = [e for p, e in enumerate(entries) if p not in main.result.errors]
    out = describe_request(prepared, scored, correct_R)
    if shadow:
        out["shadow"] = {name: summary([e["shadow"][name] for e in scored]) for name in shadow}
    return out


@dataclass(frozen=True, slots=True, eq=False)
class _Advantages:
    own: list[float | None] | None = None
    second: list[float] | None = None


def _advantages(prepared: Prepared, main: Judged, name: str | None) -> _Advantages:
    """Over the trained rollouts of the groups that have rewards; the method's own where that is its output."""
    groups, result = prepared.groups, main.result
    if main.method.output == "advantages":
        return _Advantages(_numbers(np.where(groups.trains_R, result.rewards_R, np.nan), len(result.rewards_R)))
    if name is None:
        return _Advantages()
    scored_P = np.ones(len(groups.sizes_P), bool)
    scored_P[list(result.errors)] = False
    scored_R = scored_P[groups.group_R]
    values = np.full(len(result.rewards_R), np.nan)
    values[scored_R] = advantages(
        name, result.rewards_R[scored_R], groups.sizes_P[scored_P], trained_R=groups.trains_R[scored_R]
    )
    second = None
    if result.second_R is not None:
        second = advantages(name, result.second_R, _second_sizes(groups)).tolist()
    return _Advantages(_numbers(values, len(values)), second)


def _second_sizes(groups: Groups) -> Ints:
    view = groups.views.get("second_group")
    return np.zeros(len(groups.sizes_P), np.int64) if view is None else view.pooled.sizes_P - groups.sizes_P


def _group_replies(
    prepared: Prepared, main: Judged, entries: Sequence[Mapping[str, Any]], advantage: _Advantages
) -> list[GroupReply]:
    groups, result = prepared.groups, main.result
    rollout, answer = offsets(groups.sizes_P).tolist(), offsets(groups.support_P).tolist()
    rewards = result.rewards_R.tolist() if main.method.output == "rewards" else None
    keep, valid = result.keep_R.tolist(), groups.valid_R.tolist()
    names = [groups.text_A[a] if a >= 0 else None for a in groups.answer_R.tolist()]
    support, flags = _support(prepared, result), _flags(prepared, result)
    second = None if result.second_R is None else result.second_R.tolist()
    seconds = offsets(_second_sizes(groups)).tolist()
    masks = None if result.token_mask is None else _masks(result.token_mask)
    replies = []
    for p, group_id in enumerate(prepared.group_ids):
        if p in result.errors:
            error = result.errors[p]
            replies.append(GroupReply(group_id, error=Problem(error.code, error.message)))
            continue
        r, a, s = (slice(at[p], at[p + 1]) for at in (rollout, answer, seconds))
        replies.append(
            GroupReply(
                group_id=group_id,
                rewards=_part(rewards, r),
                keep=tuple(keep[r]),
                valid=tuple(valid[r]),
                answers=tuple(names[r]),
                advantages=_part(advantage.own, r),
                pseudo_label=main.labels_P[p],
                entropy_source=prepared.sources[p] if result.used_entropy_P[p] else "none",
                support=tuple(support[a]),
                second_rewards=_part(second, s),
                second_advantages=_part(advantage.second, s),
                token_mask=_part(masks, r),
                flags=tuple(name for name, at in flags.items() if at[p]),
                diagnostics=entries[p],
            )
        )
    return replies


def _part(values: list[Any] | None, part: slice) -> tuple[Any, ...] | None:
    return None if values is None else tuple(values[part])


def _masks(mask: Ragged) -> list[tuple[bool, ...] | None]:
    starts, flat = offsets(mask.lengths).tolist(), mask.values.tolist()
    return [tuple(flat[a:b]) if b > a else None for a, b in pairwise(starts)]


def _support(prepared: Prepared, result: Estimate) -> list[Support]:
    groups = prepared.groups
    columns = [_numbers(result.support_A.get(name), len(groups.text_A)) for name in SUPPORT_COLUMNS]
    counts = groups.votes_A.astype(int).tolist()
    kept = result.support_A["kept"].tolist()
    return [Support(*row) for row in zip(groups.text_A, prepared.keys_A, counts, *columns, kept, strict=True)]


def _numbers(column: NDArray[Any] | None, length: int) -> list[float | None]:
    if column is None:
        return [None] * length
    return [None if x != x else x for x in column.tolist()]  # noqa: PLR0124  (NaN is what differs from itself)


def _flags(prepared: Prepared, result: Estimate) -> dict[str, list[bool]]:
    groups = prepared.groups
    votes_A = groups.votes_A
    tied_P = groups.sum_by_group(votes_A == groups.max_by_group(votes_A)[groups.group_A]) > 1
    low_P, high_P = entropy_flags(groups)
    common = {
        "all_invalid": groups.support_P == 0,
        "single_answer": groups.support_P == 1,
        "tie": tied_P,
        "zero_variance": _constant(groups, result.rewards_R),
        "low_entropy": low_P,
        "u_gt_1": high_P,
        "guessed_answer": prepared.guessed_P,
        "same_value_apart": prepared.apart_P,
    }
    return {name: at.tolist() for name, at in {**common, **result.flags_P}.items()}


def _constant(groups: Groups, rewards_R: Floats) -> Bools:
    """All rewards of the group are equal: group-normalised advantages are zero."""
    first_R = rewards_R[np.minimum(offsets(groups.sizes_P)[:-1], max(len(rewards_R) - 1, 0))][groups.group_R]
    constant_P: Bools = groups.sum_rollouts(rewards_R != first_R) == 0
    return constant_P
