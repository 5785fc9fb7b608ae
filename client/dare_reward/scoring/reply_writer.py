"""From what methods say of a request's groups to the reply: its tables, flags, advantages and diagnostics."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, compress, pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._version import __version__
from ..answers import ANSWERS_VERSION, Span
from ..errors import GroupError
from ..estimators.method import Estimate, Method
from ..groups import Groups, Ragged
from ..methods import Configured
from ..reply import GroupReply, Problem, Reply, Support
from ..segments import Bools, Floats, offsets
from .diagnostics import describe_request, entropy_flags
from .plan import request_config_id
from .request import Prepared
from .shadow_methods import compare, normalised, summary
from .update import Update, Updated, second_sizes, update_groups

JSON = Mapping[str, Any]
SUPPORT_COLUMNS = ("uncertainty", "p_hat", "p", "bonus", "reward")


@dataclass(frozen=True, slots=True, eq=False)
class Judged:
    """A method's estimate of the prepared groups, its pseudo-labels, and what is said of each group."""

    method: Method
    result: Estimate
    label_A: Bools
    labels_P: Sequence[str | None]
    entries: list[dict[str, Any]]


@dataclass(frozen=True, slots=True, eq=False)
class ScoredPart:
    """The groups of one configuration: which they are, and what is said of them."""

    where_P: Bools
    config_id: str
    prepared: Prepared
    main: Judged
    shadows: Mapping[str, Judged]


def write(
    prepared: Prepared, parts: Sequence[ScoredPart], correct_R: Floats, *, update: Update, base: Configured
) -> Reply:
    updated = update_groups(update, [(p.prepared.groups, p.main.method, p.main.result) for p in parts])
    replies: list[GroupReply | None] = [None] * len(prepared.group_ids)
    entries: list[dict[str, Any]] = [{}] * len(replies)
    for part, what in zip(parts, updated, strict=True):
        failed = {**part.main.result.errors, **what.errors}
        found = _entries(part)
        own = _group_replies(part, found, what, failed)
        for p, reply, entry in zip(np.flatnonzero(part.where_P).tolist(), own, found, strict=True):
            replies[p], entries[p] = reply, entry
    written = tuple(r for r in replies if r is not None)
    scored_P = np.array([r.error is None for r in written], bool)
    flags = dict.fromkeys(f for part in parts for f in update.flags(part.main.method))
    return Reply(
        method=base.method.name,
        output=parts[0].main.method.output if parts else base.method.output,
        config_id=request_config_id([part.config_id for part in parts] or [base.id]),
        version=__version__,
        answers_version=ANSWERS_VERSION,
        groups=written,
        diagnostics=_over_request(prepared, parts, entries, scored_P, correct_R),
        flags=tuple(flags),
    )


def with_spans(reply: Reply, spans: Sequence[Sequence[Span | None]]) -> Reply:
    """The reply with the place of each answer; a group is flagged where one that is there has none."""
    groups = []
    for group, own in zip(reply.groups, spans, strict=True):
        if group.error is None:
            lost = any(ok and at is None for ok, at in zip(group.valid or (), own, strict=True))
            flags = (*(group.flags or ()), *(("no_span",) if lost else ()))
            group = replace(group, answer_spans=tuple(own), flags=flags)  # noqa: PLW2901
        groups.append(group)
    return replace(reply, groups=tuple(groups))


def _entries(part: ScoredPart) -> list[dict[str, Any]]:
    """The diagnostics of each group."""
    groups, main, out = part.prepared.groups, part.main, part.main.entries
    for name, column in main.result.extra_P.items():
        for entry, value in zip(out, _numbers(column), strict=True):
            entry[name] = value
    if not part.shadows:
        return out
    own_R = normalised(groups, main.method, main.result)
    for entry in out:
        entry["shadow"] = {}
    for name, other in part.shadows.items():
        other_R = normalised(groups, other.method, other.result)
        labels = (main.labels_P, other.labels_P)
        for entry, found in zip(
            out, compare(groups, (own_R, other_R), labels, other.entries, other.result), strict=True
        ):
            entry["shadow"][name] = found
    return out


def _over_request(
    prepared: Prepared, parts: Sequence[ScoredPart], entries: Sequence[JSON], scored_P: Bools, correct_R: Floats
) -> dict[str, Any]:
    scored = list(compress(entries, scored_P))
    out = describe_request(prepared, scored, scored_P, correct_R)
    for part in parts:
        out.update(part.main.result.extra)
    if shadow := tuple(dict.fromkeys(name for part in parts for name in part.shadows)):
        out["shadow"] = {name: summary([e["shadow"][name] for e in scored]) for name in shadow}
    return out


