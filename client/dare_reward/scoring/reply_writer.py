"""From what methods say of a request's groups to the reply: its tables, flags, advantages and diagnostics."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, compress, pairwise, repeat, starmap
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._version import __version__
from ..answers import ANSWERS_VERSION, Span
from ..errors import GroupError
from ..estimators.method import Estimate, Method
from ..groups import Groups, Ragged
from ..reply import GROUP_FIELDS, GroupReply, Problem, Reply, Support
from ..segments import Bools, Floats
from .diagnostics import describe_request, entropy_flags
from .request import Prepared
from .shadow_methods import compare, normalised, summary
from .update import Update, Updated, named, second_sizes, update_groups

JSON = Mapping[str, Any]
SUPPORT_COLUMNS = ("uncertainty", "p_hat", "p", "bonus", "reward")


@dataclass(frozen=True, slots=True, eq=False)
class Judged:
    """A method's estimate of the prepared groups, its pseudo-labels, and what is said of each group.

    truth   the same by `gt`, of the groups that got their rewards from it; `result` and the rest hold those already
    truth_P which groups these are
    """

    method: Method
    config_id: str
    result: Estimate
    label_A: Bools
    labels_P: Sequence[str | None]
    entries: list[dict[str, Any]]
    truth: Judged | None = None
    truth_P: Bools | None = None


def graded(main: Judged, truth: Judged, where_P: Bools, groups: Groups) -> Judged:
    """What `main` says, and of the groups `where_P` what `truth` does.

    Both reward by 0 and 1 (`methods.other_scale`), so neither has advantages, masks or a selection of its own.
    """
    where_R, where_A = where_P[groups.group_R], where_P[groups.group_A]
    one, other = main.result, truth.result
    nothing_A = np.full(len(where_A), np.nan)
    support = {k: np.where(where_A, other.support_A.get(k, nothing_A), v) for k, v in one.support_A.items()}
    result = replace(
        one,
        rewards_R=np.where(where_R, other.rewards_R, one.rewards_R),
        keep_R=np.where(where_R, other.keep_R, one.keep_R),
        support_A={**support, "kept": support["kept"].astype(bool)},
        used_entropy_P=one.used_entropy_P & ~where_P,
        flags_P={name: at_P & ~where_P for name, at_P in one.flags_P.items()},
        extra_P={name: np.where(where_P, np.nan, column) for name, column in one.extra_P.items()},
        drop_P={name: at_P & ~where_P for name, at_P in one.drop_P.items()},
        errors={p: e for own, on in ((one, False), (other, True)) for p, e in own.errors.items() if where_P[p] == on},
    )
    rows = zip(where_P.tolist(), main.labels_P, truth.labels_P, main.entries, truth.entries, strict=True)
    labels, entries = zip(*((b, d) if on else (a, c) for on, a, b, c, d in rows), strict=True)
    label_A = np.where(where_A, truth.label_A, main.label_A)
    return Judged(main.method, main.config_id, result, label_A, labels, list(entries), truth, where_P)


def write(
    prepared: Prepared, main: Judged, shadows: Mapping[str, Judged], correct_R: Floats, *, update: Update
) -> Reply:
    groups, result = prepared.groups, main.result
    updated = update_groups(update, groups, main.method, result, main.truth_P)
    failed = {**result.errors, **updated.errors}
    for name, column in result.extra_P.items():
        for entry, value in zip(main.entries, _numbers(column), strict=True):
            entry[name] = value
    if shadows:
        _add_shadows(groups, main, shadows)
    scored_P = np.ones(len(prepared.group_ids), bool)
    scored_P[[*failed]] = False
    scored = list(compress(main.entries, scored_P))
    diagnostics = {**describe_request(prepared, scored, scored_P, correct_R), **result.extra}
    if shadows:
        diagnostics["shadow"] = {name: summary([e["shadow"][name] for e in scored]) for name in shadows}
    return Reply(
        method=main.method.name,
        output=main.method.output,
        config_id=main.config_id,
        version=__version__,
        answers_version=ANSWERS_VERSION,
        groups=tuple(_group_replies(prepared, main, updated, failed)),
        diagnostics=diagnostics,
        flags=update.flags(main.method),
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


def _add_shadows(groups: Groups, main: Judged, shadows: Mapping[str, Judged]) -> None:
    """What shadow methods would have said, among the diagnostics of each group."""
    own_R = normalised(groups, main.method, main.result)
    for name, other in shadows.items():
        pair_R, labels = (own_R, normalised(groups, other.method, other.result)), (main.labels_P, other.labels_P)
        found = compare(groups, pair_R, labels, other.entries, other.result)
        for entry, said in zip(main.entries, found, strict=True):
            entry.setdefault("shadow", {})[name] = said


def _group_replies(
    prepared: Prepared, main: Judged, updated: Updated, failed: Mapping[int, GroupError]
) -> list[GroupReply]:
    groups, result = prepared.groups, main.result
    text_A = np.array((*groups.text_A, None), object)  # the last is where no answer points to
    of_rollouts = {
        "rewards": result.rewards_R.tolist() if main.method.output == "rewards" else None,
        "keep": result.keep_R.tolist(),
        "valid": groups.valid_R.tolist(),
        "answers": text_A[groups.answer_R].tolist(),
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
        "diagnostics": main.entries,
    }
    own, truth, absent = (main.method.name, main.config_id), main.truth, [None] * len(prepared.group_ids)
    by = [own] * len(absent)
    if truth is not None and main.truth_P is not None:
        by = [(truth.method.name, truth.config_id) if on else own for on in main.truth_P.tolist()]
    rest = [absent if columns.get(name) is None else columns[name] for name in GROUP_FIELDS[3:]]
    replies = [*starmap(GroupReply, zip(prepared.group_ids, *zip(*by, strict=True), *rest, strict=True))]
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
    nothing = np.full(len(groups.text_A), np.nan)
    columns = _numbers(np.array([result.support_A.get(name, nothing) for name in SUPPORT_COLUMNS], np.float64))
    counts = groups.votes_A.astype(int).tolist()
    kept = result.support_A["kept"].tolist()
    rows = zip(groups.text_A, prepared.keys_A, counts, *columns, kept, strict=True)
    return [*map(tuple.__new__, repeat(Support), rows)]  # what Support(*row) does, without a call for each


def _numbers(column: NDArray[Any]) -> list[Any]:
    """As lists of JSON, whose numbers may be missing."""
    missing = np.isnan(column)
    entries = column
    if missing.any():
        entries = column.astype(object)
        entries[missing] = None
    values: list[Any] = entries.tolist()
    return values


def _flags(prepared: Prepared, own: Mapping[str, Bools], rewards_R: Floats) -> list[tuple[str, ...]]:
    groups = prepared.groups
    low_P, high_P = entropy_flags(groups)
    common = {
        "all_invalid": groups.support_P == 0,
        "single_answer": groups.support_P == 1,
        "tie": groups.tied_P,
        "zero_variance": groups.all_equal(rewards_R),
        "low_entropy": low_P,
        "u_gt_1": high_P,
        "guessed_answer": prepared.guessed_P,
        "same_value_apart": prepared.apart_P,
        "label_conflict": prepared.conflict_P,
        "partial": prepared.partial_P,
        "neutral": prepared.neutral_P,
    }
    return named({**common, **own}, len(groups.sizes_P))
