"""What a file says of how sure its policy was: the certainties that can weigh votes, each as one number an answer.

A certainty c(y) weighs answer y of n(y) votes by n(y) exp(b c(y)): the exponent b is 0 for the vote and 1 for the
method's own weight. c is read off that method, as ln(p^(y) / n(y)) at exponent 1, so that nothing is defined twice:

    entropy, of the trace or of the answer   c = -ln(u(y) + eps), Eq. 10 of arXiv:2601.21804, by `calibrated_vote`
    probability of the answer                c = ln(mean over y's rollouts of the probability of the answer's tokens),
                                             by the same with certainty=answer_probability
    mean log-probability                     c = ln(sum over y's distinct paths of exp(mean log p) / n),
                                             by `rpc` without pruning (arXiv:2502.00511)
    probability of the path                  the same of exp(sum log p), by
                                             `perplexity_consistency`
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Final

import numpy as np

from ..estimators.method import ANSWER, PROBABILITY, entropies_over
from ..estimators.rpc import path_logprobs
from ..groups import Groups
from ..methods import find, write_line
from ..segments import Bools, Floats

GRID: Final = (-4.0, -2.0, -1.0, 0.0, 1.0, 2.0, 4.0)
VOTE: Final = GRID.index(0.0)
ONE: Final = (0.0, 1.0)
LEAST = 1e-300
NOTHING: Mapping[str, Any] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Certainty:
    """A certainty and the method that weighs by it.

    name        in tables
    needs       columns
    of_R        how unsure each rollout is, for AUROCs
    exponents   those of GRID that the method has
    """

    name: str
    method: str
    needs: tuple[str, ...]
    of_R: Callable[[Groups], Floats]
    params: Mapping[str, Any] = field(default_factory=lambda: NOTHING)
    exponents: tuple[float, ...] = GRID

    @property
    def weighs(self) -> bool:
        """The method has an exponent, and the parameters of the weight."""
        return self.exponents == GRID

    def line(self, exponent: float, more: Mapping[str, Any] = NOTHING) -> str:
        """Method and parameters as `dare_reward.methods.read_line` reads them; `more` is appended."""
        params = {"exponent": exponent, **self.params} if self.weighs else dict(self.params)
        return write_line(self.method, {**params, **more})

    def values(self, groups: Groups, weight: Mapping[str, Any] = NOTHING) -> tuple[Floats, Bools]:
        """c of each answer, and the groups that lack what it needs. `weight`: parameters of the weight, such as eps."""
        params = {**self.params, **({"exponent": 1.0, **weight} if self.weighs else {})}
        estimate = find(self.method)(groups, **params)
        lacking_P = np.zeros(len(groups.sizes_P), bool)
        lacking_P[list(estimate.errors)] = True
        share_A = np.where(lacking_P[groups.group_A], groups.votes_A, estimate.support_A["p_hat"])
        return np.log(np.maximum(share_A / np.maximum(groups.votes_A, 1), LEAST)), lacking_P


def _column(name: str) -> Callable[[Groups], Floats]:
    return lambda groups: groups.column(name)


def _answer_entropy(groups: Groups) -> Floats:
    """As the method sees it: of the trace where a rollout lacks that of its answer."""
    return entropies_over(groups, ANSWER)[0].column("mean_entropy")


def _surprisal(probability: str) -> Callable[[Groups], Floats]:
    return lambda groups: -path_logprobs(groups, probability)


PATH: Final = ("sum_logprob", "num_tokens", "path")
ENTROPY: Final = Certainty("entropy", "calibrated_vote", ("mean_entropy",), _column("mean_entropy"))
KNOWN: Final = (
    ENTROPY,
    Certainty("entropy of the answer", "calibrated_vote", ("answer_entropy",), _answer_entropy, {"over": ANSWER}),
    Certainty(
        "probability of the answer",
        "calibrated_vote",
        ("answer_logprob",),
        lambda groups: -groups.column("answer_logprob"),
        {"certainty": PROBABILITY, "exponent": 1},
        ONE,
    ),
    Certainty("mean log-probability", "rpc", PATH, _surprisal("mean"), {"prune": False}, ONE),
    Certainty("probability of the path", "perplexity_consistency", PATH, _surprisal("sum"), exponents=ONE),
)


def available(groups: Groups, weight: Mapping[str, Any] = NOTHING) -> list[Certainty]:
    """The certainties that some group has the inputs of, entropy first; one that equals an earlier one is left out."""
    distinct: list[tuple[Certainty, Floats]] = []
    for one in KNOWN:
        if not all(groups.has(name).any() for name in one.needs):
            continue
        values_A, lacking_P = one.values(groups, weight)
        same = any(np.allclose(values_A, other, rtol=1e-9, atol=1e-9) for _, other in distinct)
        if not same and not lacking_P.all():
            distinct.append((one, values_A))
    return [one for one, _ in distinct] or [ENTROPY]
