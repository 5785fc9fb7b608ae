"""`estimate`: groups in, the reply of `POST /reward` out, in process.

The service calls the same function with the same arguments, so local and remote replies are the same bits. Four steps:
the parameters are settled, the groups become arrays, the methods judge them, and the reply is written.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from types import MappingProxyType
from typing import Any

import numpy as np

from ..answers.rollouts import Readings, read_spans
from ..errors import GroupError, RequestError
from ..estimators.method import Estimate, Method
from ..groups import Groups
from ..inputs import Group
from ..methods import EXPERIMENTAL, Configured, find, other_scale, settle
from ..reply import Reply
from ..segments import Bools, Floats
from .array_inputs import Columns
from .diagnostics import correctness, describe_groups
from .reply_writer import Judged, graded, with_spans, write
from .request import LIMITS, Effort, Limits, Prepared, prepare, reading_of
from .update import AS_THEY_ARE, Labelled, Update, second_sizes

JSON = Mapping[str, Any]
NO_COLUMNS: Columns = MappingProxyType({})
LABEL_CONFLICT = GroupError(
    "label_conflict",
    "the labels of its rollouts contradict each other: correct them, or leave them out and choose a label-free method",
)


@dataclass(frozen=True, slots=True, eq=False)
class ScoredGroups:
    """What was read of a request's groups, which rollouts are right, their reply, and the seconds that it took.

    correct_R   1 right, 0 wrong, NaN unknown
    """

    prepared: Prepared
    correct_R: Floats
    reply: Reply
    seconds: float


def estimate(
    groups: Sequence[Group],
    *,
    method: str = "dare",
    columns: Columns = NO_COLUMNS,
    limits: Limits = LIMITS,
    advantage: str | None = None,
    labelled: Labelled = "method",
    shadow: Sequence[str] = (),
    seed: int | None = None,
    **params: Any,
) -> Reply:
    """Score `groups` with `method`.

    Args:
        groups: what the HTTP body has as `groups` (docs/api.md): dictionaries, whose keys a type checker knows from
            `Group` and `Rollout`, or what json.loads returns
        columns: array inputs beside the JSON: float64 [R] or [R, D], or `Ragged`
        advantage: also return advantages by this estimator (docs/advantages.md)
        labelled: gt: a group that has a label gets the rewards of `gt`, all others the method's
        shadow: methods whose opinion goes into the diagnostics, with their default parameters
        seed: for methods that draw
        params: the method's parameters (`dare_reward.methods()`), those of the answers, and the other options of the
            update: `selection`, `selection_size`, `reshape`, `ear_floor`, `adv_clip`, `spans`, `settled`
            (docs/advantages.md)

    Returns:
        The reply: one finite reward per rollout, in order. A group that cannot be scored carries its own error.

    Raises:
        RequestError: the request as a whole is invalid; the error names the place and the rule.
    """
    update, of_method = Update.split({"advantage": advantage, **params})
    return score(
        groups,
        of_method,
        method=method,
        columns=columns,
        limits=limits,
        update=update,
        labelled=labelled,
        shadow=shadow,
        seed=seed,
    ).reply


def score(
    groups: Sequence[JSON],
    params: Mapping[str, Any],
    *,
    method: str,
    columns: Columns = NO_COLUMNS,
    limits: Limits = LIMITS,
    update: Update = AS_THEY_ARE,
    labelled: Labelled = "method",
    shadow: Sequence[str] = (),
    seed: int | None = None,
    effort: Effort | None = None,
    readings: Readings | None = None,
) -> ScoredGroups:
    """`estimate` with the parameters in a mapping, whatever their names: a caller's cannot collide with ours; and with
    what the reply was made of, for a run log.

    `effort` counts what reading the answers costs, and `readings` holds the texts that were read, if that is not for
    this request alone.
    """
    begun = time.perf_counter()
    effort = effort or Effort(limits.steps)
    base = settle(method, params, shadow=shadow, seed=seed)
    if update is not AS_THEY_ARE:
        count = len(groups) if isinstance(groups, Sequence) else 0  # what is no list is refused when it is read
        update.check(base.method, base.values, groups=count)
    if labelled not in {"method", "gt"}:
        raise RequestError("must be one of method, gt", loc=("labelled",), code="parameter")
    if labelled == "gt" and (words := other_scale(base.method, base.values)):
        raise RequestError(words, loc=("labelled",), code="scale")
    prepared = prepare(groups, columns=columns, limits=limits, params=base.reading, effort=effort, readings=readings)
    correct_R = correctness(prepared, effort)
    consent = {name: {EXPERIMENTAL.name: True} if find(name).experimental else {} for name in shadow}
    candidates = [base, *(settle(name, consent[name], seed=seed) for name in shadow)]
    for one in candidates:
        for place, steps in enumerate(one.method.steps(prepared.groups, one.values) if one.method.steps else ()):
            effort.spend(steps, ("groups", place))  # before a method begins that would take more than the request may
    main, *others = [_judge(one, prepared, correct_R) for one in candidates]
    if labelled == "gt":
        truth = settle("gt", base.reading)
        main = graded(main, _judge(truth, prepared, correct_R), prepared.labelled_P(correct_R), prepared.groups)
    shadows = dict(zip(shadow, others, strict=True))
    reply = write(prepared, main, shadows, correct_R, update=update)
    if update.spans:
        silent_R, watch = prepared.groups.column("num_tokens") == 0, partial(effort.check, ("groups",))
        reply = with_spans(reply, read_spans(groups, silent_R, watch, reading_of(base.reading)))
    return ScoredGroups(prepared, correct_R, reply, time.perf_counter() - begun)


def _judge(configured: Configured, prepared: Prepared, correct_R: Floats) -> Judged:
    method, groups = configured.method, prepared.groups
    # Labels are in no group that an estimator sees, but for a method whose registry entry asks for them.
    seen = groups.with_column("label", correct_R) if "label" in method.inputs else groups
    result = method.run(seen, configured.params)
    if prepared.neutral_P.any() or prepared.conflict_P.any():
        result = _with_membership(method, result, prepared)
    label_A = pseudo_label(groups, result)
    labels = list(result.label_P or [None] * len(groups.sizes_P))
    if result.label_P is None:
        for a in np.flatnonzero(label_A).tolist():
            labels[int(groups.group_A[a])] = groups.text_A[a]
    return Judged(method, configured.id, result, label_A, labels, describe_groups(prepared, label_A, correct_R))


def _with_membership(method: Method, result: Estimate, prepared: Prepared) -> Estimate:
    """Equal rewards for a group of which too little came, and a name for the refusal of labels that contradict."""
    groups, gone_P = prepared.groups, prepared.neutral_P
    errors = {p: error for p, error in result.errors.items() if not gone_P[p]}
    if "label" in method.inputs:
        errors |= {p: LABEL_CONFLICT for p in errors if prepared.conflict_P[p]}
    if not gone_P.any():
        return replace(result, errors=errors)
    gone_R = gone_P[groups.group_R]
    own_R, second_R = result.advantages_R, result.second_R
    return replace(
        result,
        rewards_R=np.where(gone_R, 0.0, result.rewards_R),
        advantages_R=None if own_R is None else np.where(gone_R, 0.0, own_R),
        second_R=None if second_R is None else np.where(np.repeat(gone_P, second_sizes(groups)), 0.0, second_R),
        errors=errors,
    )


def pseudo_label(groups: Groups, result: Estimate) -> Bools:
    """The kept answer with the greatest reward, then the most votes, then first seen."""
    candidates_A = result.support_A["kept"] if result.label_A is None else result.label_A
    reward_A = np.where(candidates_A, result.support_A["reward"], -np.inf)
    best_A: Bools = (reward_A == groups.max_by_group(reward_A)[groups.group_A]) & (reward_A > -np.inf)
    return groups.first_max(np.where(best_A, groups.votes_A, -1.0)) & best_A
