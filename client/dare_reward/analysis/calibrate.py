"""How strongly, and in which direction, entropy should weigh the votes of a policy: fitted on labelled rollouts, once.

With the weight of `calibrated_vote`, w_b(y) = n(y) / (u(y) + eps)^b, the likelihood of the right answer of prompt g is

    l_g(b) = ln( sum_{y right} w_b(y) / sum_y w_b(y) ),  of prompts with right and wrong answers only, at least ln 1e-12

    fit     b^ = argmax over GRID of  sum_g l_g(b) - b^2 / (2 PRIOR^2)
    gate    b^ = 0 unless the score test at 0 has |t| >= GATE and the sign of b^:
            t = mean_g s_g / (sd_g s_g / sqrt(G)),  s_g = l_g(1/2) - l_g(-1/2)
    veto    b^ = 0 if b^ names fewer right labels than the vote on these prompts

0 is the majority vote. No statistic of answers and entropies alone can find the sign of b: a world where the sure
answer is right and one where it is wrong look the same wherever votes are contested. Labels decide it, and they end
here: what goes on to training is one number. research/docs/calibration.md has how safe the choice is in simulation.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import ceil, isfinite
from types import MappingProxyType
from typing import Any

import numpy as np

from ..estimators.dare import distribution
from ..groups import Groups
from ..methods import write_line
from ..segments import Bools, Floats, Ints
from .auroc import group_auroc
from .bootstrap import Interval, mean_interval
from .labels import known_groups, right_answers

__all__ = [
    "GATE",
    "GRID",
    "LEVEL",
    "METHOD",
    "MINIMUM",
    "PRIOR",
    "TRIED",
    "Calibration",
    "calibrate",
    "fit_exponent",
]

METHOD = "calibrated_vote"
GRID = (-4.0, -2.0, -1.0, 0.0, 1.0, 2.0, 4.0)
PRIOR = 1.5  # standard deviation of b before any label: shrinks towards the vote
GATE = 3.0  # with PRIOR chosen on development seeds, research/docs/calibration.md
MINIMUM = 8  # prompts with right and wrong answers: below, the test has no distribution to speak of
TRIED = 32  # labelled prompts of the smallest set that the rule was tried on
LEVEL = 0.95
POWER = 0.84  # standard normal quantile of 80%, of the labels that would decide
WORTH = 200  # labelled prompts: what these could not decide is too little to use
SMALLEST = 1e-12
ROUNDING = 1e-9  # of a likelihood: a score below it is none
VOTE = GRID.index(0.0)
DARE = GRID.index(1.0)
DEFAULTS: dict[str, float | None] = {"eps": 0.05, "eps_scale": None, "u_floor": 0.0}


@dataclass(frozen=True, slots=True)
class Calibration:
    """What to use, and what it was decided by. Intervals are bootstraps over prompts.

    exponent        b of `calibrated_vote`; 0 is the vote
    fitted          the exponent of greatest likelihood, before gate and veto
    statistic       t of the score test at 0; NaN below two prompts with right and wrong answers, and if `telling` is 0
    vetoed          the fitted exponent passed the gate and names fewer right labels than the vote
    prompts, mixed  labelled prompts that can be scored; those of them with right and wrong answers
    telling         mixed prompts whose entropies weigh right and wrong answers differently
    left_out        labelled prompts that lack an entropy
    small           eps hides the entropies: in mixed prompts the median u(y) is at most twice eps
    auroc           within-prompt P(entropy of a right rollout < entropy of a wrong one), over prompts that have both
    auroc_right, auroc_wrong   the same where the vote is right, and where it is wrong
    accuracy        share of prompts whose label is right, by exponent of GRID
    above_vote      the same minus that of the vote, paired by prompt
    flips, gain     share of prompts whose label differs from the vote's, and change of label accuracy, each prompt by
                    the exponent that all other prompts choose: what to expect of prompts without a label
    more            further labelled prompts that would pass the gate with a probability of 80% if entropy tells as much
                    as it seems to, and enough for MINIMUM mixed ones; None: no number of them
    params          method and parameters in one line (`dare_reward.methods.read_line`)
    """

    exponent: float
    fitted: float
    statistic: float
    vetoed: bool
    prompts: int
    mixed: int
    telling: int
    left_out: int
    small: bool
    auroc: Interval
    auroc_right: Interval
    auroc_wrong: Interval
    accuracy: tuple[Interval, ...]
    above_vote: tuple[Interval, ...]
    flips: Interval
    gain: Interval
    more: int | None
    params: str

    @property
    def undecided(self) -> bool:
        """The vote for want of labels: WORTH of them could still pass the gate if t is one too small by chance."""
        if self.exponent or abs(self.statistic) >= GATE:
            return False
        return self.mixed < MINIMUM or _needed(self.prompts, abs(self.statistic) + 1) <= WORTH


def fit_exponent(
    groups: Groups,
    correct_R: Floats,
    *,
    eps: float = 0.05,
    eps_scale: float | None = None,
    u_floor: float = 0.0,
) -> float:
    """The exponent alone: what `calibrate` chooses, without its intervals."""
    evidence, _ = _evidence(groups, correct_R, eps=eps, eps_scale=eps_scale, u_floor=u_floor)
    return float(_choose(evidence, _totals(evidence))[1][0])


def calibrate(
    groups: Groups,
    correct_R: Floats,
    *,
    eps: float = 0.05,
    eps_scale: float | None = None,
    u_floor: float = 0.0,
    level: float = LEVEL,
    seed: int = 0,
    reading: Mapping[str, Any] = MappingProxyType({}),
) -> Calibration:
    """Fit the exponent on groups whose truth is known; others, and groups that lack an entropy, are left out.

    correct_R   1 right, 0 wrong, NaN unknown, per rollout
    eps, eps_scale, u_floor   of the weight, as in `calibrated_vote`; what differs from its defaults goes into `params`
    reading     parameters by which the answers were read; they go into `params` too
    """
    evidence, labels = _evidence(groups, correct_R, eps=eps, eps_scale=eps_scale, u_floor=u_floor)
    fitted, chosen, statistic = (float(x[0]) for x in _choose(evidence, _totals(evidence)))
    others = _choose(evidence, _without_own(evidence))[1]
    usable_P = evidence.usable_P
    by_others = np.searchsorted(GRID, others)
    auroc_P = np.where(usable_P, group_auroc(groups, groups.column("mean_entropy"), correct_R), np.nan)
    right_P = evidence.right_PB[:, VOTE] > 0

    def over(values_P: Floats | Bools) -> Interval:
        return mean_interval(np.where(usable_P, values_P, np.nan), level=level, seed=seed)

    rows = np.arange(len(usable_P))
    gate_passed = abs(statistic) >= GATE and statistic * fitted > 0 and evidence.mixed >= MINIMUM
    weight = {"eps": eps, "eps_scale": eps_scale, "u_floor": u_floor}
    changed = {k: v for k, v in weight.items() if v != DEFAULTS[k]}
    return Calibration(
        exponent=chosen,
        fitted=fitted,
        statistic=statistic,
        vetoed=bool(gate_passed and chosen == 0),
        prompts=int(usable_P.sum()),
        mixed=evidence.mixed,
        telling=int(np.count_nonzero(evidence.score_P)),
        left_out=evidence.left_out,
        small=evidence.small,
        auroc=over(auroc_P),
        auroc_right=over(np.where(right_P, auroc_P, np.nan)),
        auroc_wrong=over(np.where(right_P, np.nan, auroc_P)),
        accuracy=tuple(map(over, evidence.right_PB.T)),
        above_vote=tuple(over(b - evidence.right_PB[:, VOTE]) for b in evidence.right_PB.T),
        flips=over(labels[rows, by_others] != labels[:, VOTE]),
        gain=over(evidence.right_PB[rows, by_others] - evidence.right_PB[:, VOTE]),
        more=0 if chosen else _more(evidence, statistic),
        params=write_line(METHOD, {"exponent": chosen, **changed, **reading}),
    )


@dataclass(frozen=True, slots=True, eq=False)
class _Evidence:
    """Of each prompt: l_g by exponent of GRID and s_g, 0 where it has no right and wrong answers; right labels.

    left_out, small   as in `Calibration`
    """

    usable_P: Bools
    mixed_P: Bools
    likelihood_PB: Floats
    score_P: Floats
    right_PB: Floats
    left_out: int
    small: bool

    @property
    def mixed(self) -> int:
        return int(self.mixed_P.sum())


def _evidence(
    groups: Groups, correct_R: Floats, *, eps: float, eps_scale: float | None, u_floor: float
) -> tuple[_Evidence, Ints]:
    """The evidence, and the label of each prompt by exponent of GRID as the answer's index (-1: none)."""
    right_A = right_answers(groups, correct_R) > 0.5
    some_P = groups.sum_by_group(right_A) > 0
    usable_P = known_groups(groups, correct_R)
    found = [
        distribution(
            groups,
            weight="linear",
            eps=eps,
            exponent=b,
            eps_scale=eps_scale,
            lam=1.0,
            u_floor=u_floor,
            missing_entropy="error",
        )
        for b in (*GRID, -0.5, 0.5)
    ]
    lacking = list(found[DARE].errors)
    left_out = int(usable_P[lacking].sum())
    usable_P[lacking] = False
    mixed_P = usable_P & some_P & (groups.sum_by_group(~right_A) > 0)
    logs = [
        np.where(mixed_P, np.log(np.maximum(groups.sum_by_group(d.p_hat_A * right_A), SMALLEST)), 0.0) for d in found
    ]
    labels = np.full((len(usable_P), len(GRID)), -1)
    right_PB = np.zeros(labels.shape)
    for b, d in enumerate(found[: len(GRID)]):
        at = np.flatnonzero(groups.first_max(d.p_hat_A))
        labels[groups.group_A[at], b] = at
        right_PB[:, b] = groups.sum_by_group(groups.first_max(d.p_hat_A) & right_A)
    right_PB[~usable_P] = 0.0
    likelihood_PB = np.stack(logs[: len(GRID)], axis=1)
    u_A = found[DARE].u_A[mixed_P[groups.group_A]]
    small = eps_scale is None and len(u_A) > 0 and bool(np.median(u_A) <= 2 * eps)
    return _Evidence(usable_P, mixed_P, likelihood_PB, _scores(*logs[-2:]), right_PB, left_out, small), labels


