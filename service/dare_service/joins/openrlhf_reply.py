"""From members to OpenRLHF's reply: the groups are scored, evaluations are graded."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache, partial
from typing import Any

from dare_reward.answers.effort import Effort
from dare_reward.errors import RequestError
from dare_reward.membership import FormedGroup, Member, gather
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


def groups_of(
    config: Configuration, members: Sequence[BodyRollout], places: Sequence[int], effort: Effort, *, size: int | None
) -> list[FormedGroup[int]]:
    """The groups that the members at `places` form, of which each was to have `size`; their items are places."""
    rules = rules_of(config)

    def member(i: int) -> Member[int]:
        one = members[i]
        key = None if one.index is None else one.group
        said = rules.group(one.label)
        return Member(
            i, key, one.asked, kind=said["kind"], options=said["options"], label=said["label"], size=size,
            index=one.index, content=one.identity,
        )  # fmt: skip

    return gather(map(member, places), rules=rules.comparing, after_each=partial(effort.check, ("labels",)))


def score_groups(
    config: Configuration,
    members: Sequence[BodyRollout],
    groups: Sequence[FormedGroup[int]],
    limits: Limits,
    observe: Callable[[ScoredGroups, Sequence[Mapping[str, Any]]], None],
    *,
    effort: Effort,
    early: bool = False,
    known: Known = NOTHING,
) -> tuple[dict[int, RolloutOutcome], bool]:
    """The outcome of each place that is in a group, and whether entropies, if the method wants them, entered every
    reward. A group that is refused gets equal rewards: a run does not end over it.

    observe is told each part of the groups, as bodies of `POST /reward`, and what came of it
    effort  what reading the answers may cost
    early   the groups closed before all of their rollouts were there
    known   values of the log that the join knows
    """
    out: dict[int, RolloutOutcome] = {}
    for refused in (group for group in groups if group.refusal is not None):
        out.update(zip(refused.items, _neutral(config, len(refused.members), _known(known, refused)), strict=True))
    agreed = [group for group in groups if group.refusal is None]
    replies: list[GroupReply] = []
    for at in range(0, len(agreed), limits.groups):
        bodies = [_body(n, group, members) for n, group in enumerate(agreed[at : at + limits.groups])]
        part = score(
            bodies, dict(config.params), method=config.method, limits=limits, shadow=config.shadow, effort=effort
        )
        observe(part, bodies)
        replies.extend(part.reply.groups)
    wanted = "mean_entropy" in find(config.method).requires
    entropies = not wanted or all(g.entropy_source != "none" or not any(g.valid or ()) for g in replies)
    for group, found in zip(agreed, replies, strict=True):
        own = [members[i] for i in group.items]
        out.update(zip(group.items, _outcomes(config, own, found, early, _known(known, group)), strict=True))
    return out, entropies


def _known(known: Known, group: FormedGroup[int]) -> Known:
    """What the route knows, of the group's rollouts in their order."""
    own = {name: [v[i] for i in group.items] if isinstance(v, Sequence) else v for name, v in known.items()}
    return own | ({"repeated": 1.0} if group.repeated else {})


def _neutral(config: Configuration, count: int, known: Known) -> list[RolloutOutcome]:
    return neutral(count, votes=count, route="url", shadow=config.shadow, known={**known, "neutral": 1.0})


def _body(place: int, group: FormedGroup[int], members: Sequence[BodyRollout]) -> dict[str, Any]:
    """A group of `POST /reward`."""
    own = [members[i] for i in group.items]
    rollouts: list[Mapping[str, Any]] = [m.rollout for m in own]
    kinds = {m.entropy for m in own if "mean_entropy" in m.rollout}
    if len(kinds) > 1:  # entropies of two distributions do not compare
        rollouts = [{k: v for k, v in r.items() if k != "mean_entropy"} for r in rollouts]
    (source, mode), *_ = kinds or {("exact", "unknown")}
    prompt, name = own[0].prompt, own[0].group[:240]
    return {
        "group_id": f"{name}-{place}" if group.repeated else name,
        **({} if prompt is None else {"prompt": prompt}),
        **group.fields(),
        "entropy_source": source,
        "entropy_mode": mode,
        "rollouts": rollouts,
    }


def _outcomes(
    config: Configuration, members: Sequence[BodyRollout], group: GroupReply, early: bool, known: Known
) -> list[RolloutOutcome]:
    unscored = early and config.on_deadline == "neutral"
    short = group.flags or ()
    part, equal = early or "partial" in short, unscored or "neutral" in short
    known = {**known, "partial": float(part), "neutral": float(equal)}
    unlabelled = group.error is not None and group.error.code in {"label_conflict", "missing_input"}
    if unlabelled and "label" in find(config.method).requires:
        return _neutral(config, len(members), known)  # a label never ends a run, and this method is made of labels
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
