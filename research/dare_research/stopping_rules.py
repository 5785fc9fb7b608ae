"""Published rules of when a vote is settled, which the study of adaptive voting compares with those of the product.

They are called like `dare_reward.stopping.rules.predictive`: tallies and votes to come in, settled groups out.
"""

from __future__ import annotations

import math
from functools import cache, lru_cache
from typing import Literal

import numpy as np

from dare_reward.analysis.leader import leader_probability
from dare_reward.errors import RequestError
from dare_reward.segments import Bools, Floats, Ints
from dare_reward.stopping.rules import Tally

NODES = 128  # of the quadrature in `dirichlet_leader`: exact to 1e-12 up to a thousand votes


def adaptive_consistency(
    tallied: list[Tally],
    to_come_P: Ints,
    *,
    confidence: float = 0.95,
    posterior: Literal["beta", "dirichlet"] = "beta",
    min_votes: int = 1,
) -> Bools:
    """P(the leader is the likeliest answer) >= confidence, by a flat prior (Adaptive-Consistency, arXiv:2305.11860).

    posterior  of the leader against the runner-up alone (official code), or against every answer seen
    """
    sure = [_leads(t, posterior) >= confidence and t.cast >= min_votes for t in tallied]
    return np.array(sure, bool) | (to_come_P <= 0)


def bayesian(
    tallied: list[Tally],
    to_come_P: Ints,
    *,
    test: Literal["ratio", "posterior", "lead"] = "ratio",
    threshold: float = 19.0,
    p_correct: float = 0.5,
    n_answers: int = 10,
    min_votes: int = 2,
) -> Bools:
    """The sequential test of OptPO (arXiv:2512.02882) with symmetric errors.

    With q = p_correct (n_answers - 1)/(1 - p_correct), the odds of leader to runner-up are q^(v1 - v2): a fixed lead.
    RequestError where q <= 1, because every vote would then speak against its answer.

    test       what reaches the threshold: odds of leader to runner-up, its posterior, or its lead in votes (ours)
    threshold  19 to 1 is ours, as are p_correct and n_answers: the paper's were not found
    """
    out = []
    for tally in tallied:
        odds, probability = sequential_test(tally, p_correct=p_correct, n_answers=n_answers)
        lead = -math.inf if tally.leader is None else tally.leader - tally.runner_up
        reached = {"ratio": odds, "posterior": probability, "lead": lead}[test]
        out.append(tally.leader is not None and reached >= threshold and tally.cast >= min_votes)
    return np.array(out, bool) | (to_come_P <= 0)


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
