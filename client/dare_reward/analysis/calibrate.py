"""How strongly, and in which direction, a certainty should weigh the votes of a policy: fitted on labels, once.

With the weight w_b(y) = n(y) exp(b c(y)) of a certainty c (`certainty`; of entropy n(y) / (u(y) + eps)^b), the
likelihood of the right answer of prompt g is

    l_g(b) = ln( sum_{y right} w_b(y) / sum_y w_b(y) ),  of prompts with right and wrong answers only, at least ln 1e-12

    informative  the score test at 0 has |t| >= gate, and the likeliest exponent its sign:
                 t = mean_g s_g / (sd_g s_g / sqrt(G)),  s_g = l_g(1/2) - l_g(-1/2)
                 b^ = argmax over GRID of  sum_g l_g(b) - b^2 / (2 PRIOR^2)
    contenders   the same t over the contenders alone, the answers with at least half of the leader's votes, has that
                 sign and at least TELLING: the others cannot become the label, however much their entropy tells
    gain         of the exponents of that sign up to b^, the one that names most right labels on these prompts (of
                 equals the likeliest), if it names more than the vote
    enough       LABELS prompts, MIXED of them with right and wrong answers

0, the majority vote, unless all four hold. The gate is 3 for one certainty; among several it rises with their number,
so that the chance that any of them passes by luck stays (Bonferroni). Labels may be added and looked at batch by batch,
for both bars on t rise with the labels, from the fewest that are enough on:

    bar(n) = sqrt(bar^2 + 2 ln(n / LABELS))

A Brownian motion over its deviation crosses a constant bar c with the rate phi(c) (c - 1/c) a unit of ln n (Siegmund
1985, Sequential Analysis, 4.2), so it crosses at last; under this one the rate falls as 1/n, and at the gate of 3 all
looks together cross with a probability below 2%, however many they are. research/docs/calibration.md has how often each
way errs.

No statistic of answers and entropies alone can find the sign of b: a world where the sure answer is right and one where
it is wrong look the same wherever votes are contested. Labels decide it, and they end here: what goes on to training is
one number.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import ceil, isfinite, log, sqrt
from statistics import NormalDist
from types import MappingProxyType
from typing import Any, TypedDict, Unpack

import numpy as np

from ..groups import Groups
from ..segments import Bools, Floats
from .auroc import equally_long, group_auroc
from .bootstrap import Interval, mean_interval
from .certainty import ENTROPY, GRID, VOTE, Certainty
from .truth import LABELS, known_groups, right_answers

PRIOR = 1.5  # standard deviation of b before any label: shrinks towards the vote
GATE = 3.0  # with PRIOR chosen on development seeds, research/docs/calibration.md
TELLING = 1.64  # of the contenders: one-sided 5%, beside the gate
MIXED = 16
POWER = 0.84  # standard normal quantile of 80%, of the labels that would decide
WORTH = 200  # labelled prompts: what these could not decide is too little to use
SMALLEST = 1e-12
ROUNDS = 20  # of a fixed point that each brings some ten times nearer
ROUNDING = 1e-9  # of a likelihood: a score below it is none
DEFAULTS: dict[str, float | None] = {"eps": 0.05, "eps_scale": None, "u_floor": 0.0}
NOTHING: Mapping[str, Any] = MappingProxyType({})


class Options(TypedDict, total=False):
    """What labels are judged by.

    eps, eps_scale, u_floor   of the weight, as in `calibrated_vote`; what differs from its defaults goes into `params`
    seed      of the bootstrap
    reading   parameters by which the answers were read; they go into `params` too
    """

    eps: float
    eps_scale: float | None
    u_floor: float
    seed: int
    reading: Mapping[str, Any]


def weight_of(options: Options) -> dict[str, float | None]:
    """The parameters of the weight."""
    return {name: options.get(name, default) for name, default in DEFAULTS.items()}  # type: ignore[misc]


@dataclass(frozen=True, slots=True)
class Calibration:
    """What to use, and what it was decided by. Intervals are bootstraps over prompts.

    certainty       its name
    exponent        b to use; 0 is the vote
    fitted          the exponent of greatest likelihood, before anything else is asked
    gate            what |t| had to reach: 3, or more among several certainties and with more labels
    statistic       t of the score test at 0; NaN below two prompts with right and wrong answers, and if `telling` is 0
    contended       the same among contenders; over `contests` prompts with a right and a wrong contender
    rival_gate      what it had to reach, with the sign of `fitted`
    prompts, mixed  labelled prompts that can be scored; those of them with right and wrong answers
    enough          there are labels enough for an exponent
    telling         mixed prompts whose certainties weigh right and wrong answers differently
    left_out        labelled prompts that lack the certainty
    small           eps hides the entropies: in mixed prompts the median u(y) is at most twice eps
    auroc           within-prompt P(entropy of a right rollout < entropy of a wrong one), over prompts that have both
    auroc_right, auroc_wrong   the same where the vote is right, and where it is wrong
    equally_long    the same over pairs whose lengths differ by at most a tenth, which are `pairs` of all
    gain            change of label accuracy over the vote, each prompt by the exponent that is best for all others; the
                    labels that lead to an exponent flatter it, so expect less of prompts without a label
    more            further labelled prompts that would pass the gate with a probability of 80% if entropy tells as much
                    as it seems to, and enough of them; None: no number of them
    params          method and parameters in one line (`dare_reward.methods.read_line`)
    exponents_of_others   of each prompt, the exponent that is best for all others; no bar is asked
    """

    certainty: str
    exponent: float
    fitted: float
    gate: float
    statistic: float
    contended: float
    contests: int
    rival_gate: float
    prompts: int
    mixed: int
    enough: bool
    telling: int
    left_out: int
    small: bool
    auroc: Interval
    auroc_right: Interval
    auroc_wrong: Interval
    equally_long: Interval
    pairs: float
    gain: Interval
    more: int | None
    params: str
    exponents_of_others: tuple[float, ...]

    @property
    def informative(self) -> bool:
        """The gate is passed, with the sign of `fitted`, and there are labels enough."""
        return self.enough and abs(self.statistic) >= self.gate and self.statistic * self.fitted > 0

    @property
    def undecided(self) -> bool:
        """The vote for want of labels: WORTH of them could still pass the gate if t is one too small by chance."""
        if self.exponent or self.informative:
            return False
        if not self.enough:
            return True
        needed = _needed(self.prompts, abs(self.statistic) + 1, self.gate)
        return abs(self.statistic) < self.gate and needed <= WORTH


def changed(certainty: Certainty, weight: Mapping[str, Any]) -> Mapping[str, Any]:
    """What of a weight's parameters differs from its defaults, if the certainty's method has them."""
    return {k: v for k, v in weight.items() if certainty.weighs and v != DEFAULTS[k]}


@dataclass(frozen=True, slots=True)
class Bars:
    """What a choice has to pass: |t| of all answers, t of the contenders, and labels enough."""

    gate: float = GATE
    rivals: float = TELLING
    enough: bool = True


def bars(prompts: int, mixed: int, *, tried: int = 1) -> Bars:
    """What one of `tried` certainties has to pass with so many labels, `mixed` of them with right and wrong answers."""
    normal = NormalDist()
    gate = GATE if tried == 1 else -normal.inv_cdf(normal.cdf(-GATE) / tried)
    return Bars(_risen(gate, prompts), _risen(TELLING, prompts), prompts >= LABELS and mixed >= MIXED)


def _risen(bar: float, prompts: float, first: float = LABELS) -> float:
    """A bar on t that is honest after any number of looks, of which the first is at `first` labels."""
    return sqrt(bar**2 + 2 * log(max(prompts / first, 1.0)))


def calibrate(groups: Groups, correct_R: Floats, **options: Unpack[Options]) -> Calibration:
    """What entropy alone leads to. `correct_R`: 1 right, 0 wrong, NaN unknown, per rollout."""
    found = tables(groups, ENTROPY, weight_of(options))
    return fit(groups, correct_R, ENTROPY, evidence(groups, correct_R, found), **options)


def fit(
    groups: Groups, correct_R: Floats, certainty: Certainty, e: Evidence, *, tried: int = 1, **options: Unpack[Options]
) -> Calibration:
    """The exponent of a certainty by its evidence; groups of unknown truth, or without the certainty, are left out.

    tried   certainties among which this one is
    """
    weight = weight_of(options)
    seed = options.get("seed", 0)
    to_pass = bars(int(e.usable_P.sum()), e.mixed, tried=tried)
    total = e.totals()
    own = choose(e, total, to_pass)
    exponent, fitted, statistic = float(own.exponent_S[0]), float(own.fitted_S[0]), float(own.t_S[0])
    # The bars are not asked again of the others: just above one, it is the prompts that gain whose absence leads back
    # to the vote, and the gain would lack what they gain.
    others_P = strongest(e.found.tried, total.likelihood_SB - e.likelihood_PB, total.right_SB - e.right_PB).best_S
    others = np.searchsorted(GRID, others_P)
    truth_R = np.where(e.usable_P[groups.group_R], correct_R, np.nan)
    unsure_R = certainty.of_R(groups)
    controlled, pairs = equally_long(groups, unsure_R, truth_R, seed=seed)
    auroc_P = group_auroc(groups, unsure_R, truth_R)
    right_P = e.right_PB[:, VOTE] > 0

    def over(values_P: Floats | Bools) -> Interval:
        return mean_interval(np.where(e.usable_P, values_P, np.nan), seed=seed)

    rows = np.arange(len(right_P))
    line = certainty if exponent else ENTROPY
    return Calibration(
        certainty=certainty.name,
        exponent=exponent,
        fitted=fitted,
        gate=to_pass.gate,
        statistic=statistic,
        contended=float(own.contended_S[0]),
        contests=int(e.contested_P.sum()),
        rival_gate=to_pass.rivals,
        prompts=int(e.usable_P.sum()),
        mixed=e.mixed,
        enough=to_pass.enough,
        telling=int(np.count_nonzero(e.score_P)),
        left_out=e.left_out,
        small=_small(groups, e, weight),
        auroc=over(auroc_P),
        auroc_right=over(np.where(right_P, auroc_P, np.nan)),
        auroc_wrong=over(np.where(right_P, np.nan, auroc_P)),
        equally_long=controlled,
        pairs=pairs,
        gain=over(e.right_PB[rows, others] - e.right_PB[:, VOTE]),
        more=0 if exponent else _more(e, statistic, to_pass.gate),
        params=line.line(exponent, {**changed(line, weight), **options.get("reading", NOTHING)}),
        exponents_of_others=tuple(others_P.tolist()),
    )


@dataclass(frozen=True, slots=True, eq=False)
class Tables:
    """What a certainty makes of every answer, by exponent: of GRID, then -1/2 and 1/2.

    value_A     c(y)
    share_AX    p_b(y)
    rival_AX    the same among contenders, at -1/2 and 1/2; 0 for the others
    wins_AB     the answer is the label at this exponent of GRID
    lacking_P   groups without the certainty
    tried       which exponents of GRID the method has
    """

    value_A: Floats
    share_AX: Floats
    rival_AX: Floats
    wins_AB: Bools
    contends_A: Bools
    lacking_P: Bools
    tried: tuple[bool, ...]

    def shares_at(self, groups: Groups, exponent: float) -> Floats:
        """p_b(y) at any exponent."""
        return _shares(groups, _weights(groups, self.value_A, exponent)[:, None])[:, 0]


def tables(groups: Groups, certainty: Certainty, weight: Mapping[str, Any] = NOTHING) -> Tables:
    """Shares and labels of every answer; `weight` are parameters of the method's weight."""
    value_A, lacking_P = certainty.values(groups, weight)
    votes_A = groups.votes_A
    contends_A: Bools = 2 * votes_A >= groups.max_by_group(votes_A)[groups.group_A]
    near = (-0.5, 0.5)
    weight_AX = np.stack([_weights(groups, value_A, b) for b in (*GRID, *near)], axis=1)
    rival_AX = weight_AX[:, len(GRID) :] * contends_A[:, None]
    wins = [groups.first_max(w) for w in weight_AX[:, : len(GRID)].T]
    return Tables(
        value_A=value_A,
        share_AX=_shares(groups, weight_AX),
        rival_AX=_shares(groups, rival_AX),
        wins_AB=np.stack(wins, axis=1),
        contends_A=contends_A,
        lacking_P=lacking_P,
        tried=tuple(b in certainty.exponents for b in GRID),
    )


