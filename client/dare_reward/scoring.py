"""`estimate`: groups in, the reply of `POST /reward` out, in process.

The service calls the same function with the same arguments, so local and remote replies are the same bits.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ._version import __version__
from .answers import ANSWERS_VERSION, Kind
from .diagnostics import correctness, describe_groups, describe_request
from .errors import RequestError
from .groups import Groups
from .methods import Estimate, Method, find
from .params import Spec, resolve
from .reply import GroupReply, Problem, Reply, Support
from .request import ANSWER_SPECS, LIMITS, Columns, Limits, Prepared, prepare
from .segments import Bools, Floats, offsets

__all__ = ["configuration", "estimate", "settle", "specs"]

JSON = Mapping[str, Any]
NO_COLUMNS: Columns = MappingProxyType({})
SUPPORT_COLUMNS = ("uncertainty", "p_hat", "p", "bonus", "reward")


def estimate(
    groups: Sequence[JSON] | Groups,
    *,
    method: str = "dare",
    columns: Columns = NO_COLUMNS,
    limits: Limits = LIMITS,
    **params: Any,
) -> Reply:
    """Score `groups` with `method`.

    groups    the JSON shape of the HTTP body's `groups` (docs/api.md), or `Groups` with prepared arrays
    columns   array inputs beside the JSON: float64 [R], or `Ragged` for one value per token
    params    the method's parameters (`dare_reward.methods()`), and those of the answers

    Raises RequestError, with the place and the rule, when the request as a whole means nothing; a group that alone
    cannot be scored carries its error in the reply.
    """
    chosen, values = settle(method, params)
    own = {s.name: values[s.name] for s in chosen.specs}
    prepared = _prepare(groups, columns, limits, {k: v for k, v in values.items() if k not in own}, given=params)
    result = chosen.function(prepared.groups, **own)
    label_A = _pseudo_label(prepared.groups, result)
    correct_R = correctness(prepared)
    entries = describe_groups(prepared, label_A, correct_R)
    return Reply(
        method=method,
        output=chosen.output,
        config_id=configuration(method, values),
        version=__version__,
        answers_version=ANSWERS_VERSION,
        groups=tuple(_group_replies(prepared, result, label_A, entries)),
        diagnostics=describe_request(prepared, entries, correct_R),
    )


def specs(method: Method) -> tuple[Spec, ...]:
    """All parameters that a request with this method may set."""
    return method.specs + (ANSWER_SPECS if "answer" in method.requires else ())


def settle(method: str, params: Mapping[str, Any]) -> tuple[Method, dict[str, Any]]:
    """The method of that name and the value of each of its parameters, or RequestError."""
    chosen = find(method)
    return chosen, resolve(specs(chosen), params, loc=("params",))


def configuration(method: str, values: Mapping[str, Any]) -> str:
    """sha256 of the method, the value of each parameter and the version of the answer keys."""
    content = json.dumps([method, dict(sorted(values.items())), ANSWERS_VERSION], separators=(",", ":"))
    return hashlib.sha256(content.encode()).hexdigest()


def _prepare(
    groups: Sequence[JSON] | Groups,
    columns: Columns,
    limits: Limits,
    reading: Mapping[str, Any],
    given: Mapping[str, Any],
) -> Prepared:
    if not isinstance(groups, Groups):
        return prepare(groups, columns=columns, limits=limits, params=reading)
    if idle := reading.keys() & given.keys():
        raise RequestError(f"{min(idle)} reads answers; prepared arrays hold none", loc=("params",), code="parameter")
    count = len(groups.sizes_P)
    exact: Kind = "exact"
    return Prepared(
        groups=groups,
        group_ids=tuple(map(str, range(count))),
        keys_A=("exact",) * len(groups.text_A),
        sources=("exact",) * count,
        kinds=(exact,) * count,
        options=(None,) * count,
        labels=(None,) * count,
        correct_R=(None,) * len(groups.answer_R),
        guessed_P=np.zeros(count, bool),
    )


def _pseudo_label(groups: Groups, result: Estimate) -> Bools:
    """The kept answer with the greatest reward, then the most votes, then first seen."""
    candidates_A = result.support_A["kept"] if result.label_A is None else result.label_A
    reward_A = np.where(candidates_A, result.support_A["reward"], -np.inf)
    best_A: Bools = (reward_A == groups.max_by_group(reward_A)[groups.group_A]) & (reward_A > -np.inf)
    return groups.first_max(np.where(best_A, groups.votes_A, -1.0)) & best_A


def _group_replies(
    prepared: Prepared, result: Estimate, label_A: Bools, entries: Sequence[Mapping[str, Any]]
) -> list[GroupReply]:
    groups = prepared.groups
    rollout, answer = offsets(groups.sizes_P).tolist(), offsets(groups.support_P).tolist()
    rewards, keep, valid = result.rewards_R.tolist(), result.keep_R.tolist(), groups.valid_R.tolist()
    names = [groups.text_A[a] if a >= 0 else None for a in groups.answer_R.tolist()]
    support = _support(prepared, result)
    labels, flags = label_A.tolist(), _flags(prepared, result)
    replies = []
    for p, group_id in enumerate(prepared.group_ids):
        if p in result.errors:
            error = result.errors[p]
            replies.append(GroupReply(group_id, error=Problem(error.code, error.message)))
            continue
        r, a = slice(rollout[p], rollout[p + 1]), slice(answer[p], answer[p + 1])
        replies.append(
            GroupReply(
                group_id=group_id,
                rewards=tuple(rewards[r]),
                keep=tuple(keep[r]),
                valid=tuple(valid[r]),
                answers=tuple(names[r]),
                pseudo_label=next((s.answer for s, best in zip(support[a], labels[a], strict=True) if best), None),
                entropy_source=prepared.sources[p] if result.used_entropy_P[p] else "none",
                support=tuple(support[a]),
                flags=tuple(name for name, at in flags.items() if at[p]),
                diagnostics=entries[p],
            )
        )
    return replies


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
    common = {
        "all_invalid": groups.support_P == 0,
        "single_answer": groups.support_P == 1,
        "tie": tied_P,
        "zero_variance": _constant(groups, result.rewards_R),
        "guessed_answer": prepared.guessed_P,
    }
    return {name: at.tolist() for name, at in {**common, **result.flags_P}.items()}


def _constant(groups: Groups, rewards_R: Floats) -> Bools:
    """All rewards of the group are equal: group-normalised advantages are zero."""
    first_R = rewards_R[np.minimum(offsets(groups.sizes_P)[:-1], max(len(rewards_R) - 1, 0))][groups.group_R]
    constant_P: Bools = groups.sum_rollouts(rewards_R != first_R) == 0
    return constant_P
