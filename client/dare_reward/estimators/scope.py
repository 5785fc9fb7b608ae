"""SCOPE: labels for subgroups of the rollouts, by confidence-weighted votes of random draws (arXiv:2512.15146).

For a subgroup size g, the M rollouts are cut into blocks of g consecutive ones. For each block `drawn_share` of the M
rollouts are drawn without replacement; the block's label is the answer with the greatest sum of confidence among the
drawn, and r_i = 1[a_i = label of i's block]. Of g = 1, 2, 4, ..., M the one is taken that lies nearest to the ideal
point among the Pareto-optimal pairs (mean reward, number of distinct labels), both scaled to [0, 1], at the distance
sqrt(lam (1 - reward)^2 + (1 - lam) (1 - diversity)^2); then labels are drawn anew.

Deviations from the official code, which chooses g for the whole batch, draws without a seed, pairs confidences with
answers after leaving out missing answers (so they are misaligned), and asks the engine for the sampled token's
log-probability only (so its "confidence" is surprisal): here g is chosen per prompt unless `choose=batch`, draws follow
`seed`, confidences belong to their rollouts, and k >= 2 is required. Ties: the answer first seen in the group.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Annotated, Any, Literal

import numpy as np
from numpy.typing import NDArray

from ..groups import Groups, Ragged
from ..params import Param
from ..segments import Floats, Ints, offsets
from .common import by_rollout, winner
from .method import Estimate, Method, When
from .trace_confidence import generated_ends, narrow_groups, step_confidence, token_confidence


def scope(
    groups: Groups,
    *,
    choose: Annotated[
        Literal["prompt", "batch"],
        Param(
            "the subgroup size is chosen per prompt, or for the whole request, which makes groups depend on each other",
            source="ours; official code: batch",
        ),
    ] = "prompt",
    drawn_share: Annotated[
        float,
        Param("share of the rollouts that are drawn for each label", gt=0, le=1, source="official script: 32 of 64"),
    ] = 0.5,
    pareto_lam: Annotated[
        float, Param("weight of the mean reward against diversity", ge=0, le=1, source="official script")
    ] = 0.7,
    steps: Annotated[
        Literal["given", "whole"],
        Param(
            "confidence is averaged per step by step_ends, or over the whole trace",
            source="official code: steps end in a blank line",
        ),
    ] = "given",
    rounded: Annotated[bool, Param("token confidences to three digits", source="official code")] = True,
    seed: Annotated[
        int,
        Param(
            "of the draws, the same for every group", ge=0, lt=2**63, source="ours: the official code draws unseeded"
        ),
    ] = 0,
) -> Estimate:
    """Rewards 0 or 1. The pseudo-label is the label of most rollouts; `subgroup_size` is in the diagnostics."""
    topk = groups.generated("topk_logprobs")
    none = Ragged(np.zeros(0, np.int64), np.zeros(len(topk.lengths), np.int64))
    ends = generated_ends(groups) if steps == "given" else none
    made_R = step_confidence(token_confidence(topk, rounded=rounded), topk.lengths, ends)
    weight_R = np.nan_to_num(np.where(topk.lengths > 0, made_R, groups.column("confidence")), nan=0.0)
    cuts = offsets(groups.sizes_P)[1:-1]
    columns = (np.split(groups.answer_R, cuts), np.split(weight_R, cuts), offsets(groups.support_P)[:-1].tolist())
    parts = (
        [_Part(*row) for row in zip(*columns, groups.support_P.tolist(), strict=True)] if len(groups.sizes_P) else []
    )
    measured = [_measure(part, drawn_share, seed) for part in parts]
    size_P = _sizes(measured, pareto_lam, choose)
    label_R = []
    for part, size in zip(parts, size_P.tolist(), strict=True):
        drawn = _draws(len(part.answer_M), drawn_share, seed)[1][size.bit_length() - 1]
        found = _labels(part, drawn, size)
        label_R.append(np.where(found >= 0, found + part.first, -1))
    label = np.concatenate([np.zeros(0, np.int64), *label_R])
    rewards_R = ((label == groups.answer_R) & groups.valid_R).astype(np.float64)
    count_A = np.bincount(label[label >= 0], minlength=len(groups.text_A)).astype(np.float64)
    return by_rollout(
        groups,
        rewards_R,
        support={"p_hat": groups.share(groups.sum_by_answer(weight_R))},
        label_A=winner(groups, count_A),
        errors=narrow_groups(groups, topk),
        extra_P={"subgroup_size": size_P.astype(np.float64)},
    )


Drawn = NDArray[np.unsignedinteger[Any]]  # the rollouts that are drawn for each block: [blocks, number]


@dataclass(frozen=True, slots=True, eq=False)
class _Part:
    """One group: answer and weight of each rollout, the index of its first answer, and how many it has."""

    answer_M: Ints
    weight_M: Floats
    first: int
    answers: int


def _candidates(rollouts: int) -> list[int]:
    return [1 << i for i in range(rollouts.bit_length())]


@lru_cache(maxsize=4)  # of groups of 1,024 one takes 8 MiB
def _draws(rollouts: int, share: float, seed: int) -> tuple[tuple[Drawn, ...], tuple[Drawn, ...]]:
    """For each subgroup size the draws of its blocks: once to measure, once to label."""
    rng = np.random.default_rng([seed, rollouts])
    number = max(round(share * rollouts), 1)
    narrow = np.min_scalar_type(rollouts)

    def draw(size: int) -> Drawn:
        blocks = -(-rollouts // size)
        order = np.tile(np.arange(rollouts, dtype=narrow), (blocks, 1))
        rng.permuted(order, axis=1, out=order)
        drawn = [np.flatnonzero(row < number).astype(narrow) for row in order]
        return np.array(drawn, narrow)

    sizes = _candidates(rollouts)
    return tuple(draw(s) for s in sizes), tuple(draw(s) for s in sizes)


def _labels(part: _Part, drawn: Drawn, size: int) -> Ints:
    """The label of each rollout as an answer's index in its group, -1 for none."""
    if not part.answers:
        return np.full(len(part.answer_M), -1)
    blocks, number = drawn.shape
    answer = part.answer_M[drawn.ravel()]
    place = np.repeat(np.arange(blocks) * part.answers - part.first, number) + answer
    answered = answer >= 0
    weights = part.weight_M[drawn.ravel()]
    flat = np.bincount(place[answered], weights[answered], minlength=blocks * part.answers)
    sums_BK = flat.reshape(blocks, part.answers)
    label_B = np.where(sums_BK.max(axis=1) > 0, sums_BK.argmax(axis=1), -1)
    return np.repeat(label_B, size)[: len(part.answer_M)]