def _group_replies(
    part: ScoredPart, entries: Sequence[Mapping[str, Any]], updated: Updated, failed: Mapping[int, GroupError]
) -> list[GroupReply]:
    prepared, main = part.prepared, part.main
    groups, result = prepared.groups, main.result
    text_A = (*groups.text_A, None)  # the last is where no answer points to
    of_rollouts = {
        "rewards": result.rewards_R.tolist() if main.method.output == "rewards" else None,
        "keep": result.keep_R.tolist(),
        "valid": groups.valid_R.tolist(),
        "answers": [*map(text_A.__getitem__, groups.answer_R.tolist())],
        "advantages": None if updated.advantages_R is None else _numbers(updated.advantages_R),
        "select": None if updated.place_R is None else updated.place_R.tolist(),
        "token_mask": None if result.token_mask is None else _masks(result.token_mask),
    }
    split = _split(of_rollouts, groups.sizes_P.tolist())
    if "select" in split:
        split["select"] = [_selected(places) for places in split["select"]]
    if result.second_R is not None:
        gains = None if updated.second_R is None else updated.second_R.tolist()
        of_seconds = {"second_rewards": result.second_R.tolist(), "second_advantages": gains}
        split |= _split(of_seconds, second_sizes(groups).tolist())
    split |= _split({"support": _support(prepared, result)}, groups.support_P.tolist())
    sources = zip(prepared.sources, result.used_entropy_P.tolist(), strict=True)
    columns: dict[str, Sequence[Any] | None] = {
        **split,
        "drop": updated.drop_P,
        "pseudo_label": main.labels_P,
        "entropy_source": [source if used else "none" for source, used in sources],
        "flags": _flags(prepared, {**result.flags_P, **updated.flags_P}, result.rewards_R),
        "diagnostics": entries,
    }
    there = {name: column for name, column in columns.items() if column is not None}
    name = main.method.name
    replies = [
        GroupReply(group_id, name, part.config_id, **dict(zip(there, row, strict=True)))
        for group_id, row in zip(prepared.group_ids, zip(*there.values(), strict=True), strict=True)
    ]
    for p, error in failed.items():
        replies[p] = GroupReply(prepared.group_ids[p], error=Problem(error.code, error.message))
    return replies


def _split(columns: Mapping[str, Sequence[Any] | None], sizes: Sequence[int]) -> dict[str, list[tuple[Any, ...]]]:
    """Of each column that is there the values of each group, of which each has so many."""
    flat = {name: tuple(values) for name, values in columns.items() if values is not None}
    pairs = list(pairwise((0, *accumulate(sizes))))
    return {name: [values[a:b] for a, b in pairs] for name, values in flat.items()}


def _selected(places: Sequence[int]) -> tuple[int, ...]:
    """The rollouts that have a place, in the order of the places."""
    return tuple(sorted((i for i, place in enumerate(places) if place >= 0), key=lambda i: places[i]))


def _masks(mask: Ragged) -> list[tuple[bool, ...] | None]:
    return [rows or None for rows in _split({"mask": mask.values.tolist()}, mask.lengths.tolist())["mask"]]


def _support(prepared: Prepared, result: Estimate) -> list[Support]:
    groups = prepared.groups
    nothing = [None] * len(groups.text_A)
    columns = [_numbers(result.support_A[n]) if n in result.support_A else nothing for n in SUPPORT_COLUMNS]
    counts = groups.votes_A.astype(int).tolist()
    kept = result.support_A["kept"].tolist()
    return [*map(Support, groups.text_A, prepared.keys_A, counts, *columns, kept)]


def _numbers(column: NDArray[Any]) -> list[float | None]:
    values: list[float | None] = column.tolist()
    if not np.isnan(column).any():
        return values
    return [None if x != x else x for x in values]  # noqa: PLR0124  (NaN is what differs from itself)


def _flags(prepared: Prepared, own: Mapping[str, Bools], rewards_R: Floats) -> list[tuple[str, ...]]:
    groups = prepared.groups
    votes_A = groups.votes_A
    tied_P = groups.sum_by_group(votes_A == groups.max_by_group(votes_A)[groups.group_A]) > 1
    low_P, high_P = entropy_flags(groups)
    common = {
        "all_invalid": groups.support_P == 0,
        "single_answer": groups.support_P == 1,
        "tie": tied_P,
        "zero_variance": _constant(groups, rewards_R),
        "low_entropy": low_P,
        "u_gt_1": high_P,
        "guessed_answer": prepared.guessed_P,
        "same_value_apart": prepared.apart_P,
        "label_conflict": prepared.conflict_P,
        "partial": prepared.partial_P,
        "neutral": prepared.neutral_P,
    }
    out: list[tuple[str, ...]] = [()] * len(groups.sizes_P)
    for name, at_P in {**common, **own}.items():
        for p in np.flatnonzero(at_P).tolist():
            out[p] = (*out[p], name)
    return out


def _constant(groups: Groups, rewards_R: Floats) -> Bools:
    """All rewards of the group are equal: group-normalised advantages are zero."""
    first_R = rewards_R[np.minimum(offsets(groups.sizes_P)[:-1], max(len(rewards_R) - 1, 0))][groups.group_R]
    constant_P: Bools = groups.sum_rollouts(rewards_R != first_R) == 0
    return constant_P
