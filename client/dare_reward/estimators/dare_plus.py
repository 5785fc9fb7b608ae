"""DARE behind a gate that needs no labels: entropy counts as far as clear majorities show that it can be trusted.

Where a majority is clear and has a rival, the majority is probably right. In such a group A is the chance that a
rollout with the majority's answer has less entropy than one with the rival's (ties one half); other answers are left
out, because random slips say nothing of systematic errors. Over the n such groups of this request, and the n' of
earlier ones, whose mean A' the caller remembers (the adapters of `dare_reward.stacks` that send whole steps do),

    A^    = (prior / 2 + n' A' + sum A) / (prior + n' + n)
    trust = min(max((A^ - 1/2) / (full - 1/2), 0), 1)
    w(y)  = n(y) / (u(y) + eps)^trust
    r(y)  = p^(y) = w(y) / sum_y' w(y')

so trust 0 is the share of votes and trust 1 the distribution of `dare` (Eq. 10 of arXiv:2601.21804), without bonus and
pruning. Ours: the paper trusts entropy always, and where right answers have more of it, that loses to voting.
All groups of a request are judged together: send whole steps, not single groups.

The gate is as good as clear majorities are: where those are wrong nearly as often as right, A^ tells nothing. In the
confirming models of research/docs they were right in 56 to 59 of 100 such groups, and the method did not pass its bar:
it kept little of what `dare` gains where entropy is informative, and still lost where it misleads. Fifty labelled
prompts (`dare-reward preflight`) tell more than this gate.
"""

from __future__ import annotations

from typing import Annotated

import numpy as np

from .._segments import Bools, Floats, offsets
from ..groups import Groups
from ..methods import Estimate, Method
from ..params import Param
from .dare import Missing, distribution

__all__ = ["METHODS", "agreement_of", "dare_plus"]


def dare_plus(
    groups: Groups,
    *,
    eps: Annotated[float, Param("added to the uncertainty in the weight", ge=0, source="as dare")] = 0.05,
    majority: Annotated[
        float, Param("share of the answered rollouts from which on a majority is clear", ge=0, le=1, source="ours")
    ] = 0.6,
    rival: Annotated[
        float,
        Param(
            "share of the answered rollouts from which on the second answer is a rival, not slips",
            ge=0,
            le=1,
            source="ours",
        ),
    ] = 0.05,
    prior: Annotated[
        float, Param("groups with A = 1/2 that are counted in: few groups say little", ge=0, source="ours")
    ] = 4.0,
    full: Annotated[
        float, Param("the chance A^ from which on entropy is trusted fully", gt=0.5, le=1, source="ours")
    ] = 0.55,
    agreement: Annotated[
        float,
        Param(
            "mean of `entropy_agreement` over groups of earlier requests", ge=0, le=1, source="ours: adapters fill it"
        ),
    ] = 0.5,
    agreement_groups: Annotated[int, Param("how many groups these were", ge=0, source="ours: adapters fill it")] = 0,
    missing_entropy: Annotated[
        Missing,
        Param(
            "an answered rollout without entropy: the group is an error; it takes the group's mean; votes alone count",
            source="ours",
        ),
    ] = "error",
) -> Estimate:
    """r = p^(y), its entropy weight raised to how far entropies agree with clear majorities.

    `entropy_agreement` of a group in the reply is its A, null where it has no clear majority with a rival.
    """
    d = distribution(groups, weight="linear", eps=eps, lam=1.0, u_floor=0.0, missing_entropy=missing_entropy)
    # Imputed entropies say nothing of their rollouts.
    asked_P = d.used_P & ~d.flags_P["missing_entropy_imputed"]
    agreement_P = agreement_of(groups, asked_P, majority=majority, rival=rival)
    known = agreement_P[~np.isnan(agreement_P)]
    count = prior + agreement_groups + len(known)
    mean = (prior / 2 + agreement_groups * agreement + known.sum()) / count if count else 0.5
    trust = float(np.clip((mean - 0.5) / (full - 0.5), 0.0, 1.0))
    n_A = groups.votes_A
    confidence_A = np.divide(d.p_hat_A, n_A, out=np.zeros_like(d.p_hat_A), where=n_A > 0)
    greatest_A = groups.max_by_group(confidence_A)[groups.group_A]
    relative_A = np.divide(confidence_A, greatest_A, out=np.ones_like(confidence_A), where=greatest_A > 0)
    weight_A = n_A * relative_A**trust
    p_A = weight_A / np.maximum(groups.sum_by_group(weight_A), 1e-300)[groups.group_A]
    return Estimate(
        rewards_R=groups.spread(p_A),
        keep_R=groups.valid_R,
        support_A={
            "uncertainty": d.uncertainty_A,
            "p_hat": p_A,
            "p": p_A,
            "reward": p_A,
            "kept": np.ones(len(p_A), bool),
        },
        used_entropy_P=d.used_P & (trust > 0),
        flags_P={"entropy_not_trusted": d.used_P & (trust == 0), **d.flags_P},
        errors=d.errors,
        extra_P={"entropy_agreement": agreement_P, "entropy_trust": np.full(len(agreement_P), trust)},
    )


def agreement_of(groups: Groups, usable_P: Bools, *, majority: float, rival: float) -> Floats:
    """A of each group with a clear majority and a rival, else NaN."""
    n_A = groups.votes_A
    top_A = groups.first_max(n_A)
    second_A = groups.first_max(np.where(top_A, 0.0, n_A)) & ~top_A
    valid_P, top_P, second_P = (groups.sum_by_group(x) for x in (n_A, n_A * top_A, n_A * second_A))
    clear_P = usable_P & (top_P >= majority * valid_P) & (second_P >= np.maximum(rival * valid_P, 1))
    entropy_R = groups.column("mean_entropy")
    top_R, second_R = (groups.spread(x, fill=False) for x in (top_A, second_A))
    out = np.full(len(groups.sizes_P), np.nan)
    bounds = offsets(groups.sizes_P).tolist()
    for p in np.flatnonzero(clear_P).tolist():
        part = slice(bounds[p], bounds[p + 1])
        out[p] = _chance(entropy_R[part][top_R[part]], entropy_R[part][second_R[part]])
    return out


def _chance(one: Floats, other: Floats) -> float:
    """P(a value of `one` < a value of `other`), ties one half."""
    other = np.sort(other)
    below, through = (np.searchsorted(other, one, side=side) for side in ("left", "right"))
    return float(1 - (below + through).mean() / (2 * len(other)))


METHODS = (
    Method(
        name="dare_plus",
        function=dare_plus,
        summary="the entropy-weighted distribution as far as entropy agrees with clear majorities, else vote shares",
        paper="arXiv:2601.21804, Eq. 10, with a gate of ours",
        evidence="experimental",
        requires=("answer", "mean_entropy"),
        imputes=frozenset({"mean_entropy"}),
        cost="one entropy per token from the engine or the trainer, averaged",
        unverified="that it helps: it did not pass its bar in small models (research/docs/training.md)",
        judges_together=True,
        remembers="agreement",
    ),
)
