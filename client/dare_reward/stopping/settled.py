"""`settled`: groups in, and for each whether its votes so far settle it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from .._version import __version__
from ..answers import ANSWERS_VERSION
from ..answers.effort import Effort
from ..errors import RequestError
from ..estimators.certainty import OVER, TRACE, entropies_over
from ..estimators.method import Estimate
from ..groups import Groups
from ..inputs import Group
from ..methods import Configured, settle
from ..reply import Problem
from ..scoring.plan import plan_of, request_config_id
from ..scoring.request import LIMITS, Limits, Prepared, prepare
from ..scoring.score import NO_COLUMNS, count_steps, pseudo_label
from ..segments import Bools, Floats, Ints
from .futures import outlook, rewards
from .rules import flip_risk, locked, predictive, tallies
from .waves import NOTHING, RuleName, Waves

JSON = Mapping[str, Any]
# Of a request's steps, the votes to come take one for so many: squares of their number, rollouts that are drawn.
SQUARES, DRAWN = 512, 16


@dataclass(frozen=True, slots=True)
class GroupSettled:
    """One group. With `error` set, every field but `group_id` and `votes` is None.

    Attributes:
        settled: further votes would hardly change its label or rewards
        more: votes of its next wave; 0 if it is settled
        risk: probability that the label differs once all votes are in
        sign_risk: probability that the advantage of some trained rollout then has another sign; None for rules on
            votes, where a sign changes with the label alone
        change: expected 1 - cosine of the trained rollouts' advantages with those then; None for rules on votes
        votes: rollouts so far
    pseudo_label the method's label of now
    """

    group_id: str
    votes: int
    method: str | None = None
    rule: str | None = None
    settled: bool | None = None
    more: int | None = None
    risk: float | None = None
    sign_risk: float | None = None
    change: float | None = None
    pseudo_label: str | None = None
    error: Problem | None = None


@dataclass(frozen=True, slots=True)
class SettledReply:
    """What `dare_reward.settled` returns.

    Attributes:
        method: the method whose label and rewards are judged
        config_id: a hash of the method, its parameters, the rule and its parameters
        version: of the package that answered
        answers_version: of its rules of reading answers
        groups: one for each group, in order
        diagnostics: numbers over the request, such as `votes_saved`
        flags: what is unusual about it
    """

    method: str
    config_id: str
    version: str
    answers_version: str
    groups: tuple[GroupSettled, ...]
    diagnostics: Mapping[str, float] = field(default_factory=lambda: NOTHING)
    flags: tuple[str, ...] = ()


def settled(
    groups: Sequence[Group] | Groups,
    *,
    method: str = "dare",
    votes: int = 64,
    rule: RuleName | None = None,
    wave: int = 8,
    rule_params: Mapping[str, Any] = NOTHING,
    limits: Limits = LIMITS,
    seed: int | None = None,
    **params: Any,
) -> SettledReply:
    """Which of `groups` need no further votes, by the label and the rewards of `method` (docs/stopping.md).

    Args:
        groups: as of `estimate`, each with the rollouts of its complete waves; `trained: false` marks votes only
        votes: rollouts of a group that vote in full
        rule: predictive or rewards; default: predictive for a method that pays the
            most voted answer, else rewards
        wave: votes of one further wave: what `more` asks for
        rule_params: parameters of the rule
        params: parameters of the method

    Returns:
        For each group whether its votes settle it. A group that cannot be judged carries its own error.

    Raises:
        RequestError: an option is wrong, or the rule cannot judge the method's label.
    """
    options = {"votes": votes, "rule": rule, "wave": wave, "rule_params": rule_params}
    return decide(groups, params, method=method, waves=Waves.of(options), limits=limits, seed=seed)


def decide(
    groups: Sequence[JSON] | Groups,
    params: Mapping[str, Any],
    *,
    method: str,
    waves: Waves,
    columns: Any = NO_COLUMNS,
    limits: Limits = LIMITS,
    seed: int | None = None,
    effort: Effort | None = None,
) -> SettledReply:
    """`settled` with the parameters in a mapping, whatever their names."""
    if isinstance(groups, Groups):
        raise RequestError("prepared arrays hold no rollouts to copy: send groups", loc=("groups",), code="type")
    effort = effort or Effort(limits.steps)
    base = settle(method, params, seed=seed)
    plan = plan_of(groups, base, params, seed, most=limits.groups)
    rules = [waves.rule_of(c.method) for c in plan.configured]
    for rule in rules:
        waves.resolved(rule)
    prepared = prepare(groups, columns=columns, limits=limits, params=base.reading, effort=effort)
    judged: dict[int, GroupSettled] = {}
    for (configured, where_P), rule in zip(plan.parts(len(prepared.group_ids)), rules, strict=True):
        part = prepared if where_P.all() else prepared.take(where_P)
        count_steps(configured, part.groups, where_P, effort, times=waves.resolved(rule).get("draws", 1))
        at = np.flatnonzero(where_P).tolist()
        _foresee(part.groups.sizes_P.tolist(), at, rule, waves, effort)
        judged |= dict(zip(at, _judged(part, configured, rule, waves, effort.watch), strict=True))
    out = tuple(judged[p] for p in range(len(judged)))
    return SettledReply(
        method=base.method.name,
        config_id=request_config_id([c.id for c in plan.configured]),
        version=__version__,
        answers_version=ANSWERS_VERSION,
        groups=out,
        diagnostics=totals(out, waves.votes),
    )


def certain(group: JSON, params: Mapping[str, Any], *, method: str, votes: int) -> bool:
    """No outcome of the votes to come, up to `votes`, can change the label: a wave that runs may be cut short.

    For methods that pay the most voted answer, because then no reward can change either. Votes come in any order, so
    each rival may turn out to have come first, and a tie with any of them is open.
    """
    configured = settle(method, params)
    if configured.method.ballots is None:
        return False
    groups = prepare([group], params=configured.reading).groups
    (tally,) = tallies(configured.method.ballots(groups, configured.values))
    any_order = replace(tally, rivals=tuple((cast, True) for cast, _ in tally.rivals), unseen_ties=True)
    return locked(any_order, max(votes - int(groups.sizes_P[0]), 0))


def totals(groups: Sequence[GroupSettled], votes: int) -> dict[str, float]:
    """Of a request: groups, those settled, votes of now, votes that will not be asked for, and the mean risk taken."""
    done = [g for g in groups if g.settled]
    out = {
        "groups": float(len(groups)),
        "settled": float(len(done)),
        "votes_used": float(sum(g.votes for g in groups)),
        "votes_saved": float(sum(max(votes - g.votes, 0) for g in done)),
    }
    if done:
        out["risk"] = float(np.mean([g.risk or 0.0 for g in done]))
    if failed := sum(g.error is not None for g in groups):
        out["errors"] = float(failed)
    return out


@dataclass(frozen=True, slots=True, eq=False)
class _Verdict:
    settled_P: Bools
    risk_P: Floats
    sign_P: Floats | None = None
    change_P: Floats | None = None


def _judged(
    prepared: Prepared, configured: Configured, rule: RuleName, waves: Waves, watch: Callable[[], None]
) -> list[GroupSettled]:
    """What is said of the groups of one configuration."""
    method, params = configured.method, configured.params
    over = params.get(OVER.name, TRACE)
    groups = _scalars(prepared.groups if over == TRACE else entropies_over(prepared.groups, over)[0])
    to_come_P = np.maximum(waves.votes - groups.sizes_P, 0)

    def judge(some: Groups) -> Estimate:
        return method.run(some, params)

    now = judge(groups)
    labels = _labels(groups, now)
    good_P = np.array([p not in now.errors for p in range(len(groups.sizes_P))], bool)
    some, left_P = groups.take(good_P), to_come_P[good_P]
    if rule == "rewards":
        verdict = _by_rewards(some, left_P, judge, waves.resolved(rule), watch)
    else:
        verdict = _by_votes(some, left_P, configured, waves.resolved(rule))
    place = np.cumsum(good_P) - 1
    out = []
    for p, group_id in enumerate(prepared.group_ids):
        votes, i = int(groups.sizes_P[p]), int(place[p])
        if p in now.errors:
            error = now.errors[p]
            out.append(GroupSettled(group_id, votes, error=Problem(error.code, error.message)))
            continue
        done = bool(verdict.settled_P[i])
        out.append(
            GroupSettled(
                group_id,
                votes,
                method.name,
                rule,
                done,
                0 if done else min(waves.wave, int(to_come_P[p])),
                float(verdict.risk_P[i]),
                None if verdict.sign_P is None else float(verdict.sign_P[i]),
                None if verdict.change_P is None else float(verdict.change_P[i]),
                labels[p],
            )
        )
    return out


def _by_votes(groups: Groups, to_come_P: Ints, configured: Configured, params: JSON) -> _Verdict:
    assert configured.method.ballots is not None
    tallied = tallies(configured.method.ballots(groups, configured.values))
    risk_P = flip_risk(tallied, to_come_P, prior=params["prior"])
    return _Verdict(predictive(tallied, to_come_P, **params), risk_P)


def _by_rewards(
    groups: Groups, to_come_P: Ints, judge: Callable[[Groups], Estimate], params: JSON, watch: Callable[[], None]
) -> _Verdict:
    open_P = to_come_P > 0
    drawing = {name: params[name] for name in ("draws", "prior", "seed")}
    seen = outlook(groups.take(open_P), judge, to_come_P[open_P], **drawing, watch=watch)
    settled_P, (risk_P, sign_P, change_P) = ~open_P, np.zeros((3, len(open_P)))
    settled_P[open_P] = rewards(seen, **params)
    risk_P[open_P], sign_P[open_P], change_P[open_P] = seen.risk_P, seen.sign_P, seen.change_P
    return _Verdict(settled_P, risk_P, sign_P, change_P)


def _foresee(sizes: Sequence[int], places: Sequence[int], rule: RuleName, waves: Waves, effort: Effort) -> None:
    """LimitError before the votes to come are judged, if that takes more than the request may."""
    draws = waves.resolved(rule).get("draws")
    for place, size in zip(places, sizes, strict=True):
        to_come = max(waves.votes - size, 0)
        work = to_come**2 // SQUARES if draws is None else (size + to_come) * draws // DRAWN
        effort.spend(work if to_come else 0, ("groups", place))


def _scalars(groups: Groups) -> Groups:
    """The groups with what a copy of a rollout can bring."""
    columns = {name: c for name, c in groups.columns.items() if isinstance(c, np.ndarray) and c.ndim == 1}
    return replace(groups, columns=columns, views=NOTHING, checked=True)


def _labels(groups: Groups, estimate: Estimate) -> list[str | None]:
    out: list[str | None] = [None] * len(groups.sizes_P)
    for a in np.flatnonzero(pseudo_label(groups, estimate)).tolist():
        out[int(groups.group_A[a])] = groups.text_A[a]
    return out
