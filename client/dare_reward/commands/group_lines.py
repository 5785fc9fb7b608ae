"""What the subcommands share: reading groups line by line, and `--param name=value`."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO, Any

from dare_reward.errors import RequestError
from dare_reward.methods import find, read_line, settle, specs

__all__ = ["add_method", "chosen_params", "lines", "read_groups", "warn"]


def add_method(parser: argparse.ArgumentParser) -> None:
    which = parser.add_mutually_exclusive_group()
    which.add_argument("--method", default="dare", help="an estimator of `dare-reward methods` (default dare)")
    which.add_argument(
        "--params",
        action=_Line,
        metavar="LINE",
        help="method and parameters in one line, as `dare-reward calibrate` prints it",
    )
    parser.add_argument(
        "-p",
        "--param",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="a parameter of the method; may be repeated",
    )


class _Line(argparse.Action):
    """Takes a line apart into `--method` and `--param`."""

    def __call__(self, parser: Any, namespace: Any, values: Any, option_string: str | None = None) -> None:
        try:
            namespace.method, params = read_line(values)
        except RequestError as error:
            parser.error(f"{option_string}: {error}")
        namespace.param = [*namespace.param, *(f"{k}={v}" for k, v in params.items())]


def chosen_params(arguments: argparse.Namespace, *, methods: Sequence[str] = ()) -> dict[str, dict[str, Any]]:
    """The `--param` values for each method, typed and checked by its own declarations.

    With several methods a parameter goes to those that have it; one that none has is an error.
    """
    names = list(methods) or [arguments.method]
    known = {m: {s.name: s for s in specs(find(m))} for m in names}
    params: dict[str, dict[str, Any]] = {m: {} for m in names}
    for text in arguments.param:
        name, equals, value = text.partition("=")
        owners = [m for m in names if name in known[m]]
        if not equals or not owners:
            every = ", ".join(dict.fromkeys(n for m in names for n in known[m]))
            raise RequestError(f"--param {name}: write NAME=VALUE with one of {every}", code="unknown_parameter")
        for m in owners:
            params[m][name] = known[m][name].parse(value)
    for m in names:
        settle(m, params[m])
    return params


def lines(path: str) -> Iterator[tuple[int, str]]:
    """The non-blank lines of a file (`-`: standard input) with their numbers."""
    source: IO[str]
    try:
        source = sys.stdin if path == "-" else Path(path).open(encoding="utf-8", errors="surrogateescape")  # noqa: SIM115
    except OSError as error:
        raise RequestError(f"{path}: {error.strerror}", code="file") from None
    with source:
        for number, line in enumerate(source, 1):
            if line.strip():
                yield number, line


def read_groups(path: str) -> Iterator[tuple[int, Mapping[str, Any] | RequestError]]:
    """One group, or what is wrong with its line, for each line; a group without an id gets its line's."""
    for number, line in lines(path):
        try:
            group = json.loads(line)
        except (ValueError, RecursionError) as error:
            yield number, RequestError(f"not JSON: {error}", code="json")
            continue
        if not isinstance(group, dict):
            yield number, RequestError("must be an object", code="type")
            continue
        yield number, {"group_id": f"line-{number}", **group}


def warn(text: str) -> None:
    print(text, file=sys.stderr)
