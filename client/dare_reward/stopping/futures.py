"""When the votes so far settle a group whose rewards depend on more than its label: by what the votes to come may be.

The votes to come are drawn from their posterior predictive, each as a copy of a rollout that was seen, so that whatever
a method reads of a rollout (its entropy, its length) comes along. The method then judges each future, and the trained
rollouts' rewards and the label are compared with those of now.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import chain
from typing import Annotated

import numpy as np
from numpy.typing import NDArray

from ..advantages.from_rewards import moments
from ..estimators.method import Estimate
from ..groups import Groups
from ..params import Param
from ..scoring.score import pseudo_label
from ..segments import Bools, Floats, Ints, offsets
from .rules import Prior

Judge = Callable[[Groups], Estimate]

ROWS = 1 << 16  # rollouts that are judged at a time
FLAT = 1e-9  # rewards that lie closer have no advantage


@dataclass(frozen=True, slots=True, eq=False)
class Outlook:
    """What the votes to come may change, as means over the draws.

    risk_P    the label is another one
    sign_P    the advantage of a trained rollout has the other sign
    change_P  1 - cosine between the trained rollouts' advantages now and then
    """

    risk_P: Floats
    sign_P: Floats
    change_P: Floats


def rewards(
    seen: Outlook,
    *,
    change: Annotated[
        float,
        Param(
            "expected change of the advantages (1 - cosine) up to which a group is settled", ge=0, le=2, source="ours"
        ),
    ] = 0.03,
    delta: Annotated[
        float, Param("probability of another label up to which a group is settled", gt=0, lt=1, source="research")
    ] = 0.05,
    draws: Annotated[int, Param("futures that are drawn", ge=10, le=1000, source="ours")] = 100,
    prior: Prior = 0.5,
    seed: Annotated[int, Param("of the draws", ge=0, lt=1 << 63, source="ours")] = 0,
) -> Bools:
    """Expected change of the trained rollouts' normalised advantages <= change, and P(another label) <= delta.

    `draws`, `prior` and `seed` are those of `outlook`.
    """
    return (seen.change_P <= change) & (seen.risk_P <= delta)


def outlook(
    groups: Groups,
    judge: Judge,
    to_come_P: Ints,
    *,
    draws: int,
    prior: float,
    seed: int,
    watch: Callable[[], None] = lambda: None,
) -> Outlook:
    """What the votes to come may change in the judgement of each group.

    An answer with v votes weighs v + prior, one that was not seen yet prior, and no answer as often as it was seen. A
    new answer takes the rest of a rollout from any that answered. The draws of a group depend on its own votes and
    `seed` alone, not on its neighbours. `watch` is called between batches.
    """
    now = _Judgement.of(groups, judge(groups))
    parts = []
    for batch in _batches((groups.sizes_P + to_come_P) * draws):
        watch()
        where_P = np.zeros(len(groups.sizes_P), bool)
        where_P[batch] = True
        part = groups.take(where_P)
        drawn = _futures(part, to_come_P[batch], draws=draws, prior=prior, seed=seed)
        parts.append(now.part(batch).compare(_Judgement.of(drawn, judge(drawn)), draws))
    risk_P, sign_P, change_P = np.concatenate(parts, axis=1) if parts else np.zeros((3, 0))
    return Outlook(risk_P, sign_P, change_P)


@dataclass(frozen=True, slots=True, eq=False)
class _Judgement:
    """Place of the label among its group's answers, -1 for none, and the trained rollouts' advantages."""

    label_P: Ints
    trained_P: Ints
    advantages_T: Floats

    @classmethod
    def of(cls, groups: Groups, estimate: Estimate) -> _Judgement:
        label_P = np.full(len(groups.sizes_P), -1)
        at = np.flatnonzero(pseudo_label(groups, estimate))
        label_P[groups.group_A[at]] = at - offsets(groups.support_P)[:-1][groups.group_A[at]]
        trained_P = groups.sum_rollouts(groups.trains_R).astype(np.int64)
        return cls(label_P, trained_P, _normalised(estimate.rewards_R[groups.trains_R], trained_P))

    def part(self, batch: slice) -> _Judgement:
        ends = offsets(self.trained_P)
        rollouts = slice(int(ends[batch.start]), int(ends[batch.stop]))
        return _Judgement(self.label_P[batch], self.trained_P[batch], self.advantages_T[rollouts])

    def compare(self, then: _Judgement, draws: int) -> NDArray[np.float64]:
        """Risk, sign and change of each group, whose `draws` futures follow each other in `then`."""
        risk_P = (then.label_P.reshape(-1, draws) != self.label_P[:, None]).mean(axis=1)
        ends, starts = offsets(self.trained_P), offsets(then.trained_P)
        out = np.zeros((3, len(self.label_P)))
        out[0] = risk_P
        for p in range(len(self.label_P)):
            old = self.advantages_T[ends[p] : ends[p + 1]]
            new = then.advantages_T[starts[p * draws] : starts[(p + 1) * draws]].reshape(draws, -1)
            out[1, p] = (new * old < -FLAT).any(axis=1).mean()
            out[2, p] = (1 - _cosines(old, new)).mean()
        return out


def _normalised(rewards_T: Floats, trained_P: Ints) -> Floats:
    """(r - m)/s with the population's s; 0 where all rewards of a group are equal."""
    mean_T, deviation_T = moments(rewards_T, trained_P, ddof=0)
    flat_T = deviation_T <= FLAT
    return np.where(flat_T, 0.0, (rewards_T - mean_T) / np.where(flat_T, 1.0, deviation_T))


