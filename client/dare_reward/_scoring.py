"""`estimate`: groups in, the reply of `POST /reward` out, in process.

The service calls the same function with the same arguments, so local and remote replies are the same bits. Four steps:
the parameters are settled, the groups become arrays, the methods judge them, and the reply is written.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

import numpy as np

from ._array_inputs import Columns
from ._diagnostics import correctness, describe_groups
from ._reply_writer import Judged, write
from ._request import ANSWER_SPECS, LIMITS, Limits, Prepared, of_arrays, prepare
from ._segments import Bools, Floats
from .advantages import find_advantage
from .errors import RequestError
from .groups import Groups
from .inputs import Group
from .methods import Estimate, Method, config_id, find, require_rewards, settle
from .reply import Reply

__all__ = ["estimate", "pseudo_label", "score"]

JSON = Mapping[str, Any]
NO_COLUMNS: Columns = MappingProxyType({})


def estimate(
    groups: Sequence[Group] | Groups,
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

    groups      what the HTTP body has as `groups` (docs/api.md): dictionaries, whose keys a type checker knows from
                `Group` and `Rollout`, or what json.loads returns; or `Groups` with prepared arrays
    columns     array inputs beside the JSON: float64 [R] or [R, D], or `Ragged`
    advantage   also return advantages by this estimator (docs/advantages.md)
    shadow      methods whose opinion goes into the diagnostics, with their default parameters
    seed        for methods that draw
    params      the method's parameters (`dare_reward.methods()`), and those of the answers

    Raises RequestError, with the place and the rule, if the request as a whole is invalid. A group that cannot be
    scored carries its own error in the reply.
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
    if advantage is not None:
        find_advantage(advantage)
        require_rewards(chosen, consumer=f"advantage={advantage}")
    prepared = _prepared(groups, columns, limits, values, given=params)
    correct_R = correctness(prepared)
    main = _judge(chosen, {s.name: values[s.name] for s in chosen.specs}, prepared, correct_R)
    shadows = {name: _judge(find(name), _defaults(name, seed), prepared, correct_R) for name in shadow}
    return write(prepared, main, shadows, correct_R, advantage=advantage, config_id=config_id(chosen.name, values))


def _prepared(
    groups: Sequence[JSON] | Groups,
    columns: Columns,
    limits: Limits,
    values: Mapping[str, Any],
    given: Mapping[str, Any],
) -> Prepared:
    reading = {s.name: values[s.name] for s in ANSWER_SPECS}
    if not isinstance(groups, Groups):
        return prepare(groups, columns=columns, limits=limits, params=reading)
    if idle := reading.keys() & given.keys():
        raise RequestError(f"{min(idle)} reads answers; prepared arrays hold none", loc=("params",), code="parameter")
    return of_arrays(groups)


def _defaults(name: str, seed: int | None) -> dict[str, Any]:
    method = find(name)
    given = {"seed": seed} if seed is not None and any(s.name == "seed" for s in method.specs) else {}
    return method.resolve(given)


def _judge(method: Method, params: Mapping[str, Any], prepared: Prepared, correct_R: Floats) -> Judged:
    groups = prepared.groups
    # Labels are in no group that an estimator sees, but for a method whose registry entry asks for them.
    seen = groups.with_column("label", correct_R) if "label" in method.inputs else groups
    result = method.run(seen, params)
    label_A = pseudo_label(groups, result)
    labels = list(result.label_P) if result.label_P is not None else _label_texts(groups, label_A)
    return Judged(method, result, label_A, labels, describe_groups(prepared, label_A, correct_R))


def _label_texts(groups: Groups, label_A: Bools) -> list[str | None]:
    out: list[str | None] = [None] * len(groups.sizes_P)
    for a in np.flatnonzero(label_A).tolist():
        out[int(groups.group_A[a])] = groups.text_A[a]
    return out


def pseudo_label(groups: Groups, result: Estimate) -> Bools:
    """The kept answer with the greatest reward, then the most votes, then first seen."""
    candidates_A = result.support_A["kept"] if result.label_A is None else result.label_A
    reward_A = np.where(candidates_A, result.support_A["reward"], -np.inf)
    best_A: Bools = (reward_A == groups.max_by_group(reward_A)[groups.group_A]) & (reward_A > -np.inf)
    return groups.first_max(np.where(best_A, groups.votes_A, -1.0)) & best_A
