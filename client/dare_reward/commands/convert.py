"""`dare-reward convert FILE`: rollouts in whatever shape they have, as one group a line in our own."""

from __future__ import annotations

import argparse
import json
import sys
from contextlib import ExitStack
from typing import Any

from dare_reward.errors import RequestError
from dare_reward.files.output import text_file
from dare_reward.files.reader import Faults
from dare_reward.scoring.request import UNLIMITED, prepare

from .closing import Closing
from .command import add_command
from .group_lines import add_file, add_out, check_out, read_groups, warn

NOTES = """It reads dumps of vLLM and verl, replies and batches of OpenAI, completions tables of TRL, and files of one
rollout or one group a line."""


def register(subparsers: Any) -> None:
    parser = add_command(
        subparsers,
        "convert",
        notes=NOTES,
        examples=(
            "dare-reward convert vllm_dump.jsonl --out rollouts.jsonl",
            "dare-reward convert completions_00010.parquet --entropy logprob --out rollouts.jsonl",
            "zcat batch_output.jsonl.gz | dare-reward convert - --out rollouts.jsonl",
        ),
        exits="0 if every line was converted, 1 if some were not (standard error names them), 2 if nothing was done.",
    )
    add_file(parser, "Rollouts")
    add_out(parser)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    check_out(arguments)
    reader = read_groups(arguments)
    faults, closing, done = Faults(reader.unit, warn), Closing("converted"), 0
    with ExitStack() as stack:
        out = sys.stdout
        if arguments.out:
            out = stack.enter_context(text_file(arguments.out, force=arguments.force))
        for number, group in reader:
            try:
                if isinstance(group, RequestError):
                    raise group
                closing.add(group, prepare([group], limits=UNLIMITED).unread[0])
            except RequestError as error:
                faults.add(number, error)
                closing.miss(group)
                continue
            out.write(json.dumps(group) + "\n")
            done += 1
        faults.say()
        reader.say(warn)
        if not done:
            raise RequestError(f"{arguments.file}: nothing could be converted", code="empty")
    closing.say()
    return int(len(faults) > 0)
