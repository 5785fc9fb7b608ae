"""When the votes so far settle a group: rules on the votes alone, for methods that pay the most voted answer.

Each rule looks at complete waves: whoever stops a wave for the label that its short rollouts agree on counts short
rollouts first, and length goes with being wrong.

A rule says which groups are settled. How sure that is, `flip_risk` says for every rule alike: the probability that the
label at the full number of votes is another one.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import Annotated, Literal

import numpy as np

from ..analysis.leader import leader_probability
from ..errors import RequestError
from ..estimators.method import Ballots
from ..params import Param
from ..segments import Bools, Floats, Ints, offsets

__all__ = [
    "Tally",
    "adaptive_consistency",
    "bayesian",
    "dirichlet_leader",
    "flip_risk",
    "locked",
    "predictive",
    "required_lead",
    "sequential_test",
    "tallies",
]

NODES = 128  # of the quadrature in `dirichlet_leader`: exact to 1e-12 up to a thousand votes

Prior = Annotated[
    float, Param("votes that each answer has before any is cast, one not seen yet included", gt=0, source="Jeffreys")
]


@dataclass(frozen=True, slots=True)
class Tally:
    """The votes of one group.

    leader    votes of the label; None where there is no label, or several
    rivals    votes of each other answer, and whether it takes the label at equal votes; most votes first
    unseen_ties   an answer that was not seen yet takes the label at equal votes
    """

    leader: int | None
    rivals: tuple[tuple[int, bool], ...]
    unseen_ties: bool = False

    @property
    def runner_up(self) -> int:
        return self.rivals[0][0] if self.rivals else 0

    @property
    def cast(self) -> int:
        return (self.leader or 0) + sum(votes for votes, _ in self.rivals)


def tallies(ballots: Ballots) -> list[Tally]:
    """The votes of each group."""
    groups, out = ballots.groups, []
    starts, votes = offsets(groups.support_P).tolist(), groups.votes_A.astype(np.int64).tolist()
    for p in range(len(groups.sizes_P)):
        answers = range(starts[p], starts[p + 1])
        leaders = [a for a in answers if ballots.leader_A[a]]
        if len(leaders) != 1:
            out.append(Tally(None, tuple((votes[a], True) for a in answers)))
            continue
        lead = leaders[0]
        rivals = sorted(((votes[a], not ballots.first_wins or a < lead) for a in answers if a != lead), reverse=True)
        out.append(Tally(votes[lead], tuple(rivals), not ballots.first_wins))
    return out


# --- the rules -------------------------------------------------------------------------------------------------------


def adaptive_consistency(
    tallied: list[Tally],
    to_come_P: Ints,
    *,
    confidence: Annotated[
        float, Param("probability of the leader from which on a group is settled", gt=0.5, lt=1, source="official code")
    ] = 0.95,
    posterior: Annotated[
        Literal["beta", "dirichlet"],
        Param("of the leader against the runner-up alone, or against every answer seen", source="official code: beta"),
    ] = "beta",
    min_votes: Annotated[int, Param("votes below which no group is settled", ge=1, source="ours")] = 1,
) -> Bools:
    """P(the leader is the likeliest answer) >= confidence, by a flat prior (Adaptive-Consistency, arXiv:2305.11860)."""
    sure = [_leads(t, posterior) >= confidence and t.cast >= min_votes for t in tallied]
    return np.array(sure, bool) | (to_come_P <= 0)


def bayesian(
    tallied: list[Tally],
    to_come_P: Ints,
    *,
    test: Annotated[
        Literal["ratio", "posterior", "lead"],
        Param(
            "what reaches the threshold: odds of the leader to the runner-up; posterior of the leader among n_answers; "
            "votes that it is ahead",
            source="arXiv:2512.02882; lead: ours",
        ),
    ] = "ratio",
    threshold: Annotated[float, Param("see test", gt=0, source="ours: 19 to 1; the paper's was not found")] = 19.0,
    p_correct: Annotated[
        float, Param("probability that a vote is right", gt=0, lt=1, source="ours; the paper's was not found")
    ] = 0.5,
    n_answers: Annotated[
        int, Param("answers that there may be; wrong votes fall on each alike", ge=2, le=1 << 20, source="ours")
    ] = 10,
    min_votes: Annotated[int, Param("votes below which no group is settled", ge=1, source="ours")] = 2,
) -> Bools:
    """The sequential test of OptPO (arXiv:2512.02882) with symmetric errors.

    With q = p_correct (n_answers - 1)/(1 - p_correct), the odds of leader to runner-up are q^(v1 - v2): a fixed lead.
    RequestError where q <= 1, because every vote would then speak against its answer.
    """
    out = []
    for tally in tallied:
        odds, probability = sequential_test(tally, p_correct=p_correct, n_answers=n_answers)
        lead = -math.inf if tally.leader is None else tally.leader - tally.runner_up
        reached = {"ratio": odds, "posterior": probability, "lead": lead}[test]
        out.append(tally.leader is not None and reached >= threshold and tally.cast >= min_votes)
    return np.array(out, bool) | (to_come_P <= 0)


def predictive(
    tallied: list[Tally],
    to_come_P: Ints,
    *,
    delta: Annotated[
        float, Param("probability of another label up to which a group is settled", gt=0, lt=1, source="research")
    ] = 0.03,
    prior: Prior = 0.5,
) -> Bools:
    """P(the label at the full number of votes is another one) <= delta: `flip_risk`."""
    return flip_risk(tallied, to_come_P, prior=prior) <= delta


# --- what they are made of -------------------------------------------------------------------------------------------


def flip_risk(tallied: list[Tally], to_come_P: Ints, *, prior: float = 0.5) -> Floats:
    """P(the label differs once `to_come_P` more votes are in), for each group.

    The votes to come are Dirichlet-multinomial given those cast: an answer with v votes weighs v + prior, all answers
    that were not seen yet together weigh prior. Exact for each rival; the sum over the rivals is an upper bound, which
    on real votes lies within a thousandth of the joint probability (research/docs/stopping.md). 1 without a label, 0
    without votes to come.
    """
    return np.array(
        [_risk(t, max(int(n), 0), prior) for t, n in zip(tallied, to_come_P, strict=True)], np.float64
    ).reshape(-1)


def locked(tally: Tally, to_come: int) -> bool:
    """No outcome of the votes to come can change the label."""
    if tally.leader is None:
        return to_come <= 0
    rivals = [*tally.rivals, (0, tally.unseen_ties)]
    return to_come <= 0 or all(tally.leader >= votes + to_come + ties for votes, ties in rivals)


def _risk(tally: Tally, to_come: int, prior: float) -> float:
    if locked(tally, to_come):
        return 0.0
    if tally.leader is None:
        return 1.0
    total = tally.cast + (len(tally.rivals) + 2) * prior  # of the leader, its rivals, and the answers not seen yet
    lead = tally.leader + prior
    risk = _overtakes((lead, prior, total), tally.leader, tally.unseen_ties, to_come)
    for votes, ties in tally.rivals:
        if risk >= 1 or votes + to_come + ties <= tally.leader:
            break
        risk += _overtakes((lead, votes + prior, total), tally.leader - votes, ties, to_come)
    return min(risk, 1.0)


@lru_cache(maxsize=1 << 15)
def _overtakes(weights: tuple[float, float, float], gap: int, ties: bool, to_come: int) -> float:
    """P(Y_rival - Y_lead > gap, or = gap where ties count) for n votes to come and weights (lead, rival, all)."""
    lead, rival, total = weights
    more = np.arange(to_come + 1)
    rest = to_come - more[:, None] - more[None, :]  # [votes of the leader, votes of the rival]
    others = total - lead - rival
    wins = (more[None, :] - more[:, None] >= gap + (not ties)) & (rest >= 0)
    logs = _log_weights(lead, to_come)[:, None] + _log_weights(rival, to_come)[None, :]
    logs = logs + (_log_weights(others, to_come)[np.maximum(rest, 0)] if others > 1e-9 else np.where(rest, -np.inf, 0))
    return float(np.exp(logs[wins] - _log_weights(total, to_come)[-1]).sum())


@lru_cache(maxsize=1 << 12)
def _log_weights(weight: float, most: int) -> Floats:
    """ln of Gamma(weight + y) / (Gamma(weight) y!) for y = 0..most."""
    y = np.arange(1, most + 1)
    return np.concatenate([[0.0], np.cumsum(np.log((weight + y - 1) / y))])


def sequential_test(tally: Tally, *, p_correct: float, n_answers: int) -> tuple[float, float]:
    """Odds of the leader to the runner-up, and the leader's posterior among all answers that there may be."""
    log = _log_evidence(p_correct, n_answers)
    votes = [v for v, _ in tally.rivals] if tally.leader is None else [tally.leader, *(v for v, _ in tally.rivals)]
    votes = sorted(votes, reverse=True) or [0]
    unseen = max(n_answers - len(votes), 0)
    lead = votes[0] - (votes[1] if len(votes) > 1 else 0)
    weight = sum(math.exp(log * (v - votes[0])) for v in votes) + unseen * math.exp(-log * votes[0])
    return math.exp(min(log * lead, 700.0)), 1 / weight


