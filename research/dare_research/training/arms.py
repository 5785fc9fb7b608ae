"""The arms of the training study: what each is scored by, and what it is told of its rollouts."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from random import Random
from types import MappingProxyType
from typing import Any, Final

import numpy as np

from dare_reward.errors import RequestError
from dare_reward.methods import find

from .sampling import SampledRollout

__all__ = ["ARMS", "DEFAULT", "FULL", "Arm", "chosen_params"]

Fields = list[dict[str, Any]]
Tell = Callable[[Sequence[SampledRollout], Random], Fields]


def entropies(group: Sequence[SampledRollout], _: Random) -> Fields:
    return [{"token_entropies": c.entropies} for c in group]


def shuffled(group: Sequence[SampledRollout], random: Random) -> Fields:
    """The entropies of the group, dealt out to other rollouts: what they say of correctness is destroyed."""
    means = [float(c.entropies.mean()) for c in group]
    random.shuffle(means)
    return [{"mean_entropy": h} for h in means]


def lengths(group: Sequence[SampledRollout], _: Random) -> Fields:
    """Length as uncertainty, scaled to the mean entropy of the group."""
    length = np.array([len(c.ids) for c in group], np.float64)
    scale = np.mean([c.entropies.mean() for c in group]) / length.mean()
    return [{"mean_entropy": float(x)} for x in length * scale]


def certainties(group: Sequence[SampledRollout], _: Random) -> Fields:
    return [{"token_self_certainty": c.certainties} for c in group]


@dataclass(frozen=True, slots=True)
class Arm:
    """`method` with `params` through the service; or `local`, a reward that needs no service (a placebo).

    loss   TRL's loss_type; dr_grpo goes without division by the group's standard deviation
    """

    name: str
    method: str = ""
    params: Mapping[str, Any] = field(default_factory=dict)
    tell: Tell = entropies
    local: Callable[[str, Random], float] | None = None
    loss: str = "dapo"


def _box(text: str, _: Random) -> float:
    return float("\\boxed{" in text and text.endswith("}"))


def _coin(_: str, random: Random) -> float:
    return float(random.random() < 0.5)


def _registered(*names: str) -> tuple[Arm, ...]:
    return tuple(Arm(n, n) for n in names)


_ALL: Final = (
    *_registered("ttrl", "weighted_vote", "empo", "dare_dist", "dare", "dare_dist_bonus", "dare_dist_prune"),
    *_registered("dare_sqrt", "dare_robust", "scrl", "rent", "gt"),
    Arm("dare_shuffled", "dare", tell=shuffled),
    Arm("dare_length", "dare", tell=lengths),
    Arm("dare_plus", "dare_plus", {"allow_experimental": True}),
    Arm("intuitor", "intuitor", {"sent": "kl"}, tell=certainties),
    Arm("random", local=_coin),
    Arm("format", local=_box),
    Arm("ttrl_dr_grpo", "ttrl", loss="dr_grpo"),
    Arm("dare_dr_grpo", "dare", loss="dr_grpo"),
)
ARMS: Final[Mapping[str, Arm]] = MappingProxyType({a.name: a for a in _ALL})
# The 2 x 2 of hard or soft label by with or without entropy; dare; and its twin whose entropies say nothing.
DEFAULT: Final = ("dare", "ttrl", "dare_shuffled", "weighted_vote", "empo", "dare_dist")
FULL: Final = tuple(ARMS)


def chosen_params(arm: Arm, given: Mapping[str, str]) -> dict[str, Any]:
    """The given method parameters, typed and checked by the method's own declarations, or RequestError.

    Only the method's: what answers are read by is one for the whole study.
    """
    if not given:
        return {}
    if arm.local is not None:
        raise RequestError(
            f"arm {arm.name}: no parameter {', '.join(given)}, its reward asks no service", code="unknown_parameter"
        )
    method = find(arm.method)
    known = {s.name: s for s in method.specs}
    try:
        values = {n: known[n].parse(text) if n in known else text for n, text in given.items()}
        method.resolve(values)
    except RequestError as error:
        raise RequestError(f"arm {arm.name}: {error.message}", code=error.code) from None
    return values
