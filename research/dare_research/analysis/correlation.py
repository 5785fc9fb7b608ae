"""Dependence between the rollouts of a group, from several groups of the same prompt."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass

import numpy as np

from dare_reward.segments import Floats

Answers = Sequence[Hashable | None]


@dataclass(frozen=True, slots=True)
class Consistency:
    """Proposition 2.3 on data, mean over prompts.

    max_abs        max_y |p^_g(y) - p(y)| of a group's empirical against the pooled distribution
    kl             KL(p^_g || p) in nats
    agreement      E[p^(Y)] with Y a random rollout of the group: sum_y p^_g(y)^2
    expected       sum_y p(y)^2, which the proposition says that `agreement` equals
    """

    max_abs: float
    kl: float
    agreement: float
    expected: float


def answer_counts(groups: Sequence[Answers]) -> Floats:
    """Votes of each answer in each group of one prompt, shape [G, K]; no answer is left out."""
    seen: dict[Hashable, int] = {}
    for group in groups:
        for answer in group:
            if answer is not None:
                seen.setdefault(answer, len(seen))
    out = np.zeros((len(groups), len(seen)))
    for row, group in zip(out, groups, strict=True):
        for answer in group:
            if answer is not None:
                row[seen[answer]] += 1
    return out


def marginal_consistency(groups_per_prompt: Sequence[Sequence[Answers]]) -> Consistency:
    """How far single groups are from the pool of a prompt's groups. Prompts with fewer than two groups are left out."""
    rows = [_consistency(c) for c in map(answer_counts, groups_per_prompt) if len(c) > 1 and (c.sum(axis=1) > 0).all()]
    if not rows:
        return Consistency(*(np.nan,) * 4)
    return Consistency(*(float(x) for x in np.mean(rows, axis=0)))


def _consistency(counts: Floats) -> tuple[float, float, float, float]:
    share = counts / counts.sum(axis=1, keepdims=True)
    pool = counts.sum(axis=0) / counts.sum()
    ratio = np.divide(share, pool, out=np.ones_like(share), where=share > 0)
    kl = float((share * np.log(ratio)).sum(axis=1).mean())
    largest = float(np.abs(share - pool).max(axis=1).mean())
    return largest, kl, float((share**2).sum(axis=1).mean()), float((pool**2).sum())


def latent_correlation(groups_per_prompt: Sequence[Sequence[Answers]]) -> float:
    """rho = (C_w - C_b)/(1 - C_b): intra-group correlation of the answers, without labels.

    C_w   chance that two rollouts of one group agree, sum_y n(n-1)/(M(M-1)), mean over groups
    C_b   chance that rollouts of two different groups of the prompt agree, sum_y n_g n_h/(M_g M_h), mean over pairs

    Under the latent-variable model p_z ~ Dirichlet with E[p_z] = p: C_w = sum p^2 + rho (1 - sum p^2), C_b = sum p^2.
    Both are means over prompts. NaN without a prompt that has two groups of two answers.
    """
    within, between = [], []
    for counts in map(answer_counts, groups_per_prompt):
        sizes = counts.sum(axis=1)
        usable = sizes > 1
        if usable.sum() < 2:
            continue
        n, m = counts[usable], sizes[usable]
        within.append(float(((n * (n - 1)).sum(axis=1) / (m * (m - 1))).mean()))
        cross = (n / m[:, None]) @ (n / m[:, None]).T
        between.append(float(cross[np.triu_indices(len(n), 1)].mean()))
    if not within:
        return np.nan
    c_w, c_b = float(np.mean(within)), float(np.mean(between))
    return (c_w - c_b) / (1 - c_b) if c_b < 1 else np.nan
