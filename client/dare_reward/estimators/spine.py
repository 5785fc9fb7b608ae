"""SPINE: TTRL's reward on forking tokens only, with an entropy band at them (arXiv:2511.17938). Experimental.

The reward is TTRL's. `token_mask` marks the tokens whose policy loss counts; the band [band_low, band_high] in the
diagnostics bounds the entropy at these tokens (hinge losses below and above it are the trainer's). Two versions:

    mask   top       the ceil(fraction T) tokens of a response with the highest entropy            v1
           otsu      entropy at or above Otsu's threshold of the response's 100-bin histogram      v2
    band   quantile  [10% quantile, median] of the group's masked entropies                        v1
           mad       [max(0, median - 1.4826 MAD), median]                                         v2
"""

from __future__ import annotations

from typing import Annotated, Literal

import numpy as np

from ..groups import Groups, Ragged
from ..params import Param
from ..segments import Bools, Floats, blocks, offsets, segment_quantiles
from .common import by_answer
from .method import Estimate, Method
from .ttrl import majority

BINS = 100
MAD_TO_SIGMA = 1.4826  # of a normal distribution


def spine(
    groups: Groups,
    *,
    mask: Annotated[
        Literal["top", "otsu"],
        Param(
            "forking tokens: the highest entropies, or above Otsu's threshold",
            source="v1; v2 from a reimplementation by others",
        ),
    ] = "top",
    fraction: Annotated[float, Param("share of the tokens for mask=top", gt=0, le=1, source="v1")] = 0.2,
    band: Annotated[Literal["quantile", "mad"], Param("entropy band at these tokens", source="v1; v2")] = "quantile",
    leave_one_out: Annotated[
        bool, Param("each rollout is judged by the vote of the others", source="optional in the paper")
    ] = False,
) -> Estimate:
    """TTRL rewards and the mask. Tokens that `token_mask` of the request leaves out are never marked."""
    label_A = majority(groups)
    rewards_R = _without_oneself(groups) if leave_one_out else groups.spread(label_A.astype(np.float64))
    entropy, own = groups.ragged("token_entropies"), groups.columns.get("token_mask")
    generated = groups.generated("token_entropies")
    chosen = _top(generated, fraction) if mask == "top" else _otsu(generated)
    low_P, high_P = _band(groups, generated, chosen, band)
    marked = chosen
    if isinstance(own, Ragged):
        inside = own.at_tokens_of(entropy)
        marked = np.zeros(len(entropy.values), bool)
        marked[inside] = chosen
    return by_answer(
        groups,
        label_A.astype(np.float64),
        rewards_R=rewards_R,
        label_A=label_A,
        token_mask=Ragged(marked, entropy.lengths),
        extra_P={"band_low": low_P, "band_high": high_P},
    )


def _without_oneself(groups: Groups) -> Floats:
    """1 if the rollout's answer wins the vote of the other rollouts (ties: first seen)."""
    votes_A = groups.votes_A
    position_A = np.arange(len(votes_A)) - offsets(groups.support_P)[:-1][groups.group_A]
    strength_A = votes_A * (len(votes_A) + 1.0) - position_A  # votes first, then the earlier answer
    best_A = groups.first_max(strength_A)
    second_P = groups.max_by_group(np.where(best_A, -np.inf, strength_A))
    best_P = groups.max_by_group(strength_A)
    rival_R = np.where(groups.spread(best_A, fill=False), second_P[groups.group_R], best_P[groups.group_R])
    own_R = groups.spread(strength_A) - (len(votes_A) + 1.0)
    return (groups.valid_R & (groups.spread(votes_A) > 1) & (own_R > rival_R)).astype(np.float64)


def _top(entropy: Ragged, fraction: float) -> Bools:
    """The ceil(fraction T) highest of each response; among equal ones the earlier."""
    out = np.zeros(len(entropy.values), bool)
    for rollouts, tokens in blocks(entropy.lengths):
        lengths = entropy.lengths[rollouts]
        owner = np.repeat(np.arange(len(lengths)), lengths)
        order = np.lexsort((-entropy.values[tokens].astype(np.float64), owner))
        rank = np.empty(len(order), np.int64)
        rank[order] = np.arange(len(order)) - np.repeat(offsets(lengths)[:-1], lengths)
        out[tokens] = rank < np.ceil(fraction * lengths)[owner]
    return out


def _otsu(entropy: Ragged) -> Bools:
    """At or above the threshold that parts each response's histogram with the greatest variance between the classes."""
    lengths = entropy.lengths
    owner = np.repeat(np.arange(len(lengths)), lengths)
    low_R, high_R = np.full(len(lengths), np.inf), np.full(len(lengths), -np.inf)
    np.minimum.at(low_R, owner, entropy.values)
    np.maximum.at(high_R, owner, entropy.values)
    width_R = np.where(high_R > low_R, (high_R - low_R) / BINS, 1.0)
    place = np.minimum(((entropy.values - low_R[owner]) / width_R[owner]).astype(np.int64), BINS - 1)
    count = np.bincount(owner * BINS + place, minlength=len(lengths) * BINS).reshape(len(lengths), BINS)
    below = np.cumsum(count, axis=1)
    moment = np.cumsum(count * np.arange(BINS), axis=1)
    above, rest = lengths[:, None] - below, moment[:, -1:] - moment
    with np.errstate(divide="ignore", invalid="ignore"):
        between = below * above * (moment / below - rest / above) ** 2
    cut_R = np.argmax(np.nan_to_num(between, nan=-1.0), axis=1)
    flat = high_R[owner] <= low_R[owner]
    chosen: Bools = (place > cut_R[owner]) | flat
    return chosen


def _band(groups: Groups, entropy: Ragged, chosen_T: Bools, form: str) -> tuple[Floats, Floats]:
    """Lower and upper end for each group, over the chosen tokens of all its rollouts."""
    picked = entropy.values[chosen_T].astype(np.float64)
    owner_T = np.repeat(groups.group_R, entropy.lengths)
    lengths_P = np.bincount(owner_T, chosen_T, minlength=len(groups.sizes_P)).astype(np.int64)
    median_P = segment_quantiles(picked, lengths_P, 0.5)
    if form == "quantile":
        return segment_quantiles(picked, lengths_P, 0.1), median_P
    deviation = segment_quantiles(np.abs(picked - np.repeat(median_P, lengths_P)), lengths_P, 0.5)
    return np.maximum(median_P - MAD_TO_SIGMA * deviation, 0.0), median_P


METHODS = (
    Method(
        name="spine",
        function=spine,
        summary="TTRL's reward, with a mask of forking tokens and an entropy band",
        paper="arXiv:2511.17938",
        evidence="experimental",
        requires=("answer", "token_entropies"),
        masks=True,
        cost="one entropy per token, as arrays",
        unverified="the authors' code; over what the band's quantiles run; v2 from a reimplementation by others",
    ),
)
