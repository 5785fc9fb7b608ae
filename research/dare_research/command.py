"""`dare-reward study`: keeps records of runs where the pages are recomputed from."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

from dare_reward.commands.command import add_command
from dare_reward.errors import RequestError

from .records import RESULTS, append, pack, read_added


def register(subparsers: Any) -> None:
    examples = ("dare-reward study append real-model-runs FOLDER/runs", "dare-reward study pack real-model-runs")
    parser = add_command(
        subparsers,
        "study",
        "Keep records of training runs in research/results.",
        notes="A record has an id, or form, size, arm and seed; one of the same key replaces an earlier one.",
        examples=examples,
    )
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    renewed = "Compress what was appended, with what was packed before, and renew the checksums."
    added = add_command(actions, "append", "Add the records of files to those of a study.", examples=examples[:1])
    packed = add_command(actions, "pack", renewed, examples=examples[1:])
    for action, run in ((added, run_append), (packed, run_pack)):
        action.add_argument("study", help="Name of the study: results/STUDY.jsonl.xz.")
        action.add_argument("--results", type=Path, default=RESULTS, help="Their folder (default: research/results).")
        action.set_defaults(run=run)
    added.add_argument("files", nargs="+", type=Path, help="JSON, a record each; JSONL, a record a line; or a folder.")


def run_append(arguments: argparse.Namespace) -> int:
    try:
        count = append(arguments.study, list(read_added(arguments.files)), arguments.results)
    except (json.JSONDecodeError, KeyError, TypeError) as error:
        raise RequestError(f"no record of a run: {error!r}; nothing was added", code="file") from error
    print(f"{count} records added to {arguments.study}")
    return 0


def run_pack(arguments: argparse.Namespace) -> int:
    print(*pack(arguments.study, arguments.results), sep="\n")
    return 0
