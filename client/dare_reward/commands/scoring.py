"""Scoring a file's groups in this process or with a service, as `score` and `compare` do."""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from itertools import islice
from typing import Any

from dare_reward.errors import DareError, RefusedError, RequestError, misspelt_variables
from dare_reward.reply import GroupReply, Reply
from dare_reward.scoring.score import estimate

from .group_lines import warn

BATCH = 64
BLAMELESS = frozenset({401, 403, 404, 405})  # a refusal of the caller or of the address

Scorer = Callable[[Sequence[Mapping[str, Any]]], Reply]
Scored = tuple[int, Any, Any]  # place, group, its reply or error


def add_where(parser: argparse.ArgumentParser) -> None:
    where = parser.add_mutually_exclusive_group()
    where.add_argument("--url", help="Score with this running service (default: DARE_URL, else in this process).")
    where.add_argument("--local", action="store_true", help="Score in this process, whatever DARE_URL says.")


def check_variables() -> None:
    """Warn of variables that nothing reads."""
    for sentence in misspelt_variables(["DARE_URL", "DARE_TOKEN"], os.environ):
        warn(sentence)


def scorer(arguments: argparse.Namespace, method: str, params: Mapping[str, Any], stack: ExitStack) -> Scorer:
    url = None if arguments.local else arguments.url or os.environ.get("DARE_URL")
    if not url:
        return partial(estimate, method=method, **params)
    from dare_reward.client import Client  # noqa: PLC0415  (httpx is not needed in process)

    client = stack.enter_context(Client(url))
    return partial(client.reward, method=method, **params)


def score_all(source: Iterable[tuple[int, Any]], scorer: Scorer) -> Iterator[Scored]:
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
