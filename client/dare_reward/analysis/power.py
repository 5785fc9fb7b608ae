"""What a set of labels could have found: the whole rule of `calibrate` on labels drawn for the same prompts.

The right answer y of each mixed prompt is drawn with the probability p_b(y), the weights of the file's own answers at
the exponent b where the mean AUROC of answers so drawn is the one asked for. Prompts that are not mixed stay so.
Hence a set of prompts is judged by what its own votes and certainties can show.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..groups import Groups
from ..segments import Floats
from .auroc import group_ranks
from .calibrate import SMALLEST, Evidence, Sums, Test, bars, choose, scores
from .certainty import GRID

AUROC = 0.65
DRAWS = 400
STRONGEST = 16.0  # exponent: what it cannot give, none can
HALVINGS = 30


@dataclass(frozen=True, slots=True)
class Power:
    """Share of draws in which the test of all answers passes, and in which the whole rule leads to an exponent.

    NaN where no exponent gives these prompts that AUROC.
    """

    auroc: float
    tested: float
    share: float


def power(
    groups: Groups,
    uncertain_R: Floats,
    e: Evidence,
    *,
    auroc: float = AUROC,
    tried: int = 1,
    seed: int = 0,
) -> Power:
    """What these labels could find if right answers followed `uncertain_R` (lower is surer) with that `auroc`."""
    exponent = _exponent(groups, uncertain_R, e, auroc)
    if np.isnan(exponent):
        return Power(auroc, np.nan, np.nan)
    drawn = _drawn(groups, e, exponent=exponent, rng=np.random.default_rng(seed))
    to_pass = bars(int(e.usable_P.sum()), e.mixed, tried=tried)
    choices = choose(e, drawn, to_pass)
    return Power(auroc, float((choices.t_S >= to_pass.gate).mean()), float((choices.exponent_S > 0).mean()))


def _exponent(groups: Groups, uncertain_R: Floats, e: Evidence, auroc: float) -> float:
    """The exponent at which right answers drawn from p_b have that AUROC in the mean, NaN if none up to STRONGEST."""
    votes_A, own_A = groups.votes_A, e.mixed_P[groups.group_A]
    others_A = groups.sum_by_group(votes_A)[groups.group_A] - votes_A
    rank_A = groups.sum_by_answer(group_ranks(uncertain_R, groups.group_R, groups.valid_R))
    above_A = (rank_A - votes_A * (votes_A + 1) / 2) / np.maximum(votes_A * others_A, 1)
    auroc_A = np.where(own_A & (others_A > 0), 1 - above_A, 0.0)

    def mean(b: float) -> float:
        return float((e.found.shares_at(groups, b) * auroc_A)[own_A].sum() / max(e.mixed, 1))

    low, high = 0.0, STRONGEST
    if not e.mixed or np.isnan(mean(high)) or mean(high) < auroc:
        return np.nan
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        low, high = (low, middle) if mean(middle) >= auroc else (middle, high)
    return high


def _drawn(groups: Groups, e: Evidence, *, exponent: float, rng: np.random.Generator) -> Sums:
    """The sums of DRAWS sets of labels of the mixed prompts."""
    table, prompts = e.found, np.flatnonzero(e.mixed_P)
    place_P = np.full(len(groups.sizes_P), -1)
    place_P[prompts] = np.arange(len(prompts))
    at_A = np.flatnonzero(place_P[groups.group_A] >= 0)
    at_A = at_A[np.argsort(place_P[groups.group_A[at_A]], kind="stable")]
    place_A = place_P[groups.group_A[at_A]]
    share_A = table.shares_at(groups, exponent)[at_A]
    below_A = np.cumsum(share_A)
    first = np.searchsorted(place_A, np.arange(len(prompts)))
    below_A -= np.append(0.0, below_A)[first][place_A]
    target = np.arange(len(prompts)) + rng.random((DRAWS, len(prompts))) * (1 - 1e-9)
    right_SG = at_A[np.minimum(np.searchsorted(place_A + below_A, target), len(at_A) - 1)]
    log_AX = np.log(np.maximum(table.share_AX, SMALLEST))
    rival_AX = np.log(np.maximum(table.rival_AX, SMALLEST))
    rivals_P = groups.sum_by_group(table.contends_A)
    contested_A = table.contends_A & (rivals_P > 1)[groups.group_A]
    score_A = scores(log_AX[:, -2], log_AX[:, -1])
    rival_A = np.where(contested_A, scores(rival_AX[:, 0], rival_AX[:, 1]), 0.0)
    return Sums(
        log_AX[:, : len(GRID)][right_SG].sum(axis=1),
        Test.over(np.ones(right_SG.shape, bool), score_A[right_SG]),
        Test.over(contested_A[right_SG], rival_A[right_SG]),
        table.wins_AB[right_SG].sum(axis=1).astype(np.float64),
    )
