"""How sure a vote is of its leader."""

from __future__ import annotations

from functools import lru_cache
from math import comb

import numpy as np

from ..groups import Groups
from ..segments import offsets


@lru_cache(maxsize=1 << 14)
def leader_probability(leader: int, runner_up: int) -> float:
    """P(the leader is the likelier of the two most voted answers), by a flat prior over their shares.

    P(Beta(a+1, b+1) > 1/2) = 2^-(a+b+1) sum_{i <= a} C(a+b+1, i), exactly (Adaptive-Consistency, arXiv:2305.11860):
    4 votes to none are .97, 2 to 1 are .69. It says nothing of a third answer, nor of votes that are not independent.
    """
    draws = leader + runner_up + 1
    favourable = sum(comb(draws, i) for i in range(leader + 1))
    return favourable / (1 << draws)


def leader_probabilities(groups: Groups) -> list[float | None]:
    """`leader_probability` of each group; None where nobody answers."""
    votes, starts = groups.votes_A.astype(np.int64).tolist(), offsets(groups.support_P).tolist()
    out: list[float | None] = []
    for p in range(len(groups.sizes_P)):
        top = sorted(votes[starts[p] : starts[p + 1]], reverse=True)
        out.append(leader_probability(top[0], top[1] if len(top) > 1 else 0) if top else None)
    return out
