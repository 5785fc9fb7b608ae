"""How often the preflight is right: scenarios drawn at random, trained in the model, and predicted from few prompts.

For each scenario the truth is the difference of final accuracy between dare and ttrl after training: better, worse, or
equal within MARGIN. Preflights on fresh prompts of the same scenario predict it. The rule of the preflight and the
level of its intervals are chosen on the first half of the scenarios and reported on the second.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

from dare_reward.analysis.bootstrap import Interval
from dare_reward.analysis.preflight import RULES, Rule, decide, preflight

from ..simulation.model import Scenario, draw_prompts, draw_sample
from ..simulation.tabular import Training, train

__all__ = [
    "ALLOWED",
    "LEVELS",
    "MARGIN",
    "CalibrationSize",
    "choose",
    "draw_scenario",
    "outcomes",
    "truth_of",
    "try_scenario",
    "wrong_and_decided",
]

MARGIN = 0.01
LEVELS = (0.8, 0.9, 0.95, 0.99)
ALLOWED = 0.05  # wrong among decided, on the half that the level is chosen on


@dataclass(frozen=True, slots=True)
class CalibrationSize:
    scenarios: int = 60
    repeats: int = 10
    sizes: tuple[int, ...] = (25, 50, 100)
    training: Training = field(default_factory=lambda: Training(prompts=1500, steps=40, lr=1.0))


def draw_scenario(index: int, *, seed: int) -> Scenario:
    rng = np.random.default_rng((seed, index))
    return Scenario(
        rho=round(float(rng.uniform(0, 0.5)), 3),
        delta=round(float(rng.uniform(-0.4, 0.7)), 3),
        confident=round(float(rng.uniform(0, 0.6)), 3) if rng.random() < 0.5 else 0.0,
        rollouts=int(rng.choice([16, 32, 64])),
    )


def try_scenario(index: int, settings: CalibrationSize, *, seed: int) -> dict[str, Any]:
    """The outcome of training, and the intervals of every preflight at every level."""
    scenario = draw_scenario(index, seed=seed)
    ends = {a: train(scenario, a, settings.training, seed=index).end[:, 0] for a in ("dare", "ttrl")}
    difference_P = ends["dare"] - ends["ttrl"]
    tries = []
    for size in settings.sizes:
        for repeat in range(settings.repeats):
            rng = np.random.default_rng((seed, index, size, repeat))
            sample = draw_sample(scenario, draw_prompts(scenario, size, rng), rng)
            found = [preflight(sample.groups, sample.correct_R, level=level, seed=repeat) for level in LEVELS]
            tries.append(
                {
                    "prompts": size,
                    "mixed": found[0].mixed,
                    "auroc": found[0].auroc.estimate,
                    "auroc_low": [f.auroc.low for f in found],
                    "auroc_high": [f.auroc.high for f in found],
                    "difference": found[0].difference.estimate,
                    "low": [f.difference.low for f in found],
                    "high": [f.difference.high for f in found],
                    "confident_wrong": found[0].confident_wrong.estimate,
                }
            )
    return {
        "scenario": asdict(scenario),
        "difference": float(difference_P.mean()),
        "difference_se": float(difference_P.std(ddof=1) / np.sqrt(len(difference_P))),
        "tries": tries,
    }


def truth_of(difference: float) -> str:
    return "better" if difference > MARGIN else "worse" if difference < -MARGIN else "equal"


def outcomes(
    results: Sequence[Mapping[str, Any]], *, rule: Rule, level: float, prompts: int
) -> dict[tuple[str, str], int]:
    """How often each verdict met each truth."""
    at = LEVELS.index(level)
    table: dict[tuple[str, str], int] = {}
    for result in results:
        truth = truth_of(result["difference"])
        for t in result["tries"]:
            if t["prompts"] != prompts:
                continue
            auroc = Interval(t["auroc"], t["auroc_low"][at], t["auroc_high"][at], t["mixed"])
            difference = Interval(t["difference"], t["low"][at], t["high"][at], t["prompts"])
            key = (decide(auroc, difference, rule=rule)[0], truth)
            table[key] = table.get(key, 0) + 1
    return table


def wrong_and_decided(table: Mapping[tuple[str, str], int]) -> tuple[int, int]:
    """`use` is wrong unless better, `do not use` is wrong if better: an equal method is not worth its cost."""
    better = ("do not use", "better")
    wrong = sum(n for (v, t), n in table.items() if (v == "use" and t != "better") or (v, t) == better)
    return wrong, sum(n for (v, _), n in table.items() if v != "undecided")


def choose(results: Sequence[Mapping[str, Any]], *, prompts: int = 50) -> tuple[Rule, float]:
    """The rule and level with the most decisions among those wrong in at most 5 per cent of them.

    The most cautious pair if none is.
    """
    best, most = (RULES[-1], LEVELS[-1]), 0
    for rule in RULES:
        for level in LEVELS:
            wrong, decided = wrong_and_decided(outcomes(results, rule=rule, level=level, prompts=prompts))
            if decided > most and wrong <= ALLOWED * decided:
                best, most = (rule, level), decided
    return best
