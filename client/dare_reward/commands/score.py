"""`dare-reward score FILE`: groups in; out each with its reply, a line of a run log."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from itertools import islice
from typing import Any

from dare_reward.commands.tables import group_table
from dare_reward.errors import DareError, RefusedError, RequestError
from dare_reward.files.output import text_file
from dare_reward.methods import find, other_scale
from dare_reward.reply import GroupReply, Reply
from dare_reward.runs.line import line
from dare_reward.scoring.request import OF_FILE
from dare_reward.scoring.score import score

from .command import add_command
from .shared_arguments import add_file, add_method, bar, check_out, chosen_params, read_groups
from .summary import Placed, ReadSummary

BATCH = 64
BLAMELESS = frozenset({401, 403, 404, 405})  # a refusal of the caller or of the address

Scorer = Callable[[Sequence[Mapping[str, Any]]], Reply]
Scored = tuple[int, Mapping[str, Any], GroupReply | DareError]


def register(subparsers: Any) -> None:
    parser = add_command(
        subparsers,
        "score",
        notes="""On a terminal you see a table for each group. In a pipe or a file you get one JSON line per group: the
        group and its reply, as in a run log, which `report`, `calibrate` and `explain` read.""",
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
    parser.add_argument("--url", help="Score with this running service (default: in this process).")
    add_method(parser)
    words = "With gt, reward each group that has a label by that label (default: method)."
    parser.add_argument("--labelled", choices=("method", "gt"), default="method", help=words)
    parser.add_argument("--out", metavar="FILE", help="Write to this file instead of standard output.")
    parser.add_argument("--force", action="store_true", help="Replace the file of --out if it exists.")
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--table", action="store_true", help="Write tables, in a pipe or a file too.")
    form.add_argument("--json", action="store_true", help="Write JSON lines, on a terminal too.")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    params = chosen_params(arguments)
    if arguments.labelled == "gt" and (words := other_scale(find(arguments.method), params)):
        raise RequestError(words, loc=("--labelled gt",), code="scale")
    check_out(arguments)
    tables = arguments.table or (sys.stdout.isatty() and not arguments.json and not arguments.out)
    with ExitStack() as stack:
        ask = in_process(arguments.method, params, labelled=arguments.labelled)
        if arguments.url:
            from dare_reward.client import Client  # noqa: PLC0415  (httpx is not needed in process)

            client = stack.enter_context(Client(arguments.url))
            ask = partial(client.reward, method=arguments.method, labelled=arguments.labelled, **params)
        out = sys.stdout
        if arguments.out:
            out = stack.enter_context(text_file(arguments.out, force=arguments.force))
        reader = read_groups(arguments)
        summary, done = ReadSummary(reader), 0
        results: Iterable[Scored] = score_all(summary, ask)
        if not (tables and out.isatty()):
            results = bar(results, "group", reader.expected)
        for _, group, reply in summary.scored(results):
            done += 1
            if tables:
                out.write(group_table(reply, top=10) + "\n\n")
            else:
                out.write(json.dumps(line(group, reply, params, asked=frozenset({"prompt"}))) + "\n")
        summary.say_read()
        if summary.ledger.lost and not done:
            nothing = f"; {arguments.out} was not written" if arguments.out else ""
            raise RequestError(f"{arguments.file}: nothing could be scored{nothing}", code="empty")
    return summary.end(arguments)


def in_process(method: str, params: Mapping[str, Any], **how: Any) -> Scorer:
    """Scores here, as many rollouts as a file holds. `how` is that of `score`."""
    return lambda groups: score(groups, params, method=method, limits=OF_FILE, **how).reply


def score_all(source: Iterable[Placed], scorer: Scorer) -> Iterator[Scored]:
    """Each group with its place and its reply or error, in order."""
    items = iter(source)
    while batch := list(islice(items, BATCH)):
        replies = _score([group for _, group in batch], scorer)
        yield from ((place, group, reply) for (place, group), reply in zip(batch, replies, strict=True))


def _score(batch: Sequence[Mapping[str, Any]], scorer: Scorer) -> list[GroupReply | DareError]:
    """A bad group fails its whole request, hence only then one by one. What no group is to blame for is raised."""
    try:
        return list(scorer(batch).groups)
    except (RequestError, RefusedError) as error:
        if error.status in BLAMELESS:
            raise
        if len(batch) == 1:
            return [error]
        return [r for group in batch for r in _score([group], scorer)]