def winners(groups: Groups, certainty: Certainty, weight: Mapping[str, Any], exponent: float | Floats) -> Bools:
    """The label at any exponent, which may be one for each answer."""
    return groups.first_max(_weights(groups, certainty.values(groups, weight)[0], exponent))


def _weights(groups: Groups, value_A: Floats, exponent: float | Floats) -> Floats:
    """n exp(b c) over the greatest exp(b c) of the group."""
    power_A = exponent * value_A
    with np.errstate(under="ignore"):
        weight_A: Floats = groups.votes_A * np.exp(power_A - groups.max_by_group(power_A)[groups.group_A])
    return weight_A


def _shares(groups: Groups, weight_AX: Floats) -> Floats:
    total_PX = np.stack([groups.sum_by_group(w) for w in weight_AX.T], axis=1)
    return weight_AX / np.maximum(total_PX[groups.group_A], SMALLEST)


@dataclass(frozen=True, slots=True, eq=False)
class Evidence:
    """What each prompt says: l_g by exponent of GRID and s_g, 0 where nothing can be told; right labels.

    contested_P, rival_P   with a right and a wrong contender; s_g among contenders
    left_out               as in `Calibration`
    found                  what the certainty makes of every answer
    """

    usable_P: Bools
    mixed_P: Bools
    likelihood_PB: Floats
    score_P: Floats
    contested_P: Bools
    rival_P: Floats
    right_PB: Floats
    left_out: int
    found: Tables

    @property
    def mixed(self) -> int:
        return int(self.mixed_P.sum())

    def totals(self) -> Sums:
        """Over all prompts, as one row."""
        return Sums(
            self.likelihood_PB.sum(axis=0, keepdims=True),
            Test.over(self.mixed_P[None], self.score_P[None]),
            Test.over(self.contested_P[None], self.rival_P[None]),
            self.right_PB.sum(axis=0, keepdims=True),
        )


