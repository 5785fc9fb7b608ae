"""The console script `dare-reward`. Subcommands come from the entry-point group `dare_reward.commands`.

Each entry is a function that adds its parser to argparse's subparsers and sets `run`, which takes the parsed arguments
and returns the exit code. So every package of the project brings its own, and none imports another.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from importlib.metadata import entry_points

from ._version import __version__
from .errors import DareError, unknown_name

__all__ = ["main"]

GROUP = "dare_reward.commands"


def main(argv: Sequence[str] | None = None) -> int:
    """Exit codes: 0 done, 1 done but some input could not be scored, 2 wrong use or nothing could be done."""
    parser = argparse.ArgumentParser("dare-reward", description="Rewards for label-free reinforcement learning.")
    parser.add_argument("-V", "--version", action="version", version=f"dare-reward {__version__}")
    subparsers = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for entry in sorted(entry_points(group=GROUP), key=lambda e: e.name):
        entry.load()(subparsers)
    words = list(sys.argv[1:] if argv is None else argv)
    if words[:1] == ["help"]:
        words = [*words[1:2], "--help"]
    if words and not words[0].startswith("-") and words[0] not in subparsers.choices:
        parser.error(_unknown(words[0], list(subparsers.choices)))
    arguments = parser.parse_args(words)
    try:
        return int(arguments.run(arguments))
    except DareError as error:
        print(f"dare-reward {arguments.command}: {error}", file=sys.stderr)  # noqa: T201
        return 2
    except BrokenPipeError:  # `| head` closed the pipe; Python would complain once more at exit
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except OSError as error:
        print(f"dare-reward {arguments.command}: {_words(error)}", file=sys.stderr)  # noqa: T201
        return 2
    except KeyboardInterrupt:
        return 130


def _unknown(word: str, known: Sequence[str]) -> str:
    if word == "study":
        return "study comes with the package in research/ of a checkout: pip install -e . -e research"
    return f"{unknown_name('command', word, known)} (known: {', '.join(known)})"


def _words(error: OSError) -> str:
    """What the system refused, and of which file."""
    why = error.strerror or str(error) or type(error).__name__
    return why if error.filename is None else f"{error.filename}: {why}"
