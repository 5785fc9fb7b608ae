"""`estimate`: groups in, the reply of `POST /reward` out, in process.

The service calls the same function with the same arguments, so local and remote replies are the same bits.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ._array_inputs import Columns
from ._diagnostics import correctness, describe_groups, describe_overlap, describe_request, entropy_flags
from ._request import ANSWER_SPECS, LIMITS, Limits, Prepared, prepare
from ._segments import Bools, Floats, Ints, offsets
from ._shadow_methods import compare, normalised, summary
from ._version import __version__
from .advantages import advantages, find_advantage
from .answers import ANSWERS_VERSION, Kind
from .errors import RequestError
from .groups import Groups, Ragged
from .methods import EXPERIMENTAL, Estimate, Method, find, require_rewards
from .params import Spec, resolve
from .reply import GroupReply, Problem, Reply, Support

__all__ = ["configuration", "estimate", "pseudo_label", "score", "settle", "specs"]

JSON = Mapping[str, Any]
NO_COLUMNS: Columns = MappingProxyType({})
SUPPORT_COLUMNS = ("uncertainty", "p_hat", "p", "bonus", "reward")


def estimate(
    groups: Sequence[JSON] | Groups,
    *,
    method: str = "dare",
    columns: Columns = NO_COLUMNS,
    limits: Limits = LIMITS,
    advantage: str | None = None,
    shadow: Sequence[str] = (),
    seed: int | None = None,
    **params: Any,
) -> Reply:
    """Score `groups` with `method`.

    groups      the JSON shape of the HTTP body's `groups` (docs/api.md), or `Groups` with prepared arrays
    columns     array inputs beside the JSON: float64 [R] or [R, D], or `Ragged`
    advantage   also return advantages by this estimator (docs/advantages.md)
    shadow      methods whose opinion goes into the diagnostics, with their default parameters
    seed        for methods that draw
    params      the method's parameters (`dare_reward.methods()`), and those of the answers

    Raises RequestError, with the place and the rule, when the request as a whole means nothing; a group that alone
    cannot be scored carries its error in the reply.
    """
    return score(
        groups,
        params,
        method=method,
        columns=columns,
        limits=limits,
        advantage=advantage,
        shadow=shadow,
        seed=seed,
    )


def score(
    groups: Sequence[JSON] | Groups,
    params: Mapping[str, Any],
    *,
    method: str,
    columns: Columns = NO_COLUMNS,
    limits: Limits = LIMITS,
    advantage: str | None = None,
    shadow: Sequence[str] = (),
    seed: int | None = None,
) -> Reply:
    """`estimate` with the parameters in a mapping, whatever their names: a caller's cannot collide with ours."""
    chosen, values = settle(method, params, shadow=shadow, seed=seed)
    _check_advantage(chosen, advantage)
    own = {s.name: values[s.name] for s in chosen.specs}
    reading = {s.name: values[s.name] for s in ANSWER_SPECS}
    prepared = _prepare(groups, columns, limits, reading, given=params)
    correct_R = correctness(prepared)
    main = _judge(chosen, own, prepared, correct_R)
    shadows = {name: _judge(find(name), _defaults(name, seed), prepared, correct_R) for name in shadow}
    entries = _entries(prepared, main, shadows)
    return Reply(
        method=method,
        output=chosen.output,
        config_id=configuration(method, values),
        version=__version__,
        answers_version=ANSWERS_VERSION,
        groups=tuple(_group_replies(prepared, main, entries, _advantages(prepared, main, advantage))),
        diagnostics=_over_request(prepared, main, entries, correct_R, shadow),
    )


def specs(method: Method, *, shadow: Sequence[str] = ()) -> tuple[Spec, ...]:
    """All parameters that a request with this method may set."""
    experimental = method.experimental or any(find(s, loc=("shadow",)).experimental for s in shadow)
    return (*method.specs, *ANSWER_SPECS, *((EXPERIMENTAL,) if experimental else ()))


def settle(
    method: str, params: Mapping[str, Any], *, shadow: Sequence[str] = (), seed: int | None = None
) -> tuple[Method, dict[str, Any]]:
    """The method of that name and the value of each of its parameters, or RequestError."""
    chosen = find(method)
    if isinstance(shadow, str) or len(set(shadow)) < len(shadow):
        raise RequestError("is a list of different names", loc=("shadow",), code="shadow")
    if seed is not None and any(s.name == "seed" for s in chosen.specs):
        if "seed" in params:
            raise RequestError("is given as a parameter too", loc=("seed",), code="conflict")
        params = {**params, "seed": seed}
    values = resolve(specs(chosen, shadow=shadow), params, loc=("params",))
    _check_experimental([method, *shadow], allowed=values.get(EXPERIMENTAL.name, False))
    for name in shadow:
        if required := [s.name for s in find(name).specs if s.required]:
            message = (
                f"{name} has parameters without a default ({', '.join(required)}): it can be the method, not a shadow"
            )
            raise RequestError(message, loc=("shadow",), code="shadow")
    return chosen, values


