"""`dare-reward score FILE`: groups in, one group's reply a line out."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import IO, Any

from dare_reward.commands.tables import Screen, add_wide, group_table, screen_of
from dare_reward.errors import DareError, RequestError
from dare_reward.files.content import line_count
from dare_reward.files.output import text_file
from dare_reward.files.reader import Faults
from dare_reward.methods import find, specs
from dare_reward.reply import GroupReply, group_json

from .closing import Closing
from .command import add_command
from .group_lines import MISSING, add_file, add_method, add_out, chosen_params, read_groups, remedies, unscored, warn
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
    """Score the file; `--help` says what the exit codes mean."""
    params = chosen_params(arguments)[arguments.method]
    check_variables()
    screen = screen_of(arguments)
    tables = arguments.table or (sys.stdout.isatty() and not arguments.json and not arguments.out)
    with ExitStack() as stack:
        ask = scorer(arguments, arguments.method, params, stack)
        out = sys.stdout
        if arguments.out:
            out = stack.enter_context(text_file(arguments.out, force=arguments.force, inputs=[arguments.file]))
        reader = read_groups(arguments)
        work = _Work(Faults(reader.unit, warn), out, screen if tables else None)
        found = score_all(reader, ask)
        for number, group, reply in found if tables and out.isatty() else _progress(found, arguments.file):
            work.take(number, group, reply)
        work.faults.say()
        reader.say(warn)
        if len(work.faults) and not work.done:
            nothing = f"; {arguments.out} was not written" if arguments.out else ""
            raise RequestError(f"{arguments.file}: nothing could be scored{nothing}", code="empty")
    work.closing.say()
    if work.lacking:
        own = any(s.name == MISSING for s in specs(find(arguments.method)))
        warn(*remedies(arguments.words, work.lacking, candidates=reader.notes.candidates, param=own))
    return int(len(work.faults) > 0)


@dataclass(slots=True)
class _Work:
    """What becomes of each group: a line or a table, or a fault."""

    faults: Faults
    out: IO[str]
    screen: Screen | None
    closing: Closing = field(default_factory=Closing)
    lacking: list[Mapping[str, Any]] = field(default_factory=list)
    done: int = 0

    def take(self, number: int, group: Any, found: GroupReply | DareError) -> None:
        if isinstance(found, DareError):
            self.faults.add(number, found)
            self.closing.miss(group)
            return
        if found.error is not None:
            self.faults.add(number, unscored(found.error))
            if found.error.code == MISSING:
                self.lacking.append(group)
        self.closing.add_scored(group, found)
        self.done += 1
        if self.screen is not None:
            self.out.write(group_table(found, top=10, on=self.screen) + "\n\n")
        else:
            self.out.write(json.dumps(group_json(found)) + "\n")


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