def required_lead(threshold: float, *, p_correct: float, n_answers: int) -> int:
    """Votes that the leader must be ahead for odds of `threshold`."""
    return math.ceil(math.log(threshold) / _log_evidence(p_correct, n_answers) - 1e-12)


def _log_evidence(p_correct: float, n_answers: int) -> float:
    """ln q: what one vote of lead is worth."""
    q = p_correct * (n_answers - 1) / (1 - p_correct)
    if q <= 1:
        raise RequestError(
            f"with p_correct={p_correct:g} of {n_answers} answers a vote speaks against its answer: p_correct must be "
            f"greater than 1/n_answers = {1 / n_answers:g}",
            loc=("rule_params", "p_correct"),
            code="parameter",
        )
    return math.log(q)


def _leads(tally: Tally, posterior: str) -> float:
    if tally.leader is None:
        return 0.0
    if posterior == "beta":
        return leader_probability(tally.leader, tally.runner_up)
    return dirichlet_leader((tally.leader, *(votes for votes, _ in tally.rivals)))


@cache
def _quadrature() -> tuple[Floats, Floats]:
    nodes, weights = np.polynomial.legendre.leggauss(NODES)
    return nodes, weights


@lru_cache(maxsize=1 << 12)
def dirichlet_leader(counts: tuple[int, ...]) -> float:
    """P(the first answer is the likeliest) under Dirichlet(1 + counts); the leader comes first.

    With X_i ~ Gamma(n_i + 1), P(X_1 = max) = int g_1(x) prod_i G_i(x) dx, by Gauss-Legendre. 1 for a single answer.
    """
    lead = counts[0]
    width = 12 * math.sqrt(lead + 1) + 20
    nodes, weights = _quadrature()
    low = max(lead + 1 - width, 0.0)
    x = low + (lead + 1 + width - low) * (nodes + 1) / 2
    k = np.arange(1, max(counts) + 1)
    # Poisson probabilities of 0, 1, ... at each node: the density of Gamma(n + 1) is that of n, its tail their sum.
    logs = np.concatenate([np.zeros((1, NODES)), np.cumsum(np.log(x)[None, :] - np.log(k)[:, None], axis=0)]) - x
    density = np.exp(logs)
    below = 1 - np.cumsum(density, axis=0)
    product = density[lead].copy()
    for rival in counts[1:]:
        product *= below[rival]
    return float((weights * product).sum() * (lead + 1 + width - low) / 2)
