"""What an adapter tells its stack's log of a reply, and the warning that most rollouts have no answer."""

from __future__ import annotations

import logging
from collections.abc import Hashable, Mapping, Sequence
from typing import Any

import numpy as np

from ..analysis.unanswered import Unanswered
from ..reply import GroupReply, Reply

__all__ = ["logger", "numbers", "watch_answers"]

logger = logging.getLogger("dare_reward.stacks")

_seen: dict[Hashable, tuple[Unanswered, int]] = {}


def numbers(reply: Reply | None) -> dict[str, float]:
    """The diagnostics of a request that are numbers, for a stack's own log.

    answered, pruned   share of the rollouts that have an answer, and of those whose answer was pruned
    entropy            mean entropy per token in nats over the rollouts with an answer, as the method saw it
    """
    if reply is None:
        return {"abstained": 1.0}
    values = {k: float(v) for k, v in reply.diagnostics.items() if isinstance(v, int | float)}
    rewards = [r for g in reply.groups if g.rewards for r in g.rewards]
    return {
        **values,
        "abstained": 0.0,
        "reward": float(np.mean(rewards)) if rewards else 0.0,
        **_shares(reply.groups),
    }


def _shares(groups: Sequence[GroupReply]) -> dict[str, float]:
    pairs = [(v, k) for g in groups if g.valid and g.keep for v, k in zip(g.valid, g.keep, strict=True)]
    if not pairs:
        return {}
    known = [(s.count, s.uncertainty) for g in groups for s in g.support or () if s.uncertainty is not None]
    votes = sum(count for count, _ in known)
    entropy = {"entropy": sum(count * u for count, u in known) / votes} if votes else {}
    answered, pruned = sum(v for v, _ in pairs), sum(v and not k for v, k in pairs)
    return {"answered": answered / len(pairs), "pruned": pruned / len(pairs), **entropy}


def watch_answers(caller: Hashable, groups: Sequence[Mapping[str, Any]], reply: Reply) -> None:
    """Warn while more than half of what the caller has sent has no answer: at once, then each time that doubles."""
    seen, told = _seen.get(caller, (Unanswered(), 0))
    for group, found in zip(groups, reply.groups, strict=True):
        if found.valid:
            seen.add(group["rollouts"], found.valid)
    if seen.most and seen.rollouts >= 2 * told:
        logger.warning("%s: the policy learns from the others only. Look at one of the texts", str(seen))
        told = seen.rollouts
    _seen[caller] = (seen, told)
    logger.info("scored %d groups: %s", len(groups), numbers(reply))
