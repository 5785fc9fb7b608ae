"""`dare-reward score FILE`: groups in, one group's reply a line out."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

from dare_reward.commands.tables import add_wide, group_table, screen_of
from dare_reward.errors import DareError, RequestError
from dare_reward.files.content import line_count
from dare_reward.files.output import text_file
from dare_reward.files.reader import Faults
from dare_reward.reply import group_json

from .closing import Closing
from .command import add_command
from .group_lines import (
    MISSING,
    add_file,
    add_method,
    add_out,
    check_out,
    chosen_params,
    read_groups,
    say_remedy,
    unscored,
    warn,
)
from .scoring import BATCH, add_where, check_variables, score_all, scorer


def register(subparsers: Any) -> None:
    parser = add_command(
        subparsers,
        "score",
        notes="On a terminal you see a table for each group. In a pipe or a file you get one JSON line per group.",
        examples=(
            "dare-reward score rollouts.jsonl",
            "dare-reward score rollouts.jsonl --out rewards.jsonl",
            "dare-reward score rollouts.jsonl -m ttrl  # majority voting",
            "dare-reward score rollouts.jsonl -p missing_entropy=frequency  # without entropies",
            "dare-reward score rollouts.parquet --url http://127.0.0.1:8000",
        ),
        exits="0 if every group was scored, 1 if some were not (standard error names them), 2 if nothing was done.",
    )
    add_file(parser, "Groups of rollouts")
    add_where(parser)
    add_method(parser)
    add_out(parser)
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--table", action="store_true", help="Write tables, in a pipe or a file too.")
    form.add_argument("--json", action="store_true", help="Write JSON lines, on a terminal too.")
    add_wide(parser)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    params = chosen_params(arguments)[arguments.method]
    check_variables()
    check_out(arguments)
    screen = screen_of(arguments)
    tables = arguments.table or (sys.stdout.isatty() and not arguments.json and not arguments.out)
    with ExitStack() as stack:
        ask = scorer(arguments, arguments.method, params, stack)
        out = sys.stdout
        if arguments.out:
            out = stack.enter_context(text_file(arguments.out, force=arguments.force))
        reader = read_groups(arguments)
        faults, closing, done = Faults(reader.unit, warn), Closing(), 0
        lacking: list[Any] = []
        results = score_all(reader, ask)
        for number, group, reply in results if tables and out.isatty() else _progress(results, arguments.file):
            if isinstance(reply, DareError):
                faults.add(number, reply)
                closing.miss(group)
                continue
            if reply.error is not None:
                faults.add(number, unscored(reply.error))
                lacking += [group] if reply.error.code == MISSING else []
            closing.add_scored(group, reply)
            done += 1
            text = group_table(reply, top=10, on=screen) + "\n" if tables else json.dumps(group_json(reply))
            out.write(text + "\n")
        faults.say()
        reader.say(warn)
        if len(faults) and not done:
            nothing = f"; {arguments.out} was not written" if arguments.out else ""
            raise RequestError(f"{arguments.file}: nothing could be scored{nothing}", code="empty")
    closing.say()
    say_remedy(arguments, lacking, reader)
    return int(len(faults) > 0)


def _progress(results: Iterator[Any], path: str) -> Iterator[Any]:
    """A bar on a terminal, if the extra that brings it is installed and the input is longer than a batch."""
    if not sys.stderr.isatty() or path == "-":
        return results
    try:
        from tqdm import tqdm  # noqa: PLC0415
    except ModuleNotFoundError:
        return results
    total = line_count(path)
    return iter(tqdm(results, total=total, unit="group", file=sys.stderr)) if total > BATCH else results