def _cosines(old: Floats, new: Floats) -> Floats:
    """Of one vector with each row: 1 if both are zero, 0 if one of them is."""
    length, lengths = np.sqrt(old @ old), np.sqrt((new**2).sum(axis=1))
    none = (lengths == 0) & (length == 0)
    return np.where(none, 1.0, (new @ old) / np.where(lengths * length > 0, lengths * length, 1.0))


def _batches(rows_P: Ints) -> Iterator[slice]:
    """Runs of groups of about ROWS rows."""
    first, total = 0, 0
    for p, rows in enumerate(rows_P.tolist()):
        if p > first and total + rows > ROWS:
            yield slice(first, p)
            first, total = p, 0
        total += rows
    if first < len(rows_P):
        yield slice(first, len(rows_P))


# --- drawing ---------------------------------------------------------------------------------------------------------


def _futures(groups: Groups, to_come_P: Ints, *, draws: int, prior: float, seed: int) -> Groups:
    """Each group `draws` times, completed by votes that are copies of its rollouts."""
    starts, answers = offsets(groups.sizes_P), offsets(groups.support_P)
    donors, labels, supports, texts = [], [], [], []
    for p, to_come in enumerate(to_come_P.tolist()):
        local = groups.answer_R[starts[p] : starts[p + 1]]
        local = np.where(local >= 0, local - answers[p], -1)
        kinds, votes = int(groups.support_P[p]), np.bincount(local[local >= 0], minlength=groups.support_P[p])
        rng = np.random.default_rng([seed, to_come, len(local), *votes.tolist()])
        copied, label = _votes(local, votes, to_come, draws=draws, prior=prior, rng=rng)
        donors.append(np.hstack([np.tile(np.arange(len(local)), (draws, 1)), copied]).ravel() + starts[p])
        labels.append(np.hstack([np.tile(local, (draws, 1)), label]))
        fresh = (label == kinds).any(axis=1)
        supports.append(kinds + fresh)
        seen = groups.text_A[answers[p] : answers[p + 1]]
        texts += [(*seen, "") if new else seen for new in fresh.tolist()]
    donor_R, support_P = np.concatenate(donors), np.concatenate(supports).astype(np.int64)
    sizes_P = np.repeat(groups.sizes_P + to_come_P, draws)
    local_R, low_R = np.concatenate([x.ravel() for x in labels]), np.repeat(offsets(support_P)[:-1], sizes_P)
    first_R = np.concatenate(
        [np.tile(np.arange(n + m) < n, draws) for n, m in zip(groups.sizes_P, to_come_P, strict=True)]
    )
    return Groups(
        sizes_P,
        np.where(local_R >= 0, local_R + low_R, -1),
        support_P,
        tuple(chain.from_iterable(texts)),
        {name: column[donor_R] for name, column in groups.columns.items() if isinstance(column, np.ndarray)},
        groups.trains_R[donor_R] & first_R,
        {},
        {name: np.repeat(column, draws) for name, column in groups.columns_P.items()},
    )


def _votes(
    local: Ints, votes: Ints, to_come: int, *, draws: int, prior: float, rng: np.random.Generator
) -> tuple[Ints, Ints]:
    """Which rollout each vote to come is a copy of, and its answer: [draws, to_come]. `len(votes)` is a new answer."""
    kinds, blanks = len(votes), int((local < 0).sum())
    weights = np.concatenate([votes + prior, [prior], [float(blanks)] if blanks else []])
    counts = rng.multinomial(to_come, rng.dirichlet(weights, draws))
    label = np.repeat(np.tile(np.arange(len(weights)), draws), counts.ravel()).reshape(draws, to_come)
    # The members of each answer stand together; a new answer may be a copy of whoever answered.
    order = np.argsort(np.where(local < 0, kinds, local), kind="stable")
    starts = np.concatenate([offsets(votes)[:-1], [0], [kinds and int(votes.sum())]]).astype(np.int64)
    sizes = np.concatenate([votes, [int(votes.sum()) or len(local)], [blanks]]).astype(np.int64)
    copied = order[starts[label] + (rng.random(label.shape) * sizes[label]).astype(np.int64)]
    return copied, np.where(label > kinds, -1, label)
