"""How often the report calls a fall of accuracy where there is none, and how soon it finds one: `python fall_bars.py`.

A step visits `prompts` of a pool, in turn; a share of the pool is labelled; each visit is 16 rollouts. Where accuracy
stays, the share of runs that are red at any of 100 steps may be .05; where it falls by 20 points over 20 steps, with 32
labelled prompts a step, 95% of the runs must be red within 15 steps of the beginning.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable

import numpy as np

from dare_reward.report.anytime import Beginnings
from dare_reward.report.verdict import accuracy_verdict, entropy_verdict
from dare_reward.report.visits import Visits

ROLLOUTS = 16
STEPS = 100


def first_red(
    rng: np.random.Generator,
    *,
    prompts: int,
    pool: int,
    labelled: int,
    move: Callable[[int], float],
    steps: int = STEPS,
) -> int | None:
    """The first step at which the headline would be red; every `labelled`-th prompt of the pool has a label.

    move   what is added to the accuracy of each prompt at a step
    """
    visits, accuracy = Visits(), rng.uniform(0.25, 0.75, pool)
    for step in range(steps):
        for place in range(step * prompts, (step + 1) * prompts):
            prompt = place % pool
            if prompt % labelled == 0:
                right = rng.binomial(ROLLOUTS, np.clip(accuracy[prompt] + move(step), 0.0, 1.0))
                visits.add(prompt, step, right / ROLLOUTS)
        if accuracy_verdict(visits).word == "falls":
            return step
    return None


def false_alarms(rng: np.random.Generator, runs: int, *, prompts: int, pool: int, labelled: int) -> float:
    """Share of the runs in which accuracy stays and that are red at some step."""
    return float(
        np.mean([
            first_red(rng, prompts=prompts, pool=pool, labelled=labelled, move=lambda _: 0.0) is not None
            for _ in range(runs)
        ])
    )  # fmt: skip


def delays(rng: np.random.Generator, runs: int, *, begins: int, rise: float = 0.0) -> list[float]:
    """Steps from the beginning of a fall of 20 points over 20 steps to the first red one; `rise` comes before it."""

    def move(step: int) -> float:
        return rise * min(step, begins) / begins - min(max(step - begins + 1, 0), 20) / 100

    reds = [
        first_red(rng, prompts=32, pool=32, labelled=1, move=move, steps=begins + 60) for _ in range(runs)
    ]  # fmt: skip
    return [np.inf if red is None or red < begins else float(red - begins + 1) for red in reds]


def wrong_words(rng: np.random.Generator, runs: int, *, groups: int) -> float:
    """Share of the runs whose entropy is called informative or misleading at some step, where it is neither.

    A group has 8 right and 8 wrong rollouts, whose entropies are alike: the right ones' ranks are drawn at random.
    """
    found = 0
    for _ in range(runs):
        sums = Beginnings()
        ranks = rng.permuted(np.tile(np.arange(ROLLOUTS), (STEPS, groups, 1)), axis=2)[..., : ROLLOUTS // 2].sum(axis=2)
        for step, values in enumerate((ranks - 28) / 64 - 0.5):
            sums.at(step)
            for value in values.tolist():
                sums.add(value)
            if entropy_verdict(sums).word in {"informative", "misleads"}:
                found += 1
                break
    return found / runs


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=300)
    runs, rng = parser.parse_args().runs, np.random.default_rng(0)
    print("prompts a step | labelled | pool | red at some step where accuracy stays")
    for prompts in (8, 16, 32, 64):
        for labelled in (1, 4):
            for pool in (prompts, 4 * prompts):
                share = false_alarms(rng, runs, prompts=prompts, pool=pool, labelled=labelled)
                print(f"{prompts} | 1/{labelled} | {pool} | {share:.3f}", flush=True)
    print("groups a step | informative or misleading at some step where entropy is neither")
    for groups in (2, 8, 16, 32, 64):
        print(f"{groups} | {wrong_words(rng, runs, groups=groups):.3f}", flush=True)
    print("the fall begins at | rise before | found within 15 steps | median | last")
    for begins, rise in ((10, 0.0), (20, 0.0), (40, 0.0), (40, 0.2)):
        found = delays(rng, runs, begins=begins, rise=rise)
        print(
            f"{begins} | {rise} | {np.mean(np.array(found) <= 15):.3f} | {np.median(found):g} | {max(found):g}",
            flush=True,
        )


if __name__ == "__main__":
    main()
