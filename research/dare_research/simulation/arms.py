"""What is compared: every registered method that needs answers and mean entropies alone, and the study's controls."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dare_research.analysis.direction import normalised
from dare_reward.estimators.method import Method
from dare_reward.groups import Groups
from dare_reward.methods import methods
from dare_reward.scoring.score import pseudo_label
from dare_reward.segments import Bools, Floats

from .model import Sample, shuffled

GIVEN = {"answer", "mean_entropy"}
CONTROLS = {
    "truth": "reward 1 for right rollouts: the ceiling of any reward",
    "dare_shuffled": "dare with entropies permuted inside the group: what remains without entropy",
}


@dataclass(frozen=True, slots=True, eq=False)
class Opinion:
    """What a method says of a sample: rewards (None if its output is advantages), advantages, the picked answers."""

    rewards_R: Floats | None
    advantages_R: Floats
    label_A: Bools


def answer_methods() -> tuple[str, ...]:
    """Names of the registered methods that a group of answers with mean entropies is enough for."""
    return tuple(m.name for m in methods().values() if _eligible(m))


def _eligible(method: Method) -> bool:
    inputs = [set(entry.split("|")) for entry in method.requires]
    ready = not any(s.required for s in method.specs)
    return ready and {"answer"} in inputs and all(entry & GIVEN for entry in inputs)


def judge(name: str, sample: Sample, *, seed: int = 0) -> Opinion:
    """The method of that name, or a control, on the sample. Truth reaches `truth` alone."""
    groups = sample.groups
    if name == "truth":
        return Opinion(sample.correct_R, normalised(groups, sample.correct_R), sample.label_A == 0)
    if name == "dare_shuffled":
        return _run(methods()["dare"], shuffled(groups, np.random.default_rng(seed)))
    return _run(methods()[name], groups)


def _run(method: Method, groups: Groups) -> Opinion:
    found = method(groups)
    label_A = pseudo_label(groups, found)
    if method.output == "advantages":
        return Opinion(None, found.rewards_R, label_A)
    return Opinion(found.rewards_R, normalised(groups, found.rewards_R), label_A)
