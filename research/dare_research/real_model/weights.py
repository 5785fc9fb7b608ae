"""How much each answer weighs, by every certainty that the plans name, and how often the heaviest is right."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

import numpy as np

from dare_reward.segments import Floats, Ints

from .sample import SampledQuestion

EPS = 0.05
ROUNDING = 1e-12
Weight = Callable[[Ints, Mapping[str, Floats], int], Floats]


def sums(answer_M: Ints, values_M: Floats, count: int) -> Floats:
    """By answer, over the rollouts that have one."""
    valid = answer_M >= 0
    return np.bincount(answer_M[valid], np.broadcast_to(values_M, answer_M.shape)[valid], count).astype(float)


def votes(answer_M: Ints, _: Mapping[str, Floats], count: int) -> Floats:
    return sums(answer_M, np.ones(1), count)


def by_entropy(column: str, exponent: float) -> Weight:
    """n / (u + EPS)^exponent, u the mean of the column over the answer's rollouts."""

    def weight(answer_M: Ints, columns: Mapping[str, Floats], count: int) -> Floats:
        n = votes(answer_M, columns, count)
        u = sums(answer_M, columns[column], count) / np.maximum(n, 1)
        return n / (u + EPS) ** exponent

    return weight


def by_path(answer_M: Ints, columns: Mapping[str, Floats], count: int) -> Floats:
    """exp(sum of log-probabilities), over the answer's distinct paths."""
    _, first = np.unique(columns["path"], return_index=True)
    once = np.zeros(len(answer_M))
    once[first] = np.exp(columns["logprob"][first])
    return sums(answer_M, once, count)


def by_answer_probability(column: str) -> Weight:
    """exp(sum of log-probabilities of the answer's tokens), over the answer's rollouts."""
    return lambda answer_M, columns, count: sums(answer_M, np.exp(columns[column]), count)


def ties(answer_M: Ints, columns: Mapping[str, Floats], count: int) -> Floats:
    """n, and among equal n the lower mean entropy of all tokens."""
    n = votes(answer_M, columns, count)
    u = sums(answer_M, columns["entropy"], count) / np.maximum(n, 1)
    return n + 0.5 / (1 + u)  # at most a half: it decides ties alone


WEIGHTS: Mapping[str, Weight] = MappingProxyType(
    {
        "vote": votes,
        **{f"trace^{b:g}": by_entropy("entropy", b) for b in (-4, -2, -1, 0.5, 1, 2, 4)},
        **{f"answer^{b:g}": by_entropy("closed_entropy", b) for b in (0.5, 1, 2)},
        "answer_open^1": by_entropy("open_entropy", 1),
        "ppc": by_path,
        "p_answer": by_answer_probability("closed_logprob"),
        "p_answer_open": by_answer_probability("open_logprob"),
        "tie": ties,
    }
)


def masses(question: SampledQuestion, weight: str, rollouts: slice) -> Floats:
    """Of each answer of the question, by some of its rollouts; 0 for answers that these do not give."""
    columns = {name: column[rollouts] for name, column in question.columns.items()}
    found = WEIGHTS[weight](question.answer_M[rollouts], columns, len(question.right_A))
    given = votes(question.answer_M[rollouts], columns, len(question.right_A)) > 0
    return np.where(given, found, 0.0)


def heaviest(mass_A: Floats) -> Ints:
    """The answers of the greatest mass: several where they are tied, none where nobody answers."""
    most = mass_A.max(initial=0.0)
    return np.flatnonzero(mass_A >= most * (1 - ROUNDING)) if most > 0 else np.array([], np.int64)


def label_right(question: SampledQuestion, weight: str, size: int) -> float:
    """Mean over the consecutive groups of `size`: share of the heaviest answers that are right; 0 without an answer."""
    count = len(question.answer_M) // size
    return float(np.mean([_share(question, weight, slice(k * size, (k + 1) * size)) for k in range(count)]))


def _share(question: SampledQuestion, weight: str, rollouts: slice) -> float:
    top = heaviest(masses(question, weight, rollouts))
    return float(question.right_A[top].mean()) if len(top) else 0.0