def _scores(below_P: Floats, above_P: Floats) -> Floats:
    """s_g; equal entropies leave rounding errors, of which no test may be made."""
    score_P = above_P - below_P
    return np.where(np.abs(score_P) > ROUNDING * np.maximum(np.abs(above_P), np.abs(below_P)), score_P, 0.0)


@dataclass(frozen=True, slots=True, eq=False)
class _Sums:
    """What the choice is made of, a row for each choice (S): sums over prompts, and how many of them are mixed."""

    likelihood_SB: Floats
    count_S: Floats
    score_S: Floats
    square_S: Floats
    right_SB: Floats


def _totals(e: _Evidence) -> _Sums:
    return _Sums(
        e.likelihood_PB.sum(axis=0)[None],
        np.array([float(e.mixed)]),
        np.array([e.score_P.sum()]),
        np.array([(e.score_P**2).sum()]),
        e.right_PB.sum(axis=0)[None],
    )


def _without_own(e: _Evidence) -> _Sums:
    """The totals without each prompt in turn."""
    t = _totals(e)
    return _Sums(
        t.likelihood_SB - e.likelihood_PB,
        t.count_S - e.mixed_P,
        t.score_S - e.score_P,
        t.square_S - e.score_P**2,
        t.right_SB - e.right_PB,
    )


