"""`dare-reward study`: run a study, write its raw results and its page."""

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

from dare_reward.errors import ConfigError, RequestError

from .page.figures import draw_training
from .page.report import study_of, training
from .preflight.calibrate import CalibrationSize, try_scenario
from .preflight.report import calibration
from .simulation.report import simulation
from .simulation.simulate import FULL, QUICK, in_parallel, scenarios, simulate, trained_scenarios
from .simulation.tabular import Training
from .training.commands import add_train
from .training.records import rounded

__all__ = ["PAGES", "raw_results", "register", "render", "write_page"]

JSON = dict[str, Any]
PAGES: dict[str, tuple[str, Callable[..., str]]] = {
    "simulation": ("dare-reward study simulate", simulation),
    "preflight": ("dare-reward study calibrate", calibration),
    "training": ("dare-reward study train", training),
}
GROWING = {"training"}  # raw results are appended as runs end: a record a line
QUICK_CALIBRATION = CalibrationSize(scenarios=4, repeats=2, sizes=(50,), training=Training(prompts=60, steps=5, lr=1.0))


def register(subparsers: Any) -> None:
    parser: argparse.ArgumentParser = subparsers.add_parser("study", help="run a study of the paper's claims")
    actions = parser.add_subparsers(dest="action", required=True, metavar="STUDY")
    for name, words, run in (
        ("simulate", "the paper's claims in its own latent-variable model", run_simulate),
        ("calibrate", "how often `dare-reward preflight` is right, in the same model", run_calibrate),
    ):
        action: argparse.ArgumentParser = actions.add_parser(name, help=words)
        action.add_argument(
            "--out", type=Path, default=Path("research/docs"), help="folder of the page; data/ beside it"
        )
        action.add_argument(
            "--quick", action="store_true", help="every code path on tiny sizes; the page means nothing"
        )
        action.add_argument("--workers", type=int, default=min(2, os.cpu_count() or 1), help="processes (default 2)")
        action.add_argument("--seed", type=int, default=0)
        action.set_defaults(run=run)
    add_train(actions)
    render_only: argparse.ArgumentParser = actions.add_parser(
        "report", help="write the pages again from the raw results"
    )
    render_only.add_argument("--out", type=Path, default=Path("research/docs"))
    render_only.set_defaults(run=run_report)


def run_simulate(arguments: argparse.Namespace) -> int:
    size = replace(QUICK if arguments.quick else FULL, seed=arguments.seed)
    jobs = len({s for cells in scenarios().values() for s in cells}) + len(trained_scenarios())
    with _Progress(jobs, "scenario") as done:
        results = simulate(size, workers=arguments.workers, done=done)
    return _finish("simulation", results, arguments)


def run_calibrate(arguments: argparse.Namespace) -> int:
    settings = QUICK_CALIBRATION if arguments.quick else CalibrationSize()
    with _Progress(settings.scenarios, "scenario") as done:
        job = partial(try_scenario, settings=settings, seed=arguments.seed)
        rows = in_parallel(job, range(settings.scenarios), workers=arguments.workers, done=done)
    results = {"size": {**asdict(settings), "seed": arguments.seed}, "scenarios": rows}
    return _finish("preflight", results, arguments)


def run_report(arguments: argparse.Namespace) -> int:
    """Render every page whose raw results are there."""
    found = [name for name in PAGES if _data(arguments.out, name).exists()]
    if not found:
        raise RequestError(f"{arguments.out / 'data'} has no raw results", code="file")
    for name in found:
        write_page(arguments.out, name)
    return 0


def write_page(out: Path, name: str) -> None:
    """A page from its raw results, and the figures of training if matplotlib is there."""
    results = raw_results(out, name)
    _write(out / f"{name}.md", render(name, results))
    if name == "training":
        _draw(out, results)


def raw_results(out: Path, name: str) -> JSON:
    """What a page is rendered from."""
    text = _data(out, name).read_text(encoding="utf-8")
    results: JSON = {"records": text.splitlines()} if name in GROWING else json.loads(text)
    return results


def render(name: str, results: JSON) -> str:
    """The page of a study from its raw results."""
    command, page = PAGES[name]
    return page(results, command=results.get("command", command), data=f"data/{_data(Path(), name).name}")


def _draw(out: Path, results: JSON) -> None:
    try:
        for path in draw_training(out, study_of(results["records"], command=PAGES["training"][0])):
            print(path)  # noqa: T201
    except ConfigError as error:
        print(error, file=sys.stderr)  # noqa: T201


def _finish(name: str, results: JSON, arguments: argparse.Namespace) -> int:
    command = PAGES[name][0] + (" --quick" if arguments.quick else "")
    command += f" --seed {arguments.seed}" if arguments.seed else ""
    content: JSON = rounded({"command": command, **results})
    _write(
        _data(arguments.out, name),
        json.dumps(content, separators=(",", ":")).replace('{"scenario"', '\n{"scenario"') + "\n",
    )
    _write(arguments.out / f"{name}.md", render(name, content))
    return 0


def _data(out: Path, name: str) -> Path:
    return out / "data" / f"{name}.json{'l' if name in GROWING else ''}"


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
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