def configuration(method: str, values: Mapping[str, Any]) -> str:
    """sha256 of the method, the value of each parameter but the seed, and the version of the answer keys."""
    settled = {k: v for k, v in sorted(values.items()) if k != "seed"}
    content = json.dumps([method, settled, ANSWERS_VERSION], separators=(",", ":"))
    return hashlib.sha256(content.encode()).hexdigest()


def _check_experimental(names: Sequence[str], *, allowed: bool) -> None:
    if not allowed and (unproven := [n for n in names if find(n).experimental]):
        unverified = "; ".join(f"{n}: {find(n).unverified}" for n in unproven)
        raise RequestError(
            f"experimental ({unverified}): set allow_experimental=true to use it, and do not report it as the paper's",
            loc=("params", EXPERIMENTAL.name),
            code="experimental",
        )


def _check_advantage(method: Method, advantage: str | None) -> None:
    if advantage is not None:
        find_advantage(advantage)
        require_rewards(method, consumer=f"advantage={advantage}")


def _defaults(name: str, seed: int | None) -> dict[str, Any]:
    method = find(name)
    given = {"seed": seed} if seed is not None and any(s.name == "seed" for s in method.specs) else {}
    return method.resolve(given)


@dataclass(frozen=True, slots=True, eq=False)
class _Judgement:
    """A method's estimate of the prepared groups, its pseudo-labels, and what is said of each group."""

    method: Method
    result: Estimate
    label_A: Bools
    labels_P: Sequence[str | None]
    entries: list[dict[str, Any]]


def _judge(method: Method, params: Mapping[str, Any], prepared: Prepared, correct_R: Floats) -> _Judgement:
    groups = prepared.groups
    # Labels are in no group that an estimator sees, but for a method whose registry entry asks for them.
    seen = groups.with_column("label", correct_R) if "label" in method.inputs else groups
    result = method.run(seen, params)
    label_A = pseudo_label(groups, result)
    labels = list(result.label_P) if result.label_P is not None else _label_texts(groups, label_A)
    return _Judgement(method, result, label_A, labels, describe_groups(prepared, label_A, correct_R))


def _label_texts(groups: Groups, label_A: Bools) -> list[str | None]:
    out: list[str | None] = [None] * len(groups.sizes_P)
    for a in np.flatnonzero(label_A).tolist():
        out[int(groups.group_A[a])] = groups.text_A[a]
    return out


def _entries(prepared: Prepared, main: _Judgement, shadows: Mapping[str, _Judgement]) -> list[dict[str, Any]]:
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
    prepared: Prepared, main: _Judgement, entries: Sequence[Mapping[str, Any]], correct_R: Floats, shadow: Sequence[str]
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


def _advantages(prepared: Prepared, main: _Judgement, name: str | None) -> _Advantages:
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


def pseudo_label(groups: Groups, result: Estimate) -> Bools:
    """The kept answer with the greatest reward, then the most votes, then first seen."""
    candidates_A = result.support_A["kept"] if result.label_A is None else result.label_A
    reward_A = np.where(candidates_A, result.support_A["reward"], -np.inf)
    best_A: Bools = (reward_A == groups.max_by_group(reward_A)[groups.group_A]) & (reward_A > -np.inf)
    return groups.first_max(np.where(best_A, groups.votes_A, -1.0)) & best_A


def _group_replies(
    prepared: Prepared, main: _Judgement, entries: Sequence[Mapping[str, Any]], advantage: _Advantages
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
    }
    return {name: at.tolist() for name, at in {**common, **result.flags_P}.items()}


def _constant(groups: Groups, rewards_R: Floats) -> Bools:
    """All rewards of the group are equal: group-normalised advantages are zero."""
    first_R = rewards_R[np.minimum(offsets(groups.sizes_P)[:-1], max(len(rewards_R) - 1, 0))][groups.group_R]
    constant_P: Bools = groups.sum_rollouts(rewards_R != first_R) == 0
    return constant_P
