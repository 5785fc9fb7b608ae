"""`dare-reward export RUN --to trackio`: the scalars, tables and traces of a run log in a tracker."""

from __future__ import annotations

import argparse
from typing import Any

from dare_reward.errors import RequestError
from dare_reward.report.lines import run_lines
from dare_reward.runs.exporters import EXPORTERS, export
from dare_reward.runs.log import folder_of
from dare_reward.runs.reader import segments

from .command import add_command
from .group_lines import warn
from .tables import short_answer


def register(subparsers: Any) -> None:
    parser = add_command(
        subparsers,
        "export",
        notes="""trackio and wandb store the run in their usual place. With WANDB_MODE=offline nothing leaves this
        machine. TensorBoard's files go to tensorboard_log/PROJECT/NAME, or below TENSORBOARD_DIR.""",
        examples=(
            "dare-reward export runs/exp1 --to trackio",
            "dare-reward export runs/exp1 --to wandb --project dare",
        ),
        exits="0 if all was sent, 1 if some groups came too late for their step, 2 if nothing was done.",
    )
    parser.add_argument("path", metavar="RUN", help="The folder of one run, or one segment of it.")
    parser.add_argument("--to", required=True, choices=list(EXPORTERS), help="The tracker, which must be installed.")
    parser.add_argument("--project", default="dare-reward", help="The tracker's project (default: dare-reward).")
    parser.add_argument("--name", help="The name of the run there (default: the folder's).")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    folders = sorted({file.parent for file in segments(arguments.path)})
    if len(folders) > 1:
        names = ", ".join(short_answer(folder.name) for folder in folders[:8])
        raise RequestError(f"{arguments.path} holds {len(folders)} runs; name the folder of one: {names}", code="file")
    name = folder_of(arguments.name or folders[0].name)
    lines = run_lines(arguments.path, warn)  # refuses what is no run log, before anything is made for it
    exporter = EXPORTERS[arguments.to](arguments.project, name)
    try:
        done, groups, late = export(lines, exporter)
    finally:
        exporter.close()
    if late:
        warn(f"{late:,} groups came more than three steps late, and are left out")
    counts = f"{groups:,} groups of {done:,} steps"
    warn(f"sent {counts} to {arguments.to}, project {arguments.project}, run {name}")
    return int(late > 0)
