"""The hard label of DARE's distribution: entropy-weighted majority vote, and its preset `calibrated_vote`.

With `ttrl` (hard label of votes), `empo` (shares of votes) and `dare_dist` (shares weighted by entropy) it completes
the two-by-two of hard or soft label, with or without entropy (Eq. 10 of arXiv:2601.21804). `calibrated_vote` is
the same with an exponent that `dare-reward calibrate` fits on labelled rollouts, once, before training.
"""

from __future__ import annotations

from typing import Annotated, Any

import numpy as np

from ..groups import Groups
from ..params import REQUIRED, Param
from .certainty import Certainty
from .dare import (
    CERTAINTY,
    EPS_SCALE,
    EXPONENT,
    NATS,
    NEEDS,
    POWER,
    SCALE,
    Missing,
    Weight,
    distribution,
)
from .method import Estimate, Method


def weighted_vote(
    groups: Groups,
    *,
    weight: Annotated[
        Weight, Param("w(y): n/(u+eps), n/sqrt(u+eps), n exp(-lam u), n/(ln(1+u)+eps), n", source="as dare")
    ] = "linear",
    eps: Annotated[float, Param("added to the uncertainty in the weight", ge=0, le=NATS, source="as dare")] = 0.05,
    exponent: Annotated[float, Param(EXPONENT, ge=-POWER, le=POWER, source="as dare")] = 1.0,
    certainty: Annotated[Certainty, Param(CERTAINTY, source="as dare")] = "entropy",
    eps_scale: Annotated[float | None, Param(EPS_SCALE, ge=0, le=SCALE, source="as dare")] = None,
    lam: Annotated[float, Param("lambda of weight=exp", ge=0, le=POWER, source="as dare")] = 1.0,
    u_floor: Annotated[float, Param("u(y) is at least this", ge=0, le=NATS, source="as dare")] = 0.0,
    missing_entropy: Annotated[
        Missing,
        Param(
            "what an answered rollout without an entropy does: error refuses its group, group_mean gives it the "
            "group's mean, frequency counts votes alone",
            source="ours",
        ),
    ] = "error",
) -> Estimate:
    """r = 1 for the rollouts whose answer has the greatest p^ (ties: first seen), else 0.

    With `exponent=0` this is the majority vote: no entropy is needed or used. RequestError if `exponent` or `certainty`
    is set and `weight` is not linear.
    """
    d = distribution(
        groups,
        weight=weight,
        eps=eps,
        exponent=exponent,
        certainty=certainty,
        eps_scale=eps_scale,
        lam=lam,
        u_floor=u_floor,
        missing_entropy=missing_entropy,
    )
    label_A = groups.first_max(d.p_hat_A) & (d.p_hat_A > 0)
    return Estimate(
        rewards_R=groups.spread(label_A.astype(np.float64)),
        keep_R=groups.valid_R,
        support_A={
            "uncertainty": d.uncertainty_A,
            "p_hat": d.p_hat_A,
            "p": d.p_hat_A,
            "reward": label_A.astype(np.float64),
            "kept": np.ones(len(label_A), bool),
        },
        used_entropy_P=d.used_P,
        label_A=label_A,
        flags_P=d.flags_P,
        errors=d.errors,
    )


def _entry(name: str, summary: str, *, unverified: str, **defaults: Any) -> Method:
    return Method(
        name=name,
        function=weighted_vote,
        summary=summary,
        paper="arXiv:2601.21804, Eq. 10",
        evidence="ours",
        requires=("answer", "mean_entropy"),
        when=(NEEDS,),
        imputes=frozenset({"mean_entropy", "answer_logprob"}),
        defaults=defaults,
        cost="one entropy per token from the engine or the trainer, averaged",
        unverified=unverified,
    )


METHODS = (
    _entry(
        "weighted_vote",
        "1 for the answer with the greatest entropy-weighted share, else 0",
        unverified="the ablation cell that the paper leaves out",
    ),
    _entry(
        "calibrated_vote",
        "weighted_vote with the exponent that `dare-reward calibrate` fitted on labelled rollouts",
        unverified="no large language model has been trained with it",
        exponent=REQUIRED,
    ),
)
