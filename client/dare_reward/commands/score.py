"""`dare-reward score FILE.jsonl`: one group a line in, one group's reply a line out."""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from itertools import islice
from typing import IO, Any

from dare_reward._scoring import estimate
from dare_reward.commands.tables import group_table
from dare_reward.errors import DareError, RefusedError, RequestError
from dare_reward.files.output import text_file
from dare_reward.reply import GroupReply, Reply

from .compare import comparison
from .group_lines import add_method, chosen_params, lines, read_groups, warn

__all__ = ["register"]

BATCH = 64
EPILOG = "Exit codes: 0 every group scored; 1 some lines or groups not (named on standard error); 2 nothing done."

Scorer = Callable[[Sequence[Mapping[str, Any]]], Reply]
Numbered = tuple[int, Mapping[str, Any]]


def register(subparsers: Any) -> None:
    parser: argparse.ArgumentParser = subparsers.add_parser(
        "score", help="score groups of rollouts from a JSONL file", epilog=EPILOG
    )
    parser.add_argument("file", help="groups in the shape of the HTTP body, one a line; - for standard input")
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
    names = [n for n in (arguments.compare or "").split(",") if n]
    params = chosen_params(arguments, methods=names)
    with ExitStack() as stack:
        scorers = {m: _scorer(arguments, m, own, stack) for m, own in params.items()}
        out = sys.stdout
        if arguments.out:
            out = stack.enter_context(text_file(arguments.out, force=arguments.force, inputs=[arguments.file]))
        if names:
            return _compare(arguments, scorers, out)
        done, failed = 0, 0
        scored = _score_all(read_groups(arguments.file), scorers[arguments.method])
        for number, group in _progress(scored, arguments.file):
            if isinstance(group, DareError):
                warn(f"line {number}: {group}")
                failed += 1
                continue
            if group.error is not None:
                warn(f"line {number}: {group.error.message}")
                failed += 1
            done += 1
            _write(group, out, table=arguments.table)
        return _exit_code(done, failed, arguments)


def _exit_code(done: int, failed: int, arguments: argparse.Namespace) -> int:
    if failed and not done:
        nothing = f"; {arguments.out} was not written" if arguments.out else ""
        raise RequestError(f"{arguments.file}: nothing could be scored{nothing}", code="empty")
    return int(failed > 0)


def _compare(arguments: argparse.Namespace, scorers: Mapping[str, Scorer], out: IO[str]) -> int:
    """Every method on every line; a line that is no group is left out for all."""
    source = list(read_groups(arguments.file))
    found = {m: dict(_score_all(iter(source), scorer)) for m, scorer in scorers.items()}
    bad = {n: str(r) for replies in found.values() for n, r in replies.items() if isinstance(r, DareError)}
    for number, text in sorted(bad.items()):
        warn(f"line {number}: {text}")
    good = [n for n, _ in source if n not in bad]
    if good:
        results = {m: [r for n in good if isinstance(r := replies[n], GroupReply)] for m, replies in found.items()}
        out.write(comparison(results) + "\n")
    return _exit_code(len(good), len(bad), arguments)


def _scorer(arguments: argparse.Namespace, method: str, params: Mapping[str, Any], stack: ExitStack) -> Scorer:
    url = None if arguments.local else arguments.url or os.environ.get("DARE_URL")
    if not url:
        return partial(estimate, method=method, **params)
    from dare_reward.client import Client  # noqa: PLC0415  (httpx is not needed in process)

    client = stack.enter_context(Client(url, token=os.environ.get("DARE_TOKEN")))
    return partial(client.reward, method=method, **params)


def _score_all(
    source: Iterator[tuple[int, Mapping[str, Any] | RequestError]], scorer: Scorer
) -> Iterator[tuple[int, GroupReply | DareError]]:
    """Each line's reply or error, in order."""
    while batch := list(islice(source, BATCH)):
        good = [(n, g) for n, g in batch if not isinstance(g, RequestError)]
        results: dict[int, GroupReply | DareError] = {n: g for n, g in batch if isinstance(g, RequestError)}
        results.update(_score(good, scorer))
        yield from sorted(results.items())


def _score(batch: Sequence[Numbered], scorer: Scorer) -> dict[int, GroupReply | DareError]:
    """A bad group fails its whole request, hence only then one by one."""
    if not batch:
        return {}
    try:
        reply = scorer([g for _, g in batch])
    except (RequestError, RefusedError) as error:
        if len(batch) == 1:
            return {batch[0][0]: error}
        return {n: r for entry in batch for n, r in _score([entry], scorer).items()}
    return {n: g for (n, _), g in zip(batch, reply.groups, strict=True)}


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
    total = sum(1 for _ in lines(path))
    return iter(tqdm(results, total=total, unit="group", file=sys.stderr)) if total > BATCH else results
