"""The hard label of DARE's distribution: entropy-weighted majority vote, and its preset `calibrated_vote`.

With `ttrl` (hard label of votes), `empo` (shares of votes) and `dare_dist` (shares weighted by entropy) it completes
the two-by-two of hard or soft label, with or without entropy (Eq. 10 of arXiv:2601.21804). `calibrated_vote` is
the same with an exponent that `dare-reward calibrate` fits on labelled rollouts, once, before training.
"""

from __future__ import annotations

from typing import Annotated, Any

import numpy as np

from ..groups import Groups
from ..params import REQUIRED
from .common import by_answer, winner
from .dare import distribution, weighing
from .method import Estimate, Method


def weighted_vote(groups: Groups, **weighting: Annotated[Any, distribution]) -> Estimate:
    """r = 1 for the rollouts whose answer has the greatest p^ (ties: first seen), else 0.

    With `exponent=0` this is the majority vote.
    """
    d = distribution(groups, **weighting)
    label_A = winner(groups, d.p_hat_A)
    return by_answer(
        groups,
        label_A.astype(np.float64),
        support={"uncertainty": d.uncertainty_A, "p_hat": d.p_hat_A},
        used_entropy_P=d.used_P,
        label_A=label_A,
        flags_P=d.flags_P,
        errors=d.errors,
    )


def _entry(name: str, summary: str, *, unverified: str, **defaults: Any) -> Method:
    return weighing(
        name,
        summary,
        defaults=defaults,
        function=weighted_vote,
        paper="arXiv:2601.21804, Eq. 10",
        evidence="ours",
        pays_one=True,
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
