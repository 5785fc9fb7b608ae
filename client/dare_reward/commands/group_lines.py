"""What the subcommands share: reading a file of groups, and `--param name=value`."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from dare_reward.errors import RequestError
from dare_reward.files.reader import Reader
from dare_reward.methods import find, read_line, settle, specs
from dare_reward.reply import Problem

__all__ = ["add_file", "add_method", "chosen_params", "hinted", "read_groups", "warn"]


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


def add_file(parser: argparse.ArgumentParser, what: str) -> None:
    """The argument `file` and how it is read."""
    parser.add_argument(
        "file", help=f"{what}: JSON lines, JSON or Parquet, also gzip or zstd; - for standard input (docs/cli.md)"
    )
    parser.add_argument(
        "--entropy",
        choices=("exact", "logprob"),
        default="exact",
        help="logprob: where entropies are missing, estimate them by the log-probabilities of the sampled tokens",
    )


def read_groups(arguments: argparse.Namespace) -> Reader:
    """The groups of the command's file."""
    return Reader(arguments.file, logprobs=arguments.entropy == "logprob")


def hinted(error: Problem, group: Mapping[str, Any]) -> RequestError:
    """Why a group was not scored, with the flag of the command line that changes it."""
    text = error.message
    if error.code == "missing_entropy":
        has = any(r.get("token_logprobs") for r in group["rollouts"])
        text += "; here: -p missing_entropy=frequency" + (", or --entropy logprob" if has else "")
    return RequestError(text, code=error.code)


def warn(text: str) -> None:
    print(text, file=sys.stderr)