def _choose(e: _Evidence, sums: _Sums) -> tuple[Floats, Floats, Floats]:
    """Fitted exponent, chosen exponent and t of each row."""
    grid = np.array(GRID)
    best = (sums.likelihood_SB - grid**2 / (2 * PRIOR**2)).argmax(axis=1)
    fitted_S = grid[best]
    with np.errstate(invalid="ignore", divide="ignore"):
        mean_S = sums.score_S / sums.count_S
        variance_S = np.maximum(sums.square_S - sums.count_S * mean_S**2, 0.0) / (sums.count_S - 1)
        t_S = np.where(sums.count_S > 1, mean_S / np.sqrt(variance_S / sums.count_S), np.nan)
    passed_S = (np.abs(t_S) >= GATE) & (t_S * fitted_S > 0) & (e.mixed >= MINIMUM)
    loses_S = np.take_along_axis(sums.right_SB, best[:, None], axis=1)[:, 0] < sums.right_SB[:, VOTE]
    return fitted_S, np.where(passed_S & ~loses_S, fitted_S, 0.0), t_S


def _more(e: _Evidence, statistic: float) -> int | None:
    """Labelled prompts beyond these after which t is expected at GATE + POWER, at the present mean and deviation.

    At least as many as MINIMUM lacks: a t of few prompts is no test.
    """
    prompts = int(e.usable_P.sum())
    if not isfinite(statistic) or statistic == 0:
        return None
    return max(0, MINIMUM - e.mixed, ceil(_needed(prompts, abs(statistic))) - prompts)


def _needed(prompts: int, statistic: float) -> float:
    """Labelled prompts at which t is expected at GATE + POWER, if it is `statistic` at `prompts` of them."""
    return prompts * ((GATE + POWER) / statistic) ** 2
