"""Does entropy point the same way in all kinds of prompts? A line for each kind, shrunk to the common one.

U is the score of a labelled prompt at exponent 0 and V its variance under the votes (`label_choice.direction`). Between
kinds k,

    Q = mean_k (sum_k U)^2 / sum_k V

compared with its values where the kinds are permuted over the same prompts: votes that are not calibrated move it as
well, so that 1 is no reference. Where at most LIKELY of them reach it, each kind has a line of its own, fitted
as `calibrate` fits but around the common exponent; a kind with few prompts, or where its fit names fewer right labels
than the vote, keeps the common one, or the vote. Everywhere else the common exponent is for all.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..groups import Groups
from ..segments import Floats
from .calibrate import CHOSEN_MIXED, LABELS, MIXED, VOTE, Calibration, bars, changed, choose, evidence, tables
from .certainty import ENTROPY, GRID, NOTHING, Certainty
from .label_choice import direction

LIKELY = 0.01
PERMUTATIONS = 2000


@dataclass(frozen=True, slots=True)
class Kind:
    """statistic: t of the score test at 0; params: method and parameters in one line, for its groups."""

    name: str
    prompts: int
    mixed: int
    statistic: float
    exponent: float
    params: str


@dataclass(frozen=True, slots=True)
class Kinds:
    """q between kinds; its median and 95% point under permuted kinds; the share of permutations that reach it."""

    q: float
    permuted: tuple[float, float]
    p: float
    kinds: tuple[Kind, ...]

    @property
    def differ(self) -> bool:
        return self.p <= LIKELY


def by_kind(
    groups: Groups,
    correct_R: Floats,
    kind_P: Sequence[str],
    common: Calibration,
    *,
    weight: Mapping[str, Any] = NOTHING,
    reading: Mapping[str, Any] = NOTHING,
    certainty: Certainty = ENTROPY,
    seed: int = 0,
) -> Kinds:
    """`kind_P`: the kind of each prompt. `common`: the calibration of all of them by this certainty."""
    table = tables(groups, certainty, weight)
    e = evidence(groups, correct_R, table)
    names = sorted({k for k, usable in zip(kind_P, e.usable_P, strict=True) if usable})
    member_KP = np.array([[k == name for k in kind_P] for name in names], np.float64).reshape(len(names), len(kind_P))
    u = direction(groups, correct_R, eps=weight.get("eps", 0.05))
    known_P = e.mixed_P & ~np.isnan(u.score_P)
    q, reference = _between(member_KP[:, known_P], u.score_P[known_P], u.variance_P[known_P], seed)
    p = float((1 + (reference >= q).sum()) / (1 + PERMUTATIONS)) if len(names) > 1 else 1.0
    one_look = bars(LABELS, MIXED, tried=max(len(names), 1))  # and `p` has to pass too
    choices = choose(e, e.sums(member_KP), one_look, around=common.exponent)
    right_KB, mixed_K = member_KP @ e.right_PB, member_KP @ e.mixed_P
    kinds = []
    for k, name in enumerate(names):
        b = common.exponent
        if p <= LIKELY and mixed_K[k] >= CHOSEN_MIXED:
            b = float(choices.fitted_S[k]) if common.exponent else float(choices.exponent_S[k])
            b = b if right_KB[k, GRID.index(b)] >= right_KB[k, VOTE] else 0.0
        used = certainty if b else ENTROPY
        line = used.line(b, {**changed(used, weight), **reading})
        kinds.append(Kind(name, int(member_KP[k] @ e.usable_P), int(mixed_K[k]), float(choices.t_S[k]), b, line))
    middle, high = np.quantile(reference, [0.5, 0.95]) if len(reference) else (np.nan, np.nan)
    return Kinds(q, (float(middle), float(high)), p, tuple(kinds))


def _between(member_KG: Floats, score_G: Floats, variance_G: Floats, seed: int) -> tuple[float, Floats]:
    """Q of these kinds, and of PERMUTATIONS of them."""
    if not len(score_G):
        return np.nan, np.zeros(0)
    rng = np.random.default_rng(seed)

    def q(order: Any) -> float:
        total_K, spread_K = member_KG @ score_G[order], member_KG @ variance_G[order]
        there = spread_K > 0
        return float((total_K[there] ** 2 / spread_K[there]).mean()) if there.any() else np.nan

    return q(slice(None)), np.array([q(rng.permutation(len(score_G))) for _ in range(PERMUTATIONS)])
