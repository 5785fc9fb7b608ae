"""What the subcommands share: reading a file of groups, and `--param name=value`."""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, TypeVar

from dare_reward.errors import RequestError, printable
from dare_reward.files.entropy_estimates import estimate_of
from dare_reward.files.labels import LabelFile, PromptFile
from dare_reward.files.output import check_free, opened
from dare_reward.files.reader import Reader
from dare_reward.methods import find, read_line, settle, specs
from dare_reward.params import Spec, parse

from .command import add_count

PATIENCE = 2.0  # seconds before anybody would look at a bar
T = TypeVar("T")


def add_method(parser: argparse.ArgumentParser) -> None:
    words = "An estimator of `dare-reward methods`, or the line that `dare-reward calibrate` prints (default: dare)."
    parser.add_argument("-m", "--method", action=_Method, default="dare", metavar="NAME|LINE", help=words)
    add_param(parser, "Set a parameter of the method, or one that says how answers are read.")


def add_param(parser: argparse.ArgumentParser, words: str) -> None:
    words += " If you give a name twice, the last value counts."
    parser.add_argument("-p", "--param", action="append", default=[], metavar="NAME=VALUE", help=words)


class _Method(argparse.Action):
    """Takes a line apart into the method and `--param`."""

    def __call__(self, parser: Any, namespace: Any, values: Any, option_string: str | None = None) -> None:
        namespace.method = values
        if "=" in values:
            try:
                namespace.method, params = read_line(values)
            except RequestError as error:
                parser.error(f"{option_string}: {error}")
            namespace.param = [*namespace.param, *(f"{k}={v}" for k, v in params.items())]


def chosen_params(arguments: argparse.Namespace) -> dict[str, Any]:
    """The `--param` values of the command's method."""
    params = parsed_params(arguments.param, specs(find(arguments.method)))
    settle(arguments.method, params)
    return params


def parsed_params(texts: Sequence[str], known: Iterable[Spec]) -> dict[str, Any]:
    """`--param` values, typed and checked by their declarations. RequestError for a name that is none of `known`."""
    parts = [text.partition("=") for text in texts]
    if wrong := next((name for name, equals, _ in parts if not equals), ""):
        raise RequestError(f"--param {wrong[:64]}: write it as NAME=VALUE", code="parameter")
    return parse(known, {name: value for name, _, value in parts})


def add_file(parser: argparse.ArgumentParser, what: str, *, saves: str = "") -> None:
    """The argument `file` and how it is read. `saves`: of a command that writes the labels, where it does (`saved`)."""
    parser.add_argument(
        "file",
        help=f"{what} as JSON lines, JSON or Parquet, plain or in gzip or zstd. - reads standard input (docs/data.md).",
    )
    parser.add_argument(
        "--entropy",
        choices=("exact", "logprob", "topk"),
        default="exact",
        help="Estimate missing entropies from log-probabilities, of the sampled tokens or of the k largest.",
    )
    add_count(parser, "vocab_size", "Tokens in the model's vocabulary, which --entropy topk needs", None, least=2)
    words = saves or "Take labels from this file (docs/data.md)."
    parser.add_argument("--labels", dest="saved" if saves else "labels", metavar="FILE", help=words)
    parser.set_defaults(labels=None)
    parser.add_argument(
        "--prompts", metavar="FILE", help="Take prompts from this file, such as the batch that you sent (docs/data.md)."
    )


def check_out(arguments: argparse.Namespace) -> None:
    """RequestError, before anything is read, if `--out` may not be written: it is there, or an argument names it."""
    for path in filter(None, (arguments.file, arguments.labels, arguments.prompts)):
        opened(path)
    if arguments.out:
        check_free(arguments.out, force=arguments.force)


def read_groups(arguments: argparse.Namespace, labels: LabelFile | None = None) -> Reader:
    """The groups of the command's file, with labels and prompts of others."""
    if arguments.labels is not None:
        labels = LabelFile(arguments.labels, tell=warn)
    prompts = None if arguments.prompts is None else PromptFile(arguments.prompts)
    missing = estimate_of(arguments.entropy, arguments.vocab_size)
    asked = [getattr(arguments, name, None) or "" for name in ("method", "methods", "shadow")]
    methods = re.findall(r"[^\s,+]+", " ".join(a if isinstance(a, str) else " ".join(a) for a in asked))
    listed = any("topk_logprobs" in find(name).inputs for name in methods)
    return Reader(arguments.file, missing=missing, labels=labels, prompts=prompts, candidates=listed)


def bar(items: Iterable[T], unit: str, expected: Callable[[], int | None]) -> Iterable[T]:
    """The items, with a bar on a terminal once `PATIENCE` seconds have passed, if its library is here.

    expected   how many there will be, as far as is known by now: it tells the time left
    """
    if not sys.stderr.isatty():
        return items
    try:
        from tqdm import tqdm  # noqa: PLC0415
    except ModuleNotFoundError:
        return items
    return _drawn(items, tqdm(unit=f" {unit}s", delay=PATIENCE, file=sys.stderr), expected)


def _drawn(items: Iterable[T], shown: Any, expected: Callable[[], int | None]) -> Iterator[T]:
    with shown:
        for item in items:
            shown.total = expected() or shown.total
            yield item
            shown.update()
        shown.total = shown.n


def warn(*lines: str) -> None:
    """Print lines on standard error."""
    for line in lines:
        print(printable(line), file=sys.stderr)
