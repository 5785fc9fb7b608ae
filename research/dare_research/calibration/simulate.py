"""How safe `dare-reward calibrate` is: projects that label a few prompts of a policy and use the exponent on others.

A project draws labelled prompts and further prompts of one scenario of the latent-variable model, fits the exponent on
the labelled ones, and counts on the others how many labels are right by it, by the vote and by fixed exponents.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from dare_reward.analysis.calibrate import (
    CHOSEN,
    LABELS,
    Evidence,
    bars,
    choose,
    evidence,
    tables,
)
from dare_reward.analysis.certainty import ENTROPY, GRID, VOTE
from dare_reward.analysis.label_choice import information, most
from dare_reward.groups import Groups
from dare_reward.segments import Bools, Floats

from ..simulation.model import Sample, Scenario, draw_prompts, draw_sample, drawn_entropies

LOSS = 0.005  # below the vote by more than this is worse
BATCH, SEVERAL = 8, 3
EACH_BATCH, BY_INFORMATION, OF_SEVERAL = (
    "a look every 8 labels, 32 to 100",
    "16 chosen labels",
    "32, best of 3 certainties",
)
WAYS = (EACH_BATCH, BY_INFORMATION, OF_SEVERAL)
# Gate and prior were chosen on `development`; the page reports `report`.
SEEDS = {"development": 1, "report": 2}


@dataclass(frozen=True, slots=True)
class ProjectSize:
    projects: int = 400
    labels: tuple[int, ...] = (32, 50, 100)
    evaluated: int = 256
    looked: int = 2000  # projects of a null that look every BATCH labels, up to the last of `looks`
    looks: tuple[int, ...] = (32, 100, 200)


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


NULLS = (
    "AUROC 0.50",
    "direction varies by prompt, mean AUROC 0.53",
    "entropy follows the vote, weakly",
)  # no exponent gains anything here


def project(scenario: Scenario, *, seed: tuple[int, ...], labels: tuple[int, ...], evaluated: int) -> dict[str, Any]:
    """The exponent by number of labels and by other ways to label, and label accuracy on other prompts by exponent."""
    rng = np.random.default_rng(seed)
    prompts = [draw_prompts(scenario, count, rng) for count in (max(labels), evaluated)]
    own, other = (draw_sample(scenario, drawn, rng) for drawn in prompts)
    own_e, other_e = (_evidence(sample, sample.groups) for sample in (own, other))
    found = {n: _chosen(own_e, np.arange(max(labels)) < n) for n in labels}  # more labels are these and further ones
    looks = [_chosen(own_e, np.arange(max(labels)) < n) for n in range(LABELS, max(labels) + 1, BATCH)]
    picked_P = most(information(own.groups), CHOSEN)
    accuracy = other_e.right_PB.mean(axis=0)
    return {
        "chosen": list(found.values()),
        "accuracy": accuracy.tolist(),
        "ways": {
            EACH_BATCH: _gain(accuracy, next((b for b in looks if b), 0.0)),
            BY_INFORMATION: _gain(accuracy, _chosen(own_e, picked_P, chosen=True)),
            OF_SEVERAL: _of_several(scenario, (own, other), (own_e, other_e), rng),
        },
    }


def _evidence(sample: Sample, groups: Groups) -> Evidence:
    return evidence(groups, sample.correct_R, tables(groups, ENTROPY))


def _chosen(e: Evidence, labelled_P: Bools, *, tried: int = 1, chosen: bool = False) -> float:
    """The exponent that these labels choose."""
    to_pass = bars(int(labelled_P.sum()), int((e.mixed_P & labelled_P).sum()), tried=tried, chosen=chosen)
    sums = e.sums(labelled_P[None].astype(np.float64))
    return float(choose(e, sums, to_pass).exponent_S[0])


def _gain(accuracy_B: Floats, exponent: float) -> tuple[float, bool]:
    """Change of label accuracy, and whether the vote was left."""
    return float(accuracy_B[GRID.index(exponent)] - accuracy_B[VOTE]), bool(exponent)


def _of_several(
    scenario: Scenario, samples: Sequence[Sample], first: Sequence[Evidence], rng: np.random.Generator
) -> tuple[float, bool]:
    """LABELS labels, and SEVERAL certainties drawn independently for the same answers: the worst case."""
    tried = [first]
    for _ in range(SEVERAL - 1):
        again = (s.groups.with_column("mean_entropy", drawn_entropies(scenario, s, rng)) for s in samples)
        tried.append([_evidence(s, groups) for s, groups in zip(samples, again, strict=True)])
    labelled_P = np.arange(len(first[0].usable_P)) < LABELS
    best = (-1.0, 0.0, False)
    for own, other in tried:
        b = _chosen(own, labelled_P, tried=SEVERAL)
        right = float(own.right_PB[labelled_P, GRID.index(b)].mean())
        if b and right > best[0]:
            best = (right, *_gain(other.right_PB.mean(axis=0), b))
    return best[1:]


def looked(name: str, size: ProjectSize, *, seed: int) -> list[dict[str, Any]]:
    """Projects that have left the vote at some look: by the bars, and by those of the first look for ever."""
    at, last = list(REGIMES).index(name), max(size.looks)
    numbers = np.arange(LABELS, last + 1, BATCH)
    counted_SP = (np.arange(last) < numbers[:, None]).astype(np.float64)
    used: dict[str, list[Bools]] = {"rising": [], "constant": []}
    for i in range(size.looked):
        rng = np.random.default_rng((seed, at, i, last))
        sample = draw_sample(REGIMES[name], draw_prompts(REGIMES[name], last, rng), rng)
        e = _evidence(sample, sample.groups)
        rows = [(e.sums(row[None]), int(row.sum()), int(row @ e.mixed_P)) for row in counted_SP]
        for gate, first in (("rising", 0), ("constant", LABELS)):
            to_pass = [bars(first or n, mixed) for _, n, mixed in rows]
            left = [choose(e, sums, own).exponent_S[0] != 0 for (sums, *_), own in zip(rows, to_pass, strict=True)]
            used[gate].append(np.logical_or.accumulate(left))
    return [
        {"labels": n, **{gate: _share(np.array(own)[:, numbers <= n][:, -1]) for gate, own in used.items()}}
        for n in size.looks
    ]


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
    ways = {way: np.array([f["ways"][way] for f in found]) for way in WAYS}
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
        "looks": looked(name, size, seed=seed) if name in NULLS else [],
        "ways": [{"way": way, **_spread(own[:, 0]), "vote": _share(own[:, 1] == 0)} for way, own in ways.items()],
    }


def _spread(gain: Floats) -> dict[str, float]:
    low, high = np.quantile(gain, [0.025, 0.975])
    return {"mean": float(gain.mean()), "low": float(low), "high": float(high), "worse": _share(gain < -LOSS)}


def _share(at: Any) -> float:
    return float(np.mean(at))
