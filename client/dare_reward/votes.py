"""When the votes so far suffice: counts in, decision out (docs/stopping.md).

TTRL generates 64 rollouts of a prompt and trains on 32; the others only vote. `votes_suffice` says after each complete
wave how many more votes are worth generating. It looks at complete waves alone: whoever stops a wave for the label that
its short rollouts agree on counts short rollouts first, and length goes with being wrong.

It is for methods that pay the most voted answer, such as `ttrl`: of others the votes alone do not tell the rewards.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import cache, lru_cache
from typing import Annotated, Any, Self

import numpy as np

from .errors import RequestError
from .estimators.method import Ballots, Method
from .methods import methods, settle
from .params import Param, Spec, parameters, parse, query_texts, resolve
from .scoring.request import prepare
from .segments import Floats, offsets

JSON = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Waves:
    """How votes are asked for. The trained rollouts are the first wave; what follows only votes."""

    votes: Annotated[int, Param("rollouts of a group that vote in full, the trained ones included", ge=1, le=1024)] = 64
    wave: Annotated[int, Param("votes of one further wave", ge=1, le=1024)] = 8
    delta: Annotated[
        float, Param("probability of another label up to which the votes suffice", gt=0, lt=1, source="research")
    ] = 0.03
    prior: Annotated[
        float,
        Param("votes that each answer has before any is cast, one not seen yet included", gt=0, source="Jeffreys"),
    ] = 0.5

    def __post_init__(self) -> None:
        resolve(wave_specs(), asdict(self))

    @classmethod
    def read(cls, line: str, *, votes: int | None = None) -> Self:
        """The options that a line such as `delta=0.02&wave=4` writes; `auto` says nothing. `votes` wins over the line.

        RequestError for anything else.
        """
        text = line.strip()
        texts = {} if text in {"auto", "true"} else query_texts(text, loc=("adaptive",))
        options = parse(wave_specs(), texts, loc=("adaptive",))
        return cls(**options | ({} if votes is None else {"votes": votes}))


@cache
def wave_specs() -> tuple[Spec, ...]:
    return parameters(Waves)


def require_ballots(method: Method) -> None:
    """RequestError unless the method pays the most voted answer, which is what votes can tell."""
    if method.ballots is None:
        others = ", ".join(m.name for m in methods().values() if m.offered and m.ballots is not None)
        raise RequestError(
            f"adaptive votes stop where the most voted answer is sure, and {method.name} may pay another one, or more "
            f"than one: leave adaptive out, or choose a method that pays it: {others}",
            loc=("method",),
            code="rule",
        )


@dataclass(frozen=True, slots=True)
class Wanted:
    """Votes that a group still needs, 0 where those that it has suffice, and the probability that its label differs
    from that of all votes."""

    more: int
    risk: float = 0.0


def votes_suffice(group: JSON, params: JSON, *, method: str, waves: Waves) -> Wanted:
    """How many votes the group needs beside those of its complete waves.

    They suffice where the probability of another label at the full number of votes is at most `delta`. Votes are
    counted and not planned: a group that lost some has as many more to come.

    Args:
        group: as of `estimate`, with the rollouts of its complete waves
        params: of the method

    Raises:
        RequestError: the method does not pay the most voted answer, or the group cannot be read.
    """
    configured = settle(method, params)
    require_ballots(configured.method)
    assert configured.method.ballots is not None
    groups = prepare([group], params=configured.reading).groups
    (tally,) = tallies(configured.method.ballots(groups, configured.values))
    to_come = max(waves.votes - int(groups.sizes_P[0]), 0)
    risk = flip_risk(tally, to_come, prior=waves.prior)
    return Wanted(0 if risk <= waves.delta else min(waves.wave, to_come), risk)


# --- counts ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Tally:
    """The votes of one group.

    leader        votes of the label; None where there is no label, or several
    rivals        votes of each other answer, and whether it takes the label at equal votes; most votes first
    unseen_ties   an answer that was not seen yet takes the label at equal votes
    """

    leader: int | None
    rivals: tuple[tuple[int, bool], ...]
    unseen_ties: bool = False

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


def locked(tally: Tally, to_come: int) -> bool:
    """Whether no outcome of the votes to come can change the label."""
    if tally.leader is None:
        return to_come <= 0
    rivals = [*tally.rivals, (0, tally.unseen_ties)]
    return to_come <= 0 or all(tally.leader >= votes + to_come + ties for votes, ties in rivals)


def flip_risk(tally: Tally, to_come: int, *, prior: float = 0.5) -> float:
    """P(the label differs once `to_come` more votes are in).

    The votes to come are Dirichlet-multinomial given those cast: an answer with v votes weighs v + prior, all answers
    that were not seen yet together weigh prior. Exact for each rival; the sum over the rivals is an upper bound, which
    on real votes lies within a thousandth of the joint probability (research/docs/stopping.md). 1 without a label, 0
    without votes to come.
    """
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
