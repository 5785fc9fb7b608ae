"""From members to OpenRLHF's reply: the groups are scored, evaluations are graded."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache, partial
from typing import Any

from dare_reward.answers.effort import Effort
from dare_reward.errors import RequestError
from dare_reward.methods import find
from dare_reward.openrlhf import NOTHING, AnswerRules, Known, RolloutOutcome, evaluation, keys_of, neutral, outcomes
from dare_reward.reply import GroupReply
from dare_reward.scoring.request import Limits
from dare_reward.scoring.score import ScoredGroups, score

from .openrlhf_body import BodyRollout
from .url_options import Configuration

INSTALL = "to get entropies from OpenRLHF, install dare-reward where vLLM runs (docs/openrlhf.md, route 2)"


@lru_cache(maxsize=1024)
def rules_of(config: Configuration) -> AnswerRules:
    """How the run reads answers."""
    return AnswerRules(dict(config.params), config.kind, config.options)


_log_names = lru_cache(maxsize=64)(partial(keys_of, "url"))


def reply(config: Configuration, rollouts: Sequence[RolloutOutcome]) -> dict[str, Any]:
    out: dict[str, Any] = {"rewards": [o.reward for o in rollouts], "scores": [o.score for o in rollouts]}
    if config.extra_logs == "on":
        out["extra_logs"] = {name: [o.logs[name] for o in rollouts] for name in _log_names(config.shadow)}
    return out


def evaluate(config: Configuration, member: BodyRollout) -> RolloutOutcome:
    entropy = member.rollout.get("mean_entropy")
    return evaluation(
        rules_of(config), member.rollout, member.label, route="url", entropy=entropy, shadow=config.shadow
    )


def score_groups(
    config: Configuration,
    groups: Sequence[Sequence[BodyRollout]],
    limits: Limits,
    observe: Callable[[ScoredGroups, Sequence[Mapping[str, Any]]], None],
    effort: Effort,
    *,
    early: bool = False,
    known: Known = NOTHING,
) -> tuple[list[list[RolloutOutcome]], bool]:
    """One outcome per member of each group, and whether entropies, if the method wants them, entered every reward.

    observe is told each part of the groups, as bodies of `POST /reward`, and what came of it
    effort  what reading the answers may cost
    early   the groups closed before all of their rollouts were there
    known   values of the log that the join knows
    """
    replies: list[GroupReply] = []
    for at in range(0, len(groups), limits.groups):
        bodies = [_body(config, members) for members in groups[at : at + limits.groups]]
        part = score(
            bodies, dict(config.params), method=config.method, limits=limits, shadow=config.shadow, effort=effort
        )
        observe(part, bodies)
        replies.extend(part.reply.groups)
    wanted = "mean_entropy" in find(config.method).requires
    entropies = not wanted or all(g.entropy_source != "none" or not any(g.valid or ()) for g in replies)
    return [_outcomes(config, *pair, early, known) for pair in zip(groups, replies, strict=True)], entropies


def _body(config: Configuration, members: Sequence[BodyRollout]) -> dict[str, Any]:
    """A group of `POST /reward`."""
    rollouts: list[Mapping[str, Any]] = [m.rollout for m in members]
    kinds = {m.entropy for m in members if "mean_entropy" in m.rollout}
    if len(kinds) > 1:  # entropies of two distributions do not compare
        rollouts = [{k: v for k, v in r.items() if k != "mean_entropy"} for r in rollouts]
    (source, mode), *_ = kinds or {("exact", "unknown")}
    prompt = members[0].prompt
    return {
        "group_id": members[0].group[:256],
        **({} if prompt is None else {"prompt": prompt}),
        **rules_of(config).group(members[0].label),
        "entropy_source": source,
        "entropy_mode": mode,
        "rollouts": rollouts,
    }


def _outcomes(
    config: Configuration, members: Sequence[BodyRollout], group: GroupReply, early: bool, known: Known
) -> list[RolloutOutcome]:
    unscored = early and config.on_deadline == "neutral"
    known = {**known, "partial": float(early), "neutral": float(unscored)}
    if group.error is not None and members[0].label.answer is None and "label" in find(config.method).requires:
        # A label never ends a run, and this method is made of labels.
        return neutral(len(members), votes=len(members), route="url", shadow=config.shadow, known=known)
    if group.error is not None:
        hint = f"; {INSTALL}" if group.error.code == "missing_entropy" else ""
        raise RequestError(group.error.message + hint, loc=("query",), code=group.error.code)
    return outcomes(
        group,
        route="url",
        entropies=[m.rollout.get("mean_entropy") for m in members],
        pruned=dict(config.params).get("pruned", "zero"),
        shadow=config.shadow,
        known=known,
        unscored=unscored,
    )
