"""pass@k and maj@k from n sampled rollouts."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from math import ceil, comb
from zlib import crc32

import numpy as np

from ..groups import Groups
from ..segments import Floats, Ints, offsets
from .bootstrap import Interval, mean_interval
from .truth import known_groups, right_answers

DRAWS = 800


@lru_cache(maxsize=1 << 14)
def pass_at_k(n: int, c: int, k: int) -> float:
    """Probability that one of k rollouts drawn from n without replacement is among the c right ones.

    1 - C(n-c, k)/C(n, k) (Chen et al. 2021, unbiased for 1 - (1-p)^k); pass@1 is c/n.
    """
    return 1.0 - comb(n - c, k) / comb(n, k)


def pass_at_k_interval(n_P: Sequence[int] | Ints, c_P: Sequence[int] | Ints, k: int, *, seed: int = 0) -> Interval:
    """Mean over the prompts with n >= k, with a bootstrap interval over prompts."""
    values = [pass_at_k(int(n), int(c), k) for n, c in zip(n_P, c_P, strict=True) if n >= k]
    return mean_interval(np.array(values, np.float64), seed=seed)


def majority_at_k(groups: Groups, correct_R: Floats, k: int, *, draws: int = DRAWS) -> Floats:
    """maj@k of each group: chance that the most voted answer of k of its rollouts is right.

    Equally many votes share the chance. The mean over some `draws` subsets, into which random orders are cut: k = 1
    and k = M are exact. A subset without an answer is wrong. NaN where truth is unknown or M < k.
    """
    right_A = right_answers(groups, correct_R)
    starts, answers = offsets(groups.sizes_P), offsets(groups.support_P)
    usable_P = known_groups(groups, correct_R) & (groups.sizes_P >= k)
    out = np.full(len(groups.sizes_P), np.nan)
    for p in np.flatnonzero(usable_P):
        index = groups.answer_R[starts[p] : starts[p + 1]]
        local = np.where(index < 0, int(groups.support_P[p]), index - answers[p])
        right = right_A[answers[p] : answers[p + 1]]
        # A generator of the group's own: its value does not depend on which groups stand beside it.
        rng = np.random.default_rng((0, k, crc32(local.tobytes())))
        out[p] = _majority(local, right, k, draws, rng)
    return out


def _majority(local: Ints, right: Floats, k: int, draws: int, rng: np.random.Generator) -> float:
    """`local` numbers the answers 0..K-1, with K for none."""
    width = len(right) + 1
    if not len(right):
        return 0.0
    orders, cuts = local[None, :], len(local) // k
    if k < len(local):
        orders = rng.permuted(np.broadcast_to(local, (ceil(draws / cuts), len(local))), axis=1)
    subsets = orders[:, : cuts * k].reshape(-1, k)
    rows = np.arange(len(subsets))[:, None] * width
    votes = np.bincount((rows + subsets).ravel(), minlength=width * len(subsets)).reshape(-1, width)[:, :-1]
    top = votes.max(axis=1, keepdims=True)
    winners = (votes == top) & (top > 0)
    return float((winners @ right / np.maximum(winners.sum(axis=1), 1)).mean())


def powers(limit: int) -> list[int]:
    """1, 2, 4, ... up to and including `limit`."""
    out = [1 << i for i in range(limit.bit_length())]
    return out if not out or out[-1] == limit else [*out, limit]