def _measure(part: _Part, share: float, seed: int) -> Floats:
    """Mean reward and number of distinct labels for each subgroup size: shape [G, 2]."""
    rollouts = len(part.answer_M)
    rows = []
    for size, drawn in zip(_candidates(rollouts), _draws(rollouts, share, seed)[0], strict=True):
        label = _labels(part, drawn, size)
        hit = (label >= 0) & (label + part.first == part.answer_M)
        rows.append((hit.mean(), len(set(label.tolist()))))
    return np.array(rows, np.float64)


def _sizes(measured: list[Floats], lam: float, choose: str) -> Ints:
    if choose == "prompt" or not measured:
        return np.array([1 << _nearest(m, lam) for m in measured], np.int64)
    common = min(len(m) for m in measured)
    mean = np.mean([m[:common] for m in measured], axis=0)
    return np.full(len(measured), 1 << _nearest(mean, lam), np.int64)


def _nearest(points: Floats, lam: float) -> int:
    """Index of the Pareto-optimal point nearest to the ideal one; ties: the smallest subgroups."""
    above, below = points[None] > points[:, None], points[None] < points[:, None]
    better = np.any(above, axis=2) & ~np.any(below, axis=2)
    front = np.flatnonzero(~better.any(axis=1))
    low, high = points[front].min(axis=0), points[front].max(axis=0)
    scaled = (points[front] - low) / (high - low + 1e-8)
    distance = np.sqrt(lam * (1 - scaled[:, 0]) ** 2 + (1 - lam) * (1 - scaled[:, 1]) ** 2)
    return int(front[np.argmin(distance)])


METHODS = (
    Method(
        name="scope",
        function=scope,
        summary="a label for each subgroup of rollouts, from confidence-weighted votes of random draws",
        paper="arXiv:2512.15146",
        evidence="verified against official code",
        requires=("answer", "confidence|topk_logprobs"),
        when=(When("confidence|step_ends", "steps=given", lambda p: p["steps"] == "given"),),
        cost="top-k log-probabilities (k >= 2) of each token and where steps end",
        unverified="per-prompt choice of the subgroup size is ours; the official choice is choose=batch",
    ),
)
