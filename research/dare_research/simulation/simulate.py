"""`dare-reward study simulate`: which scenarios are measured and trained, on how many prompts; raw results as JSON."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass, field
from typing import Any

from .arms import CONTROLS, answer_methods
from .measure import measure
from .model import Scenario
from .tabular import Training, train_arms

DELTAS = (0.0, 0.3, 0.7, -0.4)
RHOS = (0.0, 0.1, 0.3, 0.6)
TRAINED = ("ttrl", "weighted_vote", "empo", "dare_dist", "dare", "dare_sqrt", "scrl", *CONTROLS)


@dataclass(frozen=True, slots=True)
class Size:
    prompts: int = 4000
    training: Training = field(default_factory=Training)
    seed: int = 0


FULL = Size()
QUICK = Size(prompts=150, training=Training(prompts=40, steps=20))


def scenarios() -> dict[str, list[Scenario]]:
    """Tables of the report by name."""
    return {
        "correlation": [Scenario(rho=r, delta=d) for r in RHOS for d in DELTAS],
        "rollouts": [Scenario(delta=d, rollouts=m) for m in (8, 16, 32, 64) for d in (0.0, 0.3)],
        "confident": [Scenario(rho=0.1, delta=0.3, confident=c) for c in (0.0, 0.15, 0.3, 0.5)],
        "loop": [Scenario(rho=0.1, delta=d, loop=x) for d in (0.0, 0.3) for x in (False, True)],
    }


def trained_scenarios() -> list[Scenario]:
    grid = [Scenario(rho=r, delta=d) for r in (0.0, 0.3) for d in (0.0, 0.3, -0.4)]
    return [*grid, *(Scenario(rho=r, delta=0.3, confident=0.3) for r in (0.0, 0.3))]


def simulate(size: Size, *, workers: int = 1, done: Callable[[], None] = lambda: None) -> dict[str, Any]:
    """All raw results. The same size and seed give the same results, whatever the number of workers."""
    tables = scenarios()
    arms = (*answer_methods(), *CONTROLS)
    distinct = list(dict.fromkeys(s for cells in tables.values() for s in cells))
    jobs: list[tuple[Any, ...]] = [("train", s, TRAINED, size) for s in trained_scenarios()]
    jobs += [("measure", s, arms, size) for s in distinct]
    found = in_parallel(_job, jobs, workers=workers, done=done)
    trained = found[: len(trained_scenarios())]
    measured = dict(zip(distinct, found[len(trained) :], strict=True))
    return {
        "size": asdict(size),
        "arms": list(arms),
        "tables": {
            name: [{"scenario": {**asdict(s), "nominal_auroc": s.auroc}, **measured[s]} for s in cells]
            for name, cells in tables.items()
        },
        "training": [
            {"scenario": {**asdict(s), "nominal_auroc": s.auroc}, "arms": rows}
            for s, rows in zip(trained_scenarios(), trained, strict=True)
        ],
    }


def _job(job: tuple[str, Scenario, Sequence[str], Size]) -> Mapping[str, Any]:
    what, scenario, arms, size = job
    if what == "train":
        return train_arms(scenario, arms, size.training, seed=size.seed)
    return measure(scenario, arms, prompts=size.prompts, seed=size.seed)


def in_parallel(
    function: Callable[[Any], Any], jobs: Iterable[Any], *, workers: int, done: Callable[[], None]
) -> list[Any]:
    """Results in the order of the jobs; `done` is called after each."""
    if workers <= 1:
        out = []
        for job in jobs:
            out.append(function(job))
            done()
        return out
    with ProcessPoolExecutor(workers) as pool:
        futures = [pool.submit(function, job) for job in jobs]
        for future in futures:
            future.add_done_callback(lambda _: done())
        return [future.result() for future in futures]
