"""What an adapter tells its stack's log of a reply, and the warning that most rollouts have no answer."""

from __future__ import annotations

import logging
from collections.abc import Hashable, Mapping, Sequence
from functools import cache
from typing import Any

from ..answers.rollouts import Unanswered
from ..numbers import pooled
from ..reply import NOTHING, Reply
from ..runs.line import objects, of_groups

logger = logging.getLogger("dare_reward.stacks")

_seen: dict[Hashable, tuple[Unanswered, int]] = {}


def numbers(
    reply: Reply | None, groups: Sequence[Mapping[str, Any]], params: Mapping[str, Any] = NOTHING
) -> dict[str, float]:
    """What a stack's own log shows of a request with `params`: the numbers of `dare_reward.numbers`, as the run log of
    these groups would give them, and what else the reply says of the request.

    entropy_missing   rollouts with an answer and without an entropy
    abstained         1: there was no reply
    """
    if reply is None:
        return {"abstained": 1.0}
    diagnostics = {k: float(v) for k, v in reply.diagnostics.items() if isinstance(v, int | float)}
    lines = objects(of_groups(groups, reply.groups, params=params), 0.0)
    missing = sum(
        bool(valid) and not sent.keys() & {"token_entropies", "mean_entropy"}
        for of_group, one in zip(groups, reply.groups, strict=True)
        for sent, valid in zip(of_group["rollouts"], one.valid or [False] * len(of_group["rollouts"]), strict=True)
    )
    return {"reward": 0.0, **diagnostics, **pooled(lines), "entropy_missing": float(missing), "abstained": 0.0}


def shadow_numbers(reply: Reply | None, groups: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    """`numbers` of shadow methods alone, for a stack that takes few."""
    return {name: value for name, value in numbers(reply, groups).items() if name.startswith("shadow_")}


@cache
def say_once(message: str) -> None:
    logger.warning(message)


def watch_answers(
    caller: Hashable, groups: Sequence[Mapping[str, Any]], reply: Reply, params: Mapping[str, Any]
) -> None:
    """Warn while more than half of what the caller has sent has no answer: at once, then each time that doubles."""
    seen, warned = _seen.get(caller, (Unanswered(), 0))
    for group, answered in zip(groups, reply.groups, strict=True):
        if answered.valid:
            seen.add(len(group["rollouts"]), answered.no_answer)
    if seen.most and seen.rollouts >= 2 * warned:
        none = seen.count == seen.rollouts
        then = "this teaches nothing" if none else "the policy learns from the others only"
        logger.warning("%s: %s. Look at one of the texts: does the prompt ask for an answer in a box?", str(seen), then)
        warned = seen.rollouts
    _seen[caller] = (seen, warned)
    if logger.isEnabledFor(logging.INFO):
        logger.info("scored %d groups: %s", len(groups), numbers(reply, groups, params))