@dataclass(frozen=True, slots=True, eq=False)
class Test:
    """Count, sum and sum of squares of scores, a row for each choice (S)."""

    count_S: Floats
    sum_S: Floats
    square_S: Floats

    @classmethod
    def over(cls, counted_SG: Bools, score_SG: Floats) -> Test:
        own_SG = np.where(counted_SG, score_SG, 0.0)
        return cls(counted_SG.sum(axis=1).astype(np.float64), own_SG.sum(axis=1), (own_SG**2).sum(axis=1))

    @property
    def t_S(self) -> Floats:
        """Mean over standard error; NaN for fewer than two scores."""
        with np.errstate(invalid="ignore", divide="ignore"):
            mean_S = self.sum_S / self.count_S
            variance_S = np.maximum(self.square_S - self.count_S * mean_S**2, 0.0) / (self.count_S - 1)
            return np.where(self.count_S > 1, mean_S / np.sqrt(variance_S / self.count_S), np.nan)


@dataclass(frozen=True, slots=True, eq=False)
class Sums:
    """What a choice is made of, a row for each (S): sums over prompts, and both tests."""

    likelihood_SB: Floats
    all: Test
    rivals: Test
    right_SB: Floats


@dataclass(frozen=True, slots=True, eq=False)
class Choices:
    """The exponent of each row, the likeliest one, and both t."""

    exponent_S: Floats
    fitted_S: Floats
    t_S: Floats
    contended_S: Floats


