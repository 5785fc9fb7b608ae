"""Verdicts on OpenRLHF's rollouts: rewards, agreement with the plurality, and numbers for its log."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from dare_reward._request import Limits
from dare_reward._scoring import score
from dare_reward._shadow_methods import UNKNOWN, log_names
from dare_reward._shadow_methods import logs as shadow_logs
from dare_reward.answers import grade
from dare_reward.errors import RequestError
from dare_reward.methods import find
from dare_reward.params import parameters
from dare_reward.reply import GroupReply, Reply
from dare_reward.rounding import on_grid

from .openrlhf_body import Member
from .url_options import Configuration

__all__ = ["LOGS", "UNKNOWN", "Verdict", "evaluate", "middle", "reply", "verdicts"]

SOURCE_NUMBERS: Mapping[str, float] = {"none": 0.0, "exact": 1.0, "topk": 2.0, "logprob": 3.0}
# Every reply has every key, and those of its shadow methods: OpenRLHF fails where two rollouts of a step differ in
# them.
LOGS: Mapping[str, str] = {
    "majority_ratio": "votes of the group's most voted answer, over its rollouts",
    "invalid": "1: this rollout has no answer",
    "pruned": "1: this rollout's answer was pruned",
    "mean_u": "mean uncertainty of the group's votes in nats",
    "entropy_source": "0: no entropies, 1: exact, 2: from the top k, 3: from log-probabilities",
    "members": "rollouts that the reward was estimated from",
    "partial": "1: the group closed before all of its rollouts were there",
    "neutral": "1: the reward says nothing, because too few of its siblings came, or on_deadline says so",
    "wait_seconds": "time from this rollout's first arrival to the closing of its group",
    "evaluation": "1: the reward is accuracy, because the label said so",
    "label_accuracy": "1: the group's pseudo-label is right",
    "reward_accuracy": "share of the group whose agreement with the pseudo-label equals its correctness",
    "ground_truth_ratio": "share of the group that is right",
}
RULES = frozenset(s.name for s in parameters(grade, skip=frozenset({"kind", "options"})))
UNKNOWABLE = frozenset({"majority_ratio", "mean_u", "label_accuracy", "reward_accuracy", "ground_truth_ratio"})


@dataclass(frozen=True, slots=True)
class Verdict:
    """What one rollout is told; `logs` are in the order of LOGS and the shadow's, UNKNOWN where nothing is known."""

    reward: float
    score: float
    logs: tuple[float, ...]


def reply(config: Configuration, found: Sequence[Verdict]) -> dict[str, Any]:
    out: dict[str, Any] = {"rewards": [v.reward for v in found], "scores": [v.score for v in found]}
    if config.extra_logs == "on":
        names = (*LOGS, *log_names(config.shadow))
        out["extra_logs"] = {name: [v.logs[i] for v in found] for i, name in enumerate(names)}
    return out


def middle(found: Sequence[Verdict]) -> Verdict:
    """For a sibling that comes too late: the group's mean reward, which has no advantage among its siblings."""
    (mean,) = on_grid([sum(v.reward for v in found) / len(found)])
    own = {"invalid": 0.0, "pruned": 0.0, "partial": 1.0, "neutral": 1.0, "wait_seconds": 0.0}
    names = [*LOGS, *[""] * (len(found[0].logs) - len(LOGS))]
    return Verdict(mean, 0.0, tuple(own.get(n, v) for n, v in zip(names, found[0].logs, strict=True)))


def evaluate(config: Configuration, members: Sequence[Member]) -> list[Verdict]:
    """Accuracy: 1 where the answer is the label's."""
    rules = {name: value for name, value in config.params if name in RULES}
    out = []
    for m in members:
        answer = m.rollout["answer"]
        right = float(grade(answer, m.label.answer, kind=config.kind, options=config.options, **rules))
        out.append(Verdict(right, right, _logs({}, config, invalid=float(answer is None), evaluation=1.0, members=1.0)))
    return out


