"""`dare-reward plot RUN -o FIGURE`: one figure of a run."""

from __future__ import annotations

import argparse
from typing import Any

from dare_reward.commands.command import add_command
from dare_reward.commands.help_index import AUTHORS
from dare_reward.commands.report import add_run, book_of
from dare_reward.commands.shared_arguments import check_out, warn
from dare_reward.ledger import Ledger
from dare_reward.report.view import BYTES, RunView

from .figures import FIGURES, save_figure


def register(subparsers: Any) -> None:
    parser = add_command(
        subparsers,
        "plot",
        "Draw one figure of a run as PNG, SVG or PDF.",
        group=AUTHORS,
        examples=(
            "dare-reward plot runs/exp1 --figure agreement -o agreement.svg",
            "dare-reward plot rollouts.jsonl --figure group -o group.png",
        ),
    )
    add_run(parser)
    parser.add_argument("-o", "--out", required=True, help="The figure to write. Its suffix chooses the format.")
    parser.add_argument(
        "--figure", choices=FIGURES, default="agreement", help="What to draw (default: agreement; docs/report.md)."
    )
    parser.add_argument("--group", help="With --figure group: its group_id (default: the first worth reading).")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """0 written; 1 no group could be scored; 2 nothing to draw."""
    check_out(arguments)
    ledger = Ledger()
    book = book_of(arguments, ledger)
    if book is None:
        return 1
    found = next(reversed(book.runs.values()))
    if len(book.runs) > 1:
        warn(f"{len(book.runs)} runs; drawn is {found.name!r}, --run chooses another")
    drawn = RunView(found)
    drawn.renew(BYTES)
    shown_run = drawn.since(-1)
    shown = save_figure(
        arguments.out,
        arguments.figure,
        shown_run,
        shown_run["cards"],
        group=arguments.group,
        force=arguments.force,
    )
    warn(f"wrote {arguments.out}{shown and f': {shown}'}")
    return 0
