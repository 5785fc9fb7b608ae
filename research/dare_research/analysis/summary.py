"""Every measure of one set of labelled groups, as plain numbers: what `dare-reward analyse` prints."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import asdict
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dare_research.analysis.truth import mode_answers, share_right
from dare_reward.analysis.auroc import entropy_auroc
from dare_reward.analysis.bootstrap import Interval, mean_interval
from dare_reward.analysis.passk import majority_at_k, pass_at_k_interval, powers
from dare_reward.analysis.truth import known_groups, right_answers
from dare_reward.groups import Groups
from dare_reward.methods import find
from dare_reward.segments import Bools, Floats, offsets

from .bias import estimator_error, mv_bias
from .correlation import latent_correlation, marginal_consistency
from .direction import direction_gain, normalised
from .information import mutual_information
from .overlap import mean_overlap

Numbers = dict[str, Any]
NO_PARAMS: Mapping[str, Any] = MappingProxyType({})


def summarise(
    groups: Groups,
    correct_R: Floats,
    *,
    methods: Sequence[str] | Mapping[str, Mapping[str, Any]],
    prompts: Sequence[Hashable | None] = (),
    token_ids: Sequence[Sequence[NDArray[Any]]] = (),
    seed: int = 0,
) -> Numbers:
    """Measures by section. Groups with unknown truth count in `data` only; intervals are 95% over prompts.

    methods    names, or names with their parameters
    prompts    what the group answers, to find several groups of one prompt
    token_ids  token ids of each rollout of each group
    """
    known_P = known_groups(groups, correct_R)
    chosen = methods if isinstance(methods, Mapping) else dict.fromkeys(methods, NO_PARAMS)
    out: Numbers = {
        "data": {
            "groups": len(groups.sizes_P),
            "labelled": int(known_P.sum()),
            "rollouts": len(groups.answer_R),
            "answered": float(groups.valid_R.mean()) if len(groups.valid_R) else np.nan,
            "distinct_answers_median": float(np.median(groups.support_P)) if len(groups.support_P) else np.nan,
        },
        "accuracy": _accuracy(groups, correct_R, known_P, seed),
        "majority": {k: asdict(v) for k, v in _majority(groups, correct_R, seed).items()},
        "entropy": asdict(entropy_auroc(groups, correct_R, seed=seed)),
        "methods": {
            name: summarise_method(groups, correct_R, name, seed=seed, params=params) for name, params in chosen.items()
        },
    }
    repeated = same_prompt(groups, prompts)
    if repeated:
        out["correlation"] = {
            "prompts": len(repeated),
            "latent_correlation": latent_correlation(repeated),
            **asdict(marginal_consistency(repeated)),
        }
    if overlap := mean_overlap(token_ids):
        out["overlap"] = overlap
    return out


def summarise_method(
    groups: Groups, correct_R: Floats, name: str, *, seed: int = 0, params: Mapping[str, Any] = NO_PARAMS
) -> Numbers:
    """One method's rewards against the truth; groups that it cannot score are left out and counted."""
    found = find(name)(groups, **params)
    failed_P = np.zeros(len(groups.sizes_P), bool)
    failed_P[list(found.errors)] = True
    truth_R = np.where(failed_P[groups.group_R], np.nan, correct_R)
    known_R = known_groups(groups, truth_R)[groups.group_R]
    rewards = find(name).output == "rewards"
    advantages_R = normalised(groups, found.rewards_R) if rewards else found.rewards_R
    gain = mean_interval(direction_gain(groups, advantages_R, truth_R), seed=seed)
    out: Numbers = {"scored": int(known_groups(groups, truth_R).sum()), "failed": int(failed_P.sum())}
    if rewards:
        out |= asdict(estimator_error(groups, found.rewards_R, truth_R, advantages_R))
        out["information"] = asdict(mutual_information(truth_R[known_R], found.rewards_R[known_R]))
    rounded = np.round(advantages_R[known_R], 9)  # what differs by rounding is one value
    out["information_advantage"] = asdict(mutual_information(truth_R[known_R], rounded))
    return {**out, "direction_gain": asdict(gain)}


def same_prompt(groups: Groups, prompts: Sequence[Hashable | None]) -> list[list[list[str | None]]]:
    """The answers of the groups of each prompt that has several."""
    starts = offsets(groups.sizes_P).tolist()
    by_prompt: dict[Hashable, list[list[str | None]]] = {}
    for p, prompt in enumerate(prompts):
        if prompt is not None:
            index = groups.answer_R[starts[p] : starts[p + 1]].tolist()
            by_prompt.setdefault(prompt, []).append([groups.text_A[a] if a >= 0 else None for a in index])
    return [found for found in by_prompt.values() if len(found) > 1]


def _accuracy(groups: Groups, correct_R: Floats, known_P: Bools, seed: int) -> Numbers:
    sizes = groups.sizes_P[known_P]
    right = groups.sum_rollouts(np.nan_to_num(correct_R))[known_P]
    ks = powers(int(sizes.min())) if len(sizes) else []
    return {
        "pass": {str(k): asdict(pass_at_k_interval(sizes, right.astype(np.int64), k, seed=seed)) for k in ks},
        "majority": {str(k): asdict(mean_interval(majority_at_k(groups, correct_R, k), seed=seed)) for k in ks},
    }


def _majority(groups: Groups, correct_R: Floats, seed: int) -> Mapping[str, Interval]:
    """Biases of the vote, how large it is, and how often the right answer is there without winning."""
    bias = mv_bias(groups, correct_R, seed=seed)
    mode_A = mode_answers(groups)
    right_A = right_answers(groups, correct_R) > 0.5
    won_P = groups.sum_by_group(mode_A & right_A) > 0
    share_P = groups.sum_by_group(groups.votes_A * mode_A) / np.maximum(groups.sizes_P, 1)
    minority_P = (~won_P & (groups.sum_by_group(right_A) > 0)).astype(np.float64)
    known = ~np.isnan(share_right(groups, correct_R))
    return {
        "agreement_bias": bias.agreement,
        "mode_bias": bias.mode,
        "majority_ratio": mean_interval(np.where(known, share_P, np.nan), seed=seed),
        "right_in_minority": mean_interval(np.where(known, minority_P, np.nan), seed=seed),
    }