def evidence(groups: Groups, correct_R: Floats, found: Tables) -> Evidence:
    """What the labels say of a certainty. `correct_R`: 1 right, 0 wrong, NaN unknown, per rollout."""
    known_P = known_groups(groups, correct_R)
    right_A = right_answers(groups, correct_R) > 0.5
    usable_P = known_P & ~found.lacking_P

    def both(among_A: Bools) -> Bools:
        mixed_P: Bools = (groups.sum_by_group(among_A & right_A) > 0) & (groups.sum_by_group(among_A & ~right_A) > 0)
        return usable_P & mixed_P

    def logs(share_AX: Floats, counted_P: Bools) -> Floats:
        sums = [groups.sum_by_group(column * right_A) for column in share_AX.T]
        return np.where(counted_P[:, None], np.log(np.maximum(np.stack(sums, axis=1), SMALLEST)), 0.0)

    mixed_P, contested_P = both(np.ones(len(right_A), bool)), both(found.contends_A)
    log_PX, rival_PX = logs(found.share_AX, mixed_P), logs(found.rival_AX, contested_P)
    right = [groups.sum_by_group(wins_A & right_A) for wins_A in found.wins_AB.T]
    return Evidence(
        usable_P=usable_P,
        mixed_P=mixed_P,
        likelihood_PB=log_PX[:, : len(GRID)],
        score_P=scores(log_PX[:, -2], log_PX[:, -1]),
        contested_P=contested_P,
        rival_P=scores(rival_PX[:, 0], rival_PX[:, 1]),
        right_PB=np.where(usable_P[:, None], np.stack(right, axis=1), 0.0),
        left_out=int((known_P & found.lacking_P).sum()),
        found=found,
    )


