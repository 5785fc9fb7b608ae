"""DARE behind a gate that needs no labels: entropy counts as far as this request shows that it can be trusted.

On groups with a clear majority, that majority is probably right. A is the chance that there a rollout with the
majority's answer has less entropy than another of its group (ties one half), a mean over these groups. With

    trust = min(max((A - 1/2) / (full - 1/2), 0), 1),     0 where fewer than `least` groups say anything
    w(y)  = n(y) / (u(y) + eps)^trust
    r(y)  = p^(y) = w(y) / sum_y' w(y')

so trust 0 is the share of votes and trust 1 the distribution of `dare` (Eq. 10 of arXiv:2601.21804), without bonus and
pruning. Ours: the paper trusts entropy always, and where right answers have more of it, that loses to voting.
All groups of a request are judged together: send whole steps, not single groups.

Do not rely on the gate: where the minority of a clear majority is mostly made of random slips, A says nothing of the
systematic errors that matter, and in models of the training study it stayed open where it should have closed. Fifty
labelled prompts (`dare-reward preflight`) tell what it cannot.
"""

from __future__ import annotations

from typing import Annotated

import numpy as np

from ..groups import Groups
from ..methods import Estimate, Method
from ..params import Param
from ..segments import Bools, Floats, offsets
from .dare import Missing, distribution

__all__ = ["METHODS", "dare_plus"]


def dare_plus(
    groups: Groups,
    *,
    eps: Annotated[float, Param("added to the uncertainty in the weight", ge=0, source="as dare")] = 0.05,
    majority: Annotated[
        float, Param("share of the answered rollouts from which on a majority is clear", ge=0, le=1, source="ours")
    ] = 0.5,
    full: Annotated[
        float, Param("the chance A from which on entropy is trusted fully", gt=0.5, le=1, source="ours")
    ] = 0.6,
    least: Annotated[
        int, Param("groups with a clear majority and a minority, without which votes alone count", ge=1, source="ours")
    ] = 3,
    missing_entropy: Annotated[
        Missing,
        Param(
            "an answered rollout without entropy: the group is an error; it takes the group's mean; votes alone count",
            source="ours",
        ),
    ] = "error",
) -> Estimate:
    """r = p^(y), its entropy weight raised to how far the request's entropies agree with its clear majorities."""
    d = distribution(groups, weight="linear", eps=eps, lam=1.0, u_floor=0.0, missing_entropy=missing_entropy)
    trust = _trust(groups, d.used_P, majority=majority, full=full, least=least)
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
    )


def _trust(groups: Groups, usable_P: Bools, *, majority: float, full: float, least: int) -> float:
    n_A = groups.votes_A
    top_A = groups.first_max(n_A)
    valid_P, top_P = groups.sum_by_group(n_A), groups.sum_by_group(n_A * top_A)
    clear_P = usable_P & (top_P >= majority * valid_P) & (top_P < valid_P)
    if clear_P.sum() < least:
        return 0.0
    entropy_R, top_R = groups.column("mean_entropy"), groups.spread(top_A, fill=False)
    bounds = offsets(groups.sizes_P)
    chances = [
        _chance(entropy_R[low:high][valid], top_R[low:high][valid])
        for low, high in bounds[np.flatnonzero(clear_P)[:, None] + np.arange(2)].tolist()
        for valid in [groups.valid_R[low:high]]
    ]
    return float(np.clip((np.mean(chances) - 0.5) / (full - 0.5), 0.0, 1.0))


def _chance(entropy: Floats, inside: Bools) -> float:
    """P(entropy inside < entropy outside), ties one half."""
    outside = np.sort(entropy[~inside])
    below, through = (np.searchsorted(outside, entropy[inside], side=side) for side in ("left", "right"))
    return float(1 - (below + through).mean() / (2 * len(outside)))


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
        unverified="that it helps: its gate stays open in study models whose right answers have more entropy",
        judges_together=True,
    ),
)
