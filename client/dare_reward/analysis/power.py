"""What a set of labels could have found: the whole rule of `calibrate` on labels drawn for the same prompts.

The right answer y of each mixed prompt is drawn with the probability p_b(y), the weights of the file's own answers at
the exponent b where the mean AUROC of answers so drawn is the one asked for. Prompts that are not mixed stay so.
Hence a set of prompts is judged by what its own votes and certainties can show, chosen ones included.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..groups import Groups
from ..segments import Bools, Floats, Ints
from .auroc import group_ranks
from .calibrate import CHOSEN, SMALLEST, Evidence, Sums, Tables, Test, bars, choose, scores
from .certainty import GRID

AUROC = 0.65
DRAWS = 400
STRONGEST = 16.0  # exponent: what it cannot give, none can
HALVINGS = 30


@dataclass(frozen=True, slots=True)
class Power:
    """Share of draws in which the rule says "use", with these labels and with `more` chosen ones beside them; and in
    which its test passes with these, which alone says "use" of no certainty that changes no label. `votes` is the AUROC
    where right answers are drawn by votes alone: only what is above it tells more than they do.

    NaN where no exponent gives these prompts that AUROC; `more` is 0 where the file has no further prompts.
    """

    auroc: float
    votes: float
    tested: float
    share: float
    more: int
    with_more: float


def power(
    groups: Groups,
    uncertain_R: Floats,
    table: Tables,
    e: Evidence,
    worth_P: Floats,
    *,
    auroc: float = AUROC,
    tried: int = 1,
    chosen: bool = False,
    seed: int = 0,
) -> Power:
    """uncertain_R   of each rollout, lower is surer; `auroc` is of it
    worth_P       information of each prompt; the best of those without a label would be labelled next
    """
    free_P = ~e.known_P & ~table.lacking_P & (groups.support_P > 1) & (worth_P > 0)
    next_P = np.flatnonzero(free_P)[np.argsort(-worth_P[free_P], kind="stable")[:CHOSEN]]
    own_P = np.flatnonzero(e.mixed_P)
    exponent, votes = _exponent(groups, uncertain_R, table, e.mixed_P, auroc)
    several = int((e.usable_P & (groups.support_P > 1)).sum())
    if np.isnan(exponent):
        return Power(auroc, votes, np.nan, np.nan, len(next_P), np.nan)
    rng = np.random.default_rng(seed)
    mixed = e.mixed / several
    labels = int(e.usable_P.sum())
    drawn = _drawn(groups, table, own_P, np.ones((DRAWS, len(own_P)), bool), exponent=exponent, rng=rng)
    further = _drawn(groups, table, next_P, rng.random((DRAWS, len(next_P))) < mixed, exponent=exponent, rng=rng)

    def shares(sums: Sums, count: int, mixed_count: float) -> tuple[float, float]:
        to_pass = bars(count, int(mixed_count), tried=tried, chosen=chosen)
        choices = choose(e, sums, to_pass)
        return float((choices.t_S >= to_pass.gate).mean()), float((choices.exponent_S > 0).mean())

    return Power(
        auroc,
        votes,
        *shares(drawn, labels, e.mixed),
        len(next_P),
        shares(drawn + further, labels + len(next_P), e.mixed + mixed * len(next_P))[1] if len(next_P) else np.nan,
    )


def _exponent(groups: Groups, uncertain_R: Floats, table: Tables, mixed_P: Bools, auroc: float) -> tuple[float, float]:
    """The exponent at which right answers drawn from p_b have that AUROC in the mean, NaN if none up to STRONGEST; and
    the AUROC at 0."""
    votes_A, own_A = groups.votes_A, mixed_P[groups.group_A]
    others_A = groups.sum_by_group(votes_A)[groups.group_A] - votes_A
    rank_A = groups.sum_by_answer(group_ranks(uncertain_R, groups.group_R, groups.valid_R))
    above_A = (rank_A - votes_A * (votes_A + 1) / 2) / np.maximum(votes_A * others_A, 1)
    auroc_A = np.where(own_A & (others_A > 0), 1 - above_A, 0.0)

    def mean(b: float) -> float:
        return float((table.shares_at(groups, b) * auroc_A)[own_A].sum() / max(mixed_P.sum(), 1))

    low, high = 0.0, STRONGEST
    votes = mean(0.0) if mixed_P.any() else np.nan
    if not mixed_P.any() or np.isnan(mean(high)) or mean(high) < auroc:
        return np.nan, votes
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        low, high = (low, middle) if mean(middle) >= auroc else (middle, high)
    return high, votes


def _drawn(
    groups: Groups, table: Tables, prompts: Ints, mixed_SG: Bools, *, exponent: float, rng: np.random.Generator
) -> Sums:
    """The sums of so many drawn sets of labels: `mixed_SG` says which prompts of each count."""
    place_P = np.full(len(groups.sizes_P), -1)
    place_P[prompts] = np.arange(len(prompts))
    at_A = np.flatnonzero(place_P[groups.group_A] >= 0)
    at_A = at_A[np.argsort(place_P[groups.group_A[at_A]], kind="stable")]
    place_A = place_P[groups.group_A[at_A]]
    share_A = table.shares_at(groups, exponent)[at_A]
    below_A = np.cumsum(share_A)
    first = np.searchsorted(place_A, np.arange(len(prompts)))
    below_A -= np.append(0.0, below_A)[first][place_A]
    target = np.arange(len(prompts)) + rng.random(mixed_SG.shape) * (1 - 1e-9)
    right_SG = at_A[np.minimum(np.searchsorted(place_A + below_A, target), len(at_A) - 1)]
    log_AX = np.log(np.maximum(table.share_AX, SMALLEST))
    rival_AX = np.log(np.maximum(table.rival_AX, SMALLEST))
    rivals_P = groups.sum_by_group(table.contends_A)
    contested_A = table.contends_A & (rivals_P > 1)[groups.group_A]
    score_A = scores(log_AX[:, -2], log_AX[:, -1])
    rival_A = np.where(contested_A, scores(rival_AX[:, 0], rival_AX[:, 1]), 0.0)
    return Sums(
        np.einsum("sg,sgb->sb", mixed_SG, log_AX[:, : len(GRID)][right_SG]),
        Test.over(mixed_SG, score_A[right_SG]),
        Test.over(mixed_SG & contested_A[right_SG], rival_A[right_SG]),
        np.einsum("sg,sgb->sb", mixed_SG.astype(np.float64), table.wins_AB[right_SG]),
    )
