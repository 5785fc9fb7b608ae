"""Probability of a reference answer after the reasoning: RLPR (arXiv:2506.18254), VeriFree (arXiv:2505.21493).

`ref_token_probs` are p(y*_t | x, z_i, y*_<t) for the tokens of the reference answer y*, with z_i the reasoning of
rollout i; examples/reference_probability.py computes them with vLLM. A rollout without an answer has no place for y*
and gets no credit.
"""

from __future__ import annotations

from typing import Annotated, Literal

import numpy as np

from ..groups import Groups
from ..params import Param
from ..segments import Bools, segment_means, segment_sums
from .common import by_rollout
from .method import Estimate, Method, When

Missing = Annotated[
    Literal["error", "pseudo"],
    Param(
        "a group without `reference` is an error, or its probabilities count for the majority answer, with a flag",
        source="ours",
    ),
]


def rlpr(
    groups: Groups,
    *,
    format_coefficient: Annotated[
        float, Param("c, weight of the format score", ge=0, le=1, source="official code")
    ] = 0.1,
    missing_reference: Missing = "error",
) -> Estimate:
    """r = (1 - c) max(0, mean_t p(y*_t | x, z) - mean_t p(y*_t | x)) + c format, of probabilities, not logs."""
    probs = groups.ragged("ref_token_probs")
    mean_R = segment_means(probs.values, probs.lengths)
    gain_R = np.maximum(mean_R - groups.column("base_ref_mean_prob"), 0.0)
    format_R = np.nan_to_num(groups.column("format"), nan=0.0)
    credit_R = np.where(groups.valid_R, np.nan_to_num(gain_R, nan=0.0), 0.0)
    rewards_R = (1 - format_coefficient) * credit_R + format_coefficient * format_R
    return by_rollout(groups, rewards_R, flags_P={"pseudo_reference": _pseudo(groups)})


def verifree(groups: Groups, *, missing_reference: Missing = "error") -> Estimate:
    """r = prod_t p(y*_t | x, z, y*_<t), the reference answer's probability; also the weight of the SFT loss."""
    probs = groups.ragged("ref_token_probs")
    with np.errstate(divide="ignore"):
        total_R = segment_sums(np.log(probs.values.astype(np.float64)), probs.lengths)
    rewards_R = np.where(groups.valid_R & (probs.lengths > 0), np.exp(total_R), 0.0)
    return by_rollout(groups, rewards_R, flags_P={"pseudo_reference": _pseudo(groups)})


def _pseudo(groups: Groups) -> Bools:
    return np.isnan(groups.column_P("reference"))


REFERENCE = When("reference", "missing_reference=error", lambda p: p["missing_reference"] == "error")

METHODS = (
    Method(
        name="rlpr",
        function=rlpr,
        summary="gain in the mean token probability of the reference answer",
        paper="arXiv:2506.18254",
        evidence="verified against official code",
        requires=("answer", "ref_token_probs", "base_ref_mean_prob"),
        when=(REFERENCE, When("format", "format_coefficient > 0", lambda p: p["format_coefficient"] > 0)),
        cost="a reference answer; one scoring pass per rollout",
        unverified="the official bfloat16 rounding is not reproduced; the stateful prompt filter is the trainer's",
    ),
    Method(
        name="verifree",
        function=verifree,
        summary="probability of the reference answer",
        paper="arXiv:2505.21493",
        evidence="verified against official code",
        requires=("answer", "ref_token_probs"),
        when=(REFERENCE,),
        cost="a reference answer; one scoring pass per rollout",
    ),
)