def verdicts(
    config: Configuration,
    groups: Sequence[Sequence[Member]],
    limits: Limits,
    observe: Callable[[Reply], None],
    *,
    early: bool = False,
    waits: Sequence[float] = (),
) -> tuple[list[list[Verdict]], bool]:
    """One verdict per member of each group, and whether entropies, if the method wants them, entered every reward.

    early   the groups closed before all of their rollouts were there
    waits   seconds that each rollout of a single group waited for its siblings
    """
    replies: list[GroupReply] = []
    for at in range(0, len(groups), limits.groups):
        bodies = [_body(config, members, i) for i, members in enumerate(groups[at : at + limits.groups])]
        part = score(bodies, dict(config.params), method=config.method, limits=limits, shadow=config.shadow)
        observe(part)
        replies.extend(part.groups)
    wanted = "mean_entropy" in find(config.method).requires
    entropies = not wanted or all(g.entropy_source != "none" or not any(g.valid or ()) for g in replies)
    return [_group(config, g, early=early, waits=waits) for g in replies], entropies


def _body(config: Configuration, members: Sequence[Member], i: int) -> dict[str, Any]:
    """A group of `POST /reward`. The label is for its diagnostics, unless the method is made of labels."""
    rollouts: list[Mapping[str, Any]] = [m.rollout for m in members]
    kinds = {m.entropy for m in members if "mean_entropy" in m.rollout}
    if len(kinds) > 1:  # entropies of two distributions do not compare
        rollouts = [{k: v for k, v in r.items() if k != "mean_entropy"} for r in rollouts]
    (source, mode), *_ = kinds or {("exact", "unknown")}
    return {
        "group_id": str(i),
        "kind": config.kind,
        "options": None if config.options is None else list(config.options),
        "label": members[0].label.answer,
        "entropy_source": source,
        "entropy_mode": mode,
        "rollouts": rollouts,
    }


def _group(config: Configuration, group: GroupReply, *, early: bool, waits: Sequence[float]) -> list[Verdict]:
    if group.error is not None:
        raise RequestError(group.error.message, loc=("query",), code=group.error.code)
    rewards = on_grid(group.rewards or ())
    answers, keep, valid = group.answers or (), group.keep or (), group.valid or ()
    plurality = _plurality(group)
    neutral = early and config.on_deadline == "neutral"
    told = group.diagnostics or {}
    shared = {
        "majority_ratio": told.get("majority_ratio", 0.0),
        "mean_u": _mean_u(group),
        "entropy_source": SOURCE_NUMBERS[group.entropy_source or "none"],
        "members": float(len(rewards)),
        "partial": float(early),
        **{k: told[k] for k in ("label_accuracy", "reward_accuracy", "ground_truth_ratio") if k in told},
    }
    out = []
    for i, reward in enumerate(rewards):
        logs = _logs(
            told,
            config,
            **shared,
            invalid=float(not valid[i]),
            pruned=float(valid[i] and not keep[i]),
            neutral=float(neutral),
            wait_seconds=waits[i] if waits else 0.0,
        )
        agrees = float(answers[i] is not None and answers[i] == plurality)
        out.append(Verdict(0.0, 0.0, logs) if neutral else Verdict(reward, agrees, logs))
    return out


def _plurality(group: GroupReply) -> str | None:
    """The most voted answer; among equals the pseudo-label, else the first seen."""
    support = group.support or ()
    best = max(support, key=lambda s: (s.count, s.answer == group.pseudo_label), default=None)
    return None if best is None else best.answer


def _mean_u(group: GroupReply) -> float:
    known = [(s.count, s.uncertainty) for s in group.support or () if s.uncertainty is not None]
    votes = sum(count for count, _ in known)
    return sum(count * u for count, u in known) / votes if votes else UNKNOWN


def _logs(diagnostics: Mapping[str, Any], config: Configuration, **known: float) -> tuple[float, ...]:
    own = (float(known.get(name, UNKNOWN if name in UNKNOWABLE else 0.0)) for name in LOGS)
    return (*own, *shadow_logs(diagnostics, config.shadow).values())
