"""`dare-reward score FILE`: groups in, one group's reply a line out."""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from itertools import islice
from typing import IO, Any, cast

from dare_reward._scoring.score import estimate
from dare_reward.commands.tables import group_table
from dare_reward.errors import DareError, RefusedError, RequestError, misspelt_variables
from dare_reward.files.content import line_count
from dare_reward.files.output import text_file
from dare_reward.files.reader import Faults, Reader
from dare_reward.reply import GroupReply, Reply

from .closing import Closing
from .compare import comparison
from .group_lines import add_file, add_method, chosen_params, hinted, read_groups, warn

__all__ = ["register"]

BATCH = 64
EPILOG = "Exit codes: 0 every group scored; 1 some not (named on standard error); 2 nothing done."

Scorer = Callable[[Sequence[Mapping[str, Any]]], Reply]
Scored = tuple[int, Any, Any]  # place, group, its reply or error
BLAMELESS = frozenset({401, 403, 404, 405})  # a refusal of the caller or of the address


def register(subparsers: Any) -> None:
    parser: argparse.ArgumentParser = subparsers.add_parser(
        "score", help="score groups of rollouts from a file", epilog=EPILOG
    )
    add_file(parser, "groups of rollouts")
    where = parser.add_mutually_exclusive_group()
    where.add_argument("--url", help="score with a running service (default: DARE_URL, else in process)")
    where.add_argument("--local", action="store_true", help="score in process, whatever DARE_URL says")
    add_method(parser)
    parser.add_argument(
        "--compare", metavar="METHODS", help="methods side by side on the same rollouts: dare,ttrl,scrl"
    )
    parser.add_argument("--out", help="write here instead of to standard output")
    parser.add_argument("--force", action="store_true", help="replace the file of --out if it exists")
    parser.add_argument("--table", action="store_true", help="readable tables instead of JSONL")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Score the file; see EPILOG for the exit codes."""
    names = [n.strip() for n in (arguments.compare or "").split(",") if n.strip()]
    params = chosen_params(arguments, methods=names)
    for sentence in misspelt_variables(["DARE_URL", "DARE_TOKEN"], os.environ):
        warn(sentence)
    with ExitStack() as stack:
        scorers = {m: _scorer(arguments, m, own, stack) for m, own in params.items()}
        out = sys.stdout
        if arguments.out:
            out = stack.enter_context(text_file(arguments.out, force=arguments.force, inputs=[arguments.file]))
        reader = read_groups(arguments)
        faults, closing = Faults(reader.unit, warn), Closing()
        if names:
            done = _compare(reader, scorers, out, faults, closing)
        else:
            done = _write_all(arguments, _score_all(reader, scorers[arguments.method]), out, faults, closing)
        faults.say()
        reader.say(warn)
        if len(faults) and not done:
            nothing = f"; {arguments.out} was not written" if arguments.out else ""
            raise RequestError(f"{arguments.file}: nothing could be scored{nothing}", code="empty")
    closing.say()
    return int(len(faults) > 0)


def _write_all(
    arguments: argparse.Namespace, scored: Iterator[Scored], out: IO[str], faults: Faults, closing: Closing
) -> int:
    """Write the replies as they come; how many there were."""
    done = 0
    for number, group, found in _progress(scored, arguments.file):
        if isinstance(found, DareError):
            faults.add(number, found)
            continue
        if found.error is not None:
            faults.add(number, hinted(found.error, group))
        closing.add(group, found.valid)
        done += 1
        _write(found, out, table=arguments.table)
    return done


def _compare(reader: Reader, scorers: Mapping[str, Scorer], out: IO[str], faults: Faults, closing: Closing) -> int:
    """Every method on every group; what one of them cannot read is left out for all."""
    source = list(reader)
    found = {m: list(_score_all(source, scorer)) for m, scorer in scorers.items()}
    good = []
    for i, (number, group) in enumerate(source):
        results = [replies[i][2] for replies in found.values()]
        wrong = next((x for x in (group, *results) if isinstance(x, DareError)), None)
        if wrong is not None:
            faults.add(number, wrong)
            continue
        good.append(i)
        closing.add(
            cast("Mapping[str, Any]", group), next((r.valid for r in results if isinstance(r, GroupReply)), None)
        )
    if good:
        out.write(comparison({m: [replies[i][2] for i in good] for m, replies in found.items()}) + "\n")
    return len(good)


def _scorer(arguments: argparse.Namespace, method: str, params: Mapping[str, Any], stack: ExitStack) -> Scorer:
    url = None if arguments.local else arguments.url or os.environ.get("DARE_URL")
    if not url:
        return partial(estimate, method=method, **params)
    from dare_reward.client import Client, environment_token  # noqa: PLC0415  (httpx is not needed in process)

    client = stack.enter_context(Client(url, token=environment_token()))
    return partial(client.reward, method=method, **params)


def _score_all(source: Iterable[tuple[int, Any]], scorer: Scorer) -> Iterator[Scored]:
    """Each place with what stands there and its reply or error, in order."""
    items = iter(source)
    while batch := list(islice(items, BATCH)):
        replies = iter(_score([g for _, g in batch if not isinstance(g, RequestError)], scorer))
        for number, group in batch:
            yield number, group, group if isinstance(group, RequestError) else next(replies)


def _score(batch: Sequence[Mapping[str, Any]], scorer: Scorer) -> list[GroupReply | DareError]:
    """A bad group fails its whole request, hence only then one by one. What no group is to blame for is raised."""
    if not batch:
        return []
    try:
        return list(scorer(batch).groups)
    except (RequestError, RefusedError) as error:
        if error.status in BLAMELESS:
            raise
        if len(batch) == 1:
            return [error]
        return [r for group in batch for r in _score([group], scorer)]


def _write(group: GroupReply, out: IO[str], *, table: bool) -> None:
    if table:
        out.write(group_table(group, top=10) + "\n\n")
        return
    reply = Reply("", "", "", "", "", (group,))
    out.write(json.dumps(reply.to_json()["groups"][0]) + "\n")


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
