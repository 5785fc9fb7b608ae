"""`dare-reward convert FILE`: rollouts in whatever shape they have, as one group a line in our own."""

from __future__ import annotations

import argparse
import json
import sys
from contextlib import ExitStack
from typing import Any

from dare_reward._scoring.request import UNLIMITED, prepare
from dare_reward.errors import RequestError
from dare_reward.files.output import text_file
from dare_reward.files.reader import Faults

from .closing import Closing
from .group_lines import add_file, read_groups, warn

__all__ = ["register"]

EPILOG = """Read are dumps of vLLM and verl, replies and batches of OpenAI, completions tables of TRL, and files of one
rollout or one group a line. Example: dare-reward convert dump.jsonl --out rollouts.jsonl. Exit codes: 0 all converted;
1 some not (named on standard error); 2 nothing done."""


def register(subparsers: Any) -> None:
    parser: argparse.ArgumentParser = subparsers.add_parser(
        "convert", help="write rollouts of other tools as groups, one a line", epilog=EPILOG
    )
    add_file(parser, "rollouts")
    parser.add_argument("--out", help="write here instead of to standard output")
    parser.add_argument("--force", action="store_true", help="replace the file of --out if it exists")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """See EPILOG for the exit codes."""
    reader = read_groups(arguments)
    faults, closing, done = Faults(reader.unit, warn), Closing(), 0
    with ExitStack() as stack:
        out = sys.stdout
        if arguments.out:
            out = stack.enter_context(text_file(arguments.out, force=arguments.force, inputs=[arguments.file]))
        for number, group in reader:
            try:
                if isinstance(group, RequestError):
                    raise group
                closing.add(group, prepare([group], limits=UNLIMITED).groups.valid_R.tolist())
            except RequestError as error:
                faults.add(number, error)
                continue
            out.write(json.dumps(group, ensure_ascii=False) + "\n")
            done += 1
        faults.say()
        reader.say(warn)
        if not done:
            raise RequestError(f"{arguments.file}: nothing could be converted", code="empty")
    closing.say()
    return int(len(faults) > 0)
