"""When the votes so far settle a group: rules on the votes alone, for methods that pay the most voted answer.

Each rule looks at complete waves: whoever stops a wave for the label that its short rollouts agree on counts short
rollouts first, and length goes with being wrong.

A rule says which groups are settled. How sure that is, `flip_risk` says for every rule alike: the probability that the
label at the full number of votes is another one.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Annotated

import numpy as np

from ..estimators.method import Ballots
from ..params import Param
from ..segments import Bools, Floats, Ints, offsets

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
    left = to_come - more[:, None] - more[None, :]  # [votes of the leader, votes of the rival]
    others = total - lead - rival
    wins = (more[None, :] - more[:, None] >= gap + (not ties)) & (left >= 0)
    logs = _log_weights(lead, to_come)[:, None] + _log_weights(rival, to_come)[None, :]
    logs = logs + (_log_weights(others, to_come)[np.maximum(left, 0)] if others > 1e-9 else np.where(left, -np.inf, 0))
    return float(np.exp(logs[wins] - _log_weights(total, to_come)[-1]).sum())


@lru_cache(maxsize=1 << 12)
def _log_weights(weight: float, most: int) -> Floats:
    """ln of Gamma(weight + y) / (Gamma(weight) y!) for y = 0..most."""
    y = np.arange(1, most + 1)
    return np.concatenate([[0.0], np.cumsum(np.log((weight + y - 1) / y))])