def scores(below_N: Floats, above_N: Floats) -> Floats:
    """The scores s_g, 0 where equal entropies leave but rounding errors, of which no test may be made."""
    score_N = above_N - below_N
    return np.where(np.abs(score_N) > ROUNDING * np.maximum(np.abs(above_N), np.abs(below_N)), score_N, 0.0)


@dataclass(frozen=True, slots=True, eq=False)
class Exponents:
    """Of each row the likeliest; of those of its sign up to it the best, which names most right labels, and how many.

    No bar is asked.
    """

    fitted_S: Floats
    best_S: Floats
    most_S: Floats


def strongest(tried: Sequence[bool], likelihood_SB: Floats, right_SB: Floats) -> Exponents:
    """The exponents of these sums over prompts."""
    grid = np.array(GRID)
    posterior_SB = np.where(tried, likelihood_SB - grid**2 / (2 * PRIOR**2), -np.inf)
    fitted_S = grid[posterior_SB.argmax(axis=1)]
    sign_S = np.sign(fitted_S)
    allowed_SB = (grid * sign_S[:, None] > 0) & (np.abs(grid) <= np.abs(fitted_S)[:, None]) & np.array(tried)
    own_SB = np.where(allowed_SB, right_SB, -1.0)
    most_S = own_SB.max(axis=1)
    best_SB = np.where(own_SB >= most_S[:, None] - ROUNDING, posterior_SB, -np.inf)
    return Exponents(fitted_S, grid[best_SB.argmax(axis=1)], most_S)


def choose(e: Evidence, sums: Sums, to_pass: Bars) -> Choices:
    """The choice of each row."""
    found = strongest(e.found.tried, sums.likelihood_SB, sums.right_SB)
    t_S, contended_S = sums.all.t_S, sums.rivals.t_S
    sign_S = np.sign(found.fitted_S)
    with np.errstate(invalid="ignore"):  # scores that are all alike have an infinite t, which has no sign for 0
        passed_S = (t_S * sign_S >= to_pass.gate) & (contended_S * sign_S >= to_pass.rivals) & to_pass.enough
    gains_S = found.most_S > sums.right_SB[:, VOTE] + ROUNDING
    return Choices(np.where(passed_S & gains_S, found.best_S, 0.0), found.fitted_S, t_S, contended_S)


def _small(groups: Groups, e: Evidence, weight: Mapping[str, Any]) -> bool:
    """eps is at least half of the median u(y) in mixed prompts."""
    if weight["eps_scale"] is not None:
        return False
    u_A = groups.sum_by_answer(groups.column("mean_entropy")) / np.maximum(groups.votes_A, 1)
    own_A = np.maximum(u_A[e.mixed_P[groups.group_A]], weight["u_floor"])
    return len(own_A) > 0 and bool(np.median(own_A) <= 2 * weight["eps"])


def _more(e: Evidence, statistic: float, gate: float) -> int | None:
    """Labelled prompts beyond these after which t is expected at gate + POWER, at the present mean and deviation.

    At least as many as are lacking.
    """
    prompts = int(e.usable_P.sum())
    if not isfinite(statistic) or statistic == 0:
        return None
    return max(0, LABELS - prompts, MIXED - e.mixed, ceil(_needed(prompts, abs(statistic), gate)) - prompts)


def _needed(prompts: int, statistic: float, gate: float) -> float:
    """Labelled prompts at which t is expected at its gate + POWER, if it is `statistic` at `prompts` of them."""
    needed, first = float(prompts), max(prompts, LABELS)
    for _ in range(ROUNDS):
        needed = prompts * ((_risen(gate, needed, first) + POWER) / statistic) ** 2
    return needed
