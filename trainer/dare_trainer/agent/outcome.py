"""From a group's reply to what each rollout hands to OpenRLHF: reward, score, logs, and whether its tokens train.

Pure. Rewards are multiples of 2^-16, because OpenRLHF normalises them in float32 and there the mean of equal but
inexact numbers may differ from them by one unit, which the division by a spread of 0 + 1e-9 turns into an advantage.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final, Literal

from dare_reward import GroupReply
from dare_reward._shadow_methods import UNKNOWN
from dare_reward._shadow_methods import logs as shadow_logs
from dare_reward.rounding import GRID, on_grid

__all__ = ["LOGS", "Outcome", "evaluation", "neutral_group", "outcomes", "rounded"]

SOURCES: Final = {"none": 0.0, "exact": 1.0, "topk": 2.0, "logprob": 3.0}

# Every rollout of a run carries these, those of the run's shadow methods, and no others, as finite numbers, because
# OpenRLHF stacks them. The names are those of the URL route's replies where both have a thing, and TTRL's where it has
# it.
LOGS: Mapping[str, str] = MappingProxyType(
    {
        "majority_ratio": "votes of the most voted answer over votes",
        "invalid": "1: this rollout has no answer",
        "pruned": "1: this rollout's answer was pruned",
        "invalid_share": "votes without an answer",
        "pruned_share": "votes whose answer was pruned",
        "mean_u": "entropy per token in nats, mean over the votes",
        "entropy_source": "0: no entropies weighed (none came, or no vote has an answer), 1: exact, 2: from the top k",
        "members": "votes that the reward was estimated from",
        "evaluation": "1: reward and score are accuracy, because the label said so",
        "label_accuracy": "1: the pseudo-label is right",
        "reward_accuracy": "share of votes whose agreement with the pseudo-label equals their being right",
        "ground_truth_ratio": "share of right votes",
        "reward_fallback": "1: computed in process, for want of the service; 2: not computed, all rewards are equal",
        "reward_wait_ms": "from the end of the group's last generation to its rewards",
    }
)
UNKNOWABLE: Final = frozenset({"majority_ratio", "mean_u", "label_accuracy", "reward_accuracy", "ground_truth_ratio"})
Pruned = Literal["zero", "neutral", "mask"]


@dataclass(frozen=True, slots=True)
class Outcome:
    """`masked`: only the last token of the rollout stays an action."""

    reward: float
    score: float
    masked: bool
    logs: Mapping[str, float]


def outcomes(
    reply: GroupReply,
    *,
    trained: Sequence[int],
    entropies: Sequence[float | None],
    pruned: Pruned,
    fallback: float = 0.0,
    wait: float = 0.0,
    shadow: Sequence[str] = (),
) -> list[Outcome]:
    """One per trained rollout.

    trained    places of the trained rollouts among the votes
    entropies  mean entropy of each vote
    wait       seconds
    shadow     the run's shadow methods
    """
    if reply.rewards is None or reply.keep is None or reply.valid is None or reply.answers is None:
        raise ValueError("the group has no rewards")
    gone = [v and not k for v, k in zip(reply.valid, reply.keep, strict=True)]
    rewards = [reply.rewards[i] for i in trained]
    if pruned != "zero":
        kept = [reply.rewards[i] for i in trained if not gone[i]]
        mean = math.fsum(kept) / len(kept) if kept else 0.0
        rewards = [mean if gone[i] else r for i, r in zip(trained, rewards, strict=True)]
    votes = Counter(a for a in reply.answers if a is not None)
    plurality = next(iter(votes.most_common(1)), (None, 0))[0]
    shared = _shared_logs(reply, gone, entropies) | {"reward_fallback": fallback, "reward_wait_ms": 1e3 * wait}
    compared = shadow_logs(reply.diagnostics or {}, shadow)
    return [
        Outcome(
            reward=r,
            score=float(plurality is not None and reply.answers[i] == plurality),
            masked=pruned == "mask" and gone[i],
            logs=_logs(shared | {"pruned": float(gone[i]), "invalid": float(not reply.valid[i])}, compared),
        )
        for i, r in zip(trained, rounded(rewards), strict=True)
    ]


def neutral_group(members: int, *, votes: int, wait: float = 0.0, shadow: Sequence[str] = ()) -> list[Outcome]:
    """Equal rewards, hence no advantage: for a group that could not be scored at all."""
    values = {"members": float(votes), "reward_fallback": 2.0, "reward_wait_ms": 1e3 * wait}
    logs = _logs(values, shadow_logs({}, shadow))
    return [Outcome(0.0, 0.0, masked=False, logs=logs)] * members


def evaluation(*, right: bool, entropy: float | None, shadow: Sequence[str] = ()) -> Outcome:
    """Accuracy, of one rollout."""
    value = float(right)
    logs = {"evaluation": 1.0, "ground_truth_ratio": value, "members": 1.0}
    if entropy is not None:
        logs["mean_u"] = entropy
    return Outcome(value, value, masked=False, logs=_logs(logs, shadow_logs({}, shadow)))


def rounded(rewards: Sequence[float]) -> list[float]:
    """To multiples of 2^-16; a spread of one unit is rounding, and becomes none."""
    found = list(on_grid(rewards))
    return [min(found)] * len(found) if found and max(found) - min(found) <= GRID else found


def _shared_logs(reply: GroupReply, gone: Sequence[bool], entropies: Sequence[float | None]) -> dict[str, float]:
    count = len(gone)
    known = [e for e in entropies if e is not None]
    diagnostics: Mapping[str, Any] = reply.diagnostics or {}
    told = ("majority_ratio", "label_accuracy", "reward_accuracy", "ground_truth_ratio")
    return {
        **{k: float(diagnostics[k]) for k in told if diagnostics.get(k) is not None},
        **({"mean_u": math.fsum(known) / len(known)} if known else {}),
        "pruned_share": sum(gone) / count,
        "invalid_share": 1.0 - sum(reply.valid or ()) / count,
        "entropy_source": SOURCES.get(reply.entropy_source or "none", 0.0),
        "members": float(count),
    }


def _logs(values: Mapping[str, float], compared: Mapping[str, float]) -> Mapping[str, float]:
    """All of LOGS and of `compared`; what is not known is 0, or -1 where 0 would be a statement."""
    own = {k: float(values.get(k, UNKNOWN if k in UNKNOWABLE else 0.0)) for k in LOGS}
    return MappingProxyType({**own, **compared})
