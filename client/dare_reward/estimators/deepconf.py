"""DeepConf: votes weighted by trace confidence, among the most confident traces (arXiv:2508.15260)."""

from __future__ import annotations

from typing import Annotated, Literal

import numpy as np

from ..groups import Groups
from ..params import Param
from ..segments import segment_quantiles
from .common import by_answer, winner
from .method import Estimate, Method
from .trace_confidence import Trace, narrow_groups, token_confidence, window_confidence


def deepconf(
    groups: Groups,
    *,
    trace: Annotated[
        Trace,
        Param(
            "trace confidence: the mean of the lowest windows, the lowest window, the last tokens, or all tokens",
            source="official code",
        ),
    ] = "bottom_window",
    keep: Annotated[
        float,
        Param(
            "share of the traces with an answer that vote, the most confident", gt=0, le=1, source="official code: 0.1"
        ),
    ] = 0.1,
    reward: Annotated[
        Literal["winner", "share"],
        Param(
            "1 for the weighted winner, or its share of the weights", source="ours: the paper votes, it does not train"
        ),
    ] = "winner",
    window: Annotated[int, Param("tokens of a sliding window", ge=1, source="official code")] = 2048,
    tail: Annotated[int, Param("tokens of trace=tail", ge=1, source="official code")] = 2048,
    bottom: Annotated[
        float, Param("share of the windows that count for bottom_window", gt=0, le=1, source="official code")
    ] = 0.1,
    rounded: Annotated[bool, Param("token confidences to three digits", source="official code")] = True,
) -> Estimate:
    """Weights are the confidences c of the kept traces; the winner has the greatest sum (ties: first seen).

    Kept are the traces with c at or above the (1 - keep)-quantile of those with an answer. Rollouts that do not vote
    are rewarded like the others. `confidence` is taken as given where `topk_logprobs` are not sent.
    """
    topk = groups.generated("topk_logprobs")
    confidence_T = token_confidence(topk, rounded=rounded)
    made_R = window_confidence(confidence_T, topk.lengths, kind=trace, window=window, tail=tail, bottom=bottom)
    weight_R = np.nan_to_num(np.where(topk.lengths > 0, made_R, groups.column("confidence")), nan=0.0)
    valid_P = groups.sum_rollouts(groups.valid_R).astype(np.int64)
    least_P = np.nan_to_num(segment_quantiles(weight_R[groups.valid_R], valid_P, 1 - keep), nan=0.0)
    votes_R = groups.valid_R & (weight_R >= least_P[groups.group_R])
    share_A = groups.share(groups.sum_by_answer(weight_R * votes_R))
    label_A = winner(groups, share_A)
    return by_answer(
        groups,
        label_A.astype(np.float64) if reward == "winner" else share_A,
        keep_R=votes_R,
        support={"p_hat": share_A, "kept": groups.sum_by_answer(votes_R) > 0},
        label_A=label_A,
        errors=narrow_groups(groups, topk),
    )


METHODS = (
    Method(
        name="deepconf",
        function=deepconf,
        summary="majority vote of the most confident traces, weighted by their confidence",
        paper="arXiv:2508.15260",
        evidence="verified against official code",
        requires=("answer", "confidence|topk_logprobs"),
        pays_one=True,
        cost="top-k log-probabilities (k >= 2) of each token, which engines return",
        unverified="as a reward: the paper uses it to answer, not to train",
    ),
)
