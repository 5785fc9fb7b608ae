"""`dare-reward study`: run a study, keep its raw results, write its page."""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Callable
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import Any

from dare_reward.commands.command import add_command
from dare_reward.commands.help_index import AUTHORS
from dare_reward.errors import RequestError

from .calibration.report import calibration_page
from .calibration.simulate import REGIMES, SEEDS, ProjectSize, regime
from .publish import pack, publish
from .results import STUDIES, Place, read, write, write_sums
from .simulation.report import simulation_page
from .simulation.simulate import FULL, QUICK, in_parallel, scenarios, simulate, trained_scenarios
from .train import add_out, add_train
from .training.records import rounded

JSON = dict[str, Any]
PAGES: dict[str, tuple[str, Callable[..., str]]] = {
    "simulation": ("dare-reward study simulate", simulation_page),
    "calibration": ("dare-reward study calibrate", calibration_page),
}
QUICK_PROJECTS = ProjectSize(projects=3, labels=(32, 40), evaluated=20, looked=2, looks=(32, 40))


def register(subparsers: Any) -> None:
    parser = add_command(
        subparsers,
        "study",
        "Run a study of the paper's claims.",
        group=AUTHORS,
        notes="research/README.md says what each study asks and what it costs.",
        examples=("dare-reward study simulate --quick --out /tmp/study", "dare-reward study train --list"),
    )
    actions = parser.add_subparsers(dest="action", required=True, metavar="STUDY")
    for name, words, run in (
        ("simulate", "Test the paper's claims in its own latent-variable model.", run_simulate),
        ("calibrate", "Count how often `dare-reward calibrate` ends below the vote.", run_calibrate),
    ):
        action = add_command(actions, name, words, group=AUTHORS, examples=(f"dare-reward study {name} --quick",))
        add_out(action)
        action.add_argument(
            "--quick", action="store_true", help="Run every code path on tiny sizes. The page means nothing."
        )
        action.add_argument(
            "--workers", type=int, default=min(2, os.cpu_count() or 1), help="Processes to use (default: 2)."
        )
        action.add_argument("--seed", type=int, default=0, help="The seed of the study (default: 0).")
        action.set_defaults(run=run)
    add_train(actions)
    for name, words, run in (
        ("pack", "Compress what `study train` has appended, and write its summary, checksums and page.", run_pack),
        ("report", "Write the pages again from the results.", run_report),
    ):
        action = add_command(actions, name, words, group=AUTHORS, examples=(f"dare-reward study {name}",))
        add_out(action)
        action.set_defaults(run=run)
        if name == "pack":
            action.add_argument(
                "--study", choices=STUDIES, default=STUDIES[0], help="Whose records (default: training)."
            )


def run_simulate(arguments: argparse.Namespace) -> int:
    size = replace(QUICK if arguments.quick else FULL, seed=arguments.seed)
    jobs = len({s for cells in scenarios().values() for s in cells}) + len(trained_scenarios())
    with _Progress(jobs, "scenario") as done:
        results = simulate(size, workers=arguments.workers, done=done)
    return _finish("simulation", results, arguments)


def run_calibrate(arguments: argparse.Namespace) -> int:
    size = QUICK_PROJECTS if arguments.quick else ProjectSize()
    seed = SEEDS["report"] + arguments.seed
    with _Progress(len(REGIMES), "regime") as done:
        job = partial(regime, size=size, seed=seed)
        rows = in_parallel(job, list(REGIMES), workers=arguments.workers, done=done)
    return _finish("calibration", {"size": {**asdict(size), "seed": seed}, "regimes": rows}, arguments)


def run_pack(arguments: argparse.Namespace) -> int:
    place = Place(arguments.out, arguments.study)
    if not place.work.exists():
        raise RequestError(f"{place.work} does not exist: `dare-reward study train` writes it", code="file")
    _print(*pack(place))
    return 0


def run_report(arguments: argparse.Namespace) -> int:
    """Write every page whose results are there."""
    place = Place(arguments.out)
    found = [name for name in PAGES if place.whole(name).exists()]
    for name in found:
        write(place.page(name), render(name, json.loads(read(place.whole(name)))))
        _print(place.page(name))
    trained = [p for p in (Place(arguments.out, name) for name in STUDIES) if any(f.exists() for f in p.records)]
    for place in trained:
        _print(*publish(place))
    if not (found or trained):
        raise RequestError(f"{arguments.out / 'results'} has no results", code="file")
    return 0


def render(name: str, results: JSON) -> str:
    """The page of a study that is written whole, from its results."""
    command, page = PAGES[name]
    return page(results, command=results.get("command", command))


def _finish(name: str, results: JSON, arguments: argparse.Namespace) -> int:
    place = Place(arguments.out)
    command = PAGES[name][0] + (" --quick" if arguments.quick else "")
    command += f" --seed {arguments.seed}" if arguments.seed else ""
    content: JSON = rounded({"command": command, **results})
    text = json.dumps(content, separators=(",", ":")).replace('{"scenario"', '\n{"scenario"') + "\n"
    write(place.whole(name), text)
    write(place.page(name), render(name, content))
    _print(place.whole(name), write_sums(place.whole(name).parent), place.page(name))
    return 0


def _print(*paths: Path) -> None:
    for path in paths:
        print(path)  # noqa: T201


class _Progress:
    """A bar on a terminal, if tqdm is there."""

    def __init__(self, total: int, unit: str) -> None:
        self._bar: Any = None
        if sys.stderr.isatty():
            try:
                from tqdm import tqdm  # noqa: PLC0415
            except ModuleNotFoundError:
                return
            self._bar = tqdm(total=total, unit=unit, file=sys.stderr)

    def __enter__(self) -> Callable[[], None]:
        return (lambda: None) if self._bar is None else lambda: self._bar.update(1)

    def __exit__(self, *_: object) -> None:
        if self._bar is not None:
            self._bar.close()
