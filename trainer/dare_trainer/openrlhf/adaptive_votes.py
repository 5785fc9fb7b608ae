"""Votes in waves: after the trained rollouts, more votes only while those so far do not suffice (docs/stopping.md).

The decision is made in this process: no request, so nothing on the way to the service can change how many votes a group
has. Whatever fails here costs generation, never a label: the group then gets all of its votes.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

from dare_reward.votes import Waves, votes_suffice

from .rollout_reader import ReadRollout
from .siblings import together

logger = logging.getLogger("dare_trainer")

One = Callable[[], Awaitable[ReadRollout]]


async def in_waves(
    waves: Waves,
    first: Sequence[ReadRollout],
    ones: Sequence[One],
    group_of: Callable[[Sequence[ReadRollout]], Any],
    **method: Any,
) -> tuple[list[ReadRollout], Mapping[str, float]]:
    """The rollouts of a group with its votes, and what the log says of those that were not asked for.

    `first` are the trained ones, `ones` generate one more each, `method` is the run's, with its `params`.
    """
    votes, asked = list(first), len(first)
    while (more := waves.votes - asked) > 0:
        group = group_of(votes)
        try:
            wanted = await asyncio.to_thread(votes_suffice, group, waves=waves, **method)
        except Exception:
            logger.exception("group %s: how many votes it needs cannot be told; it gets all", group.get("group_id"))
        else:
            if not wanted.more:
                return votes, {"votes_saved": float(more), "settle_risk": wanted.risk}
            more = min(wanted.more, more)
        votes += await together([ones[(asked + i) % len(ones)] for i in range(more)])
        asked += more
    return votes, {}
