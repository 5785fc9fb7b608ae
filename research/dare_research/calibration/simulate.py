"""How safe `dare-reward calibrate` is: projects that label a few prompts of a policy and use the exponent on others.

A project draws labelled prompts and further prompts of one scenario of the latent-variable model, fits the exponent on
the labelled ones, and counts on the others how many labels are right by it, by the vote and by fixed exponents.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from dare_reward.analysis.calibrate import GRID, VOTE, fit_exponent
from dare_reward.analysis.labels import right_answers
from dare_reward.methods import find
from dare_reward.segments import Floats

from ..simulation.model import Scenario, draw_prompts, draw_sample

__all__ = ["LOSS", "REGIMES", "SEEDS", "ProjectSize", "project", "regime"]

LOSS = 0.005  # below the vote by more than this is worse
# Gate, prior and veto were chosen on `development`; the page reports `report`.
SEEDS = {"development": 1, "report": 2}


@dataclass(frozen=True, slots=True)
class ProjectSize:
    projects: int = 400
    labels: tuple[int, ...] = (16, 32, 50, 100)
    evaluated: int = 256


def _fixed(auroc: float, delta: float) -> tuple[str, Scenario]:
    return f"AUROC {auroc:.2f}", Scenario(delta=delta)


# delta = sqrt(2 (.2^2 + .35^2) + spread^2) Phi^-1(AUROC)
REGIMES: Mapping[str, Scenario] = {
    **dict(
        [
            _fixed(0.30, -0.299),
            _fixed(0.40, -0.144),
            _fixed(0.50, 0.0),
            _fixed(0.55, 0.072),
            _fixed(0.57, 0.101),
            _fixed(0.60, 0.144),
            _fixed(0.65, 0.220),
            _fixed(0.70, 0.299),
            _fixed(0.85, 0.591),
        ]
    ),
    "direction varies by prompt, mean AUROC 0.53": Scenario(delta=0.057, spread=0.5),
    "direction varies by prompt, mean AUROC 0.60": Scenario(delta=0.192, spread=0.5),
    "entropy follows the vote, weakly": Scenario(delta=0.144, follows=True),
    "entropy follows the vote, strongly": Scenario(delta=0.591, follows=True),
    "entropy follows the vote, reversed": Scenario(delta=-0.299, follows=True),
}


def project(scenario: Scenario, *, seed: tuple[int, ...], labels: tuple[int, ...], evaluated: int) -> dict[str, Any]:
    """The exponent by number of labels, and label accuracy on other prompts by exponent of the grid."""
    rng = np.random.default_rng(seed)
    own = draw_sample(scenario, draw_prompts(scenario, max(labels), rng), rng)
    other = draw_sample(scenario, draw_prompts(scenario, evaluated, rng), rng)
    chosen = []
    for count in labels:  # the first prompts: more labels are the same ones and further ones
        known_R = np.where(own.groups.group_R < count, own.correct_R, np.nan)
        chosen.append(fit_exponent(own.groups, known_R))
    right_A = right_answers(other.groups, other.correct_R)
    found = [find("calibrated_vote")(other.groups, exponent=b).label_A for b in GRID]
    return {
        "chosen": chosen,
        "accuracy": [float((right_A * label_A).sum() / evaluated) for label_A in found if label_A is not None],
    }


def regime(name: str, size: ProjectSize, *, seed: int) -> dict[str, Any]:
    """All projects of a regime: change of label accuracy against the vote."""
    at = list(REGIMES).index(name)
    found = [
        project(REGIMES[name], seed=(seed, at, i), labels=size.labels, evaluated=size.evaluated)
        for i in range(size.projects)
    ]
    accuracy = np.array([f["accuracy"] for f in found])
    above = accuracy - accuracy[:, VOTE, None]
    chosen = np.array([np.searchsorted(GRID, f["chosen"]) for f in found])
    return {
        "regime": name,
        "vote": float(accuracy[:, VOTE].mean()),
        "dare": _spread(above[:, GRID.index(1.0)]),
        "strongest": _spread(above[:, GRID.index(4.0)]),
        "best": float(above.mean(axis=0).max()),
        "calibrated": [
            {"labels": n, **_spread(above[np.arange(len(above)), chosen[:, k]]), "vote": _share(chosen[:, k] == VOTE)}
            for k, n in enumerate(size.labels)
        ],
    }


def _spread(gain: Floats) -> dict[str, float]:
    low, high = np.quantile(gain, [0.025, 0.975])
    return {"mean": float(gain.mean()), "low": float(low), "high": float(high), "worse": _share(gain < -LOSS)}


def _share(at: Any) -> float:
    return float(np.mean(at))
