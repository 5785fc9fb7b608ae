"""The console script `dare-reward`. Subcommands come from the entry-point group `dare_reward.commands`.

Each entry is a function that adds its parser with `commands.command.add_command` and sets `run`, which takes the parsed
arguments and returns the exit code. So every package of the project brings its own, and none imports another.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from typing import Any

from ._version import __version__
from .commands.command import HELP_INDEX, Command, listing
from .errors import DareError, printable, unknown_name
from .files.output import remembered_inputs

GROUP = "dare_reward.commands"


def main(argv: Sequence[str] | None = None) -> int:
    """Exit codes: 0 done, 1 done but some input could not be scored, 2 wrong use or nothing could be done."""
    words = list(sys.argv[1:] if argv is None else argv)
    if words[:1] == ["help"]:
        words = [*words[1:], "--help"]
    parser, _ = command_line(words[0] if words else "")
    names = _entries().keys()
    if words and not words[0].startswith("-") and words[0] not in names:
        parser.error(_unknown(words[0], sorted(names)))
    arguments, unknown = parser.parse_known_args(words)
    if arguments.command is None and not unknown:
        parser.print_help()
        return 0
    if unknown:
        arguments.parser.unknown(unknown)
    arguments.words = words
    try:
        with remembered_inputs():
            return int(arguments.run(arguments))
    except DareError as error:
        _say(f"dare-reward {arguments.command}: {error}")
        return 2
    except BrokenPipeError:  # `| head` closed the pipe; Python would complain once more at exit
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except OSError as error:
        _say(f"dare-reward {arguments.command}: {_words(error)}")
        return 2
    except KeyboardInterrupt:
        return 130


def command_line(only: str | None = None) -> tuple[argparse.ArgumentParser, dict[str, Command]]:
    """The parser of the whole command line, and its commands by name.

    only   the command that is called: of those that help can list by themselves, no other is loaded. None: all are
    """
    parser = Command(
        prog="dare-reward",
        usage="dare-reward COMMAND ...",
        description="Rewards for reinforcement learning without labels, from the distribution of answers.",
    )
    parser.add_argument(
        "-V", "--version", action="version", version=f"dare-reward {__version__}", help="Print the version."
    )
    subparsers: Any = parser.add_subparsers(dest="command", metavar="COMMAND", prog=parser.prog, help=argparse.SUPPRESS)
    entries = _entries()
    for name, entry in entries.items():
        if only is None or name == only or (name not in HELP_INDEX and only not in entries):
            try:
                entry.load()(subparsers)
            except ModuleNotFoundError:  # of an installation that lacks a part: the other commands work
                if name == only:
                    raise
    commands: dict[str, Command] = subparsers.choices
    listed = {name: HELP_INDEX[name] for name in HELP_INDEX.keys() & entries.keys()}
    listed |= {name: command.summary for name, command in commands.items()}
    parser.epilog = f"{listing(listed)}\n\n`dare-reward help COMMAND` explains a command and shows examples."
    return parser, commands


@cache
def _entries() -> dict[str, EntryPoint]:
    """What installed packages add, by name: all of them are looked through, once a process."""
    return {entry.name: entry for entry in sorted(entry_points(group=GROUP), key=lambda e: e.name)}


def _unknown(word: str, known: Sequence[str]) -> str:
    sentence = unknown_name("command", word, known)
    return f"{sentence}{'' if sentence.endswith('?') else '.'} `dare-reward help` lists all."


def _say(text: str) -> None:
    print(printable(text, keep="\n"), file=sys.stderr)  # noqa: T201


def _words(error: OSError) -> str:
    """What the system refused, and of which file."""
    why = error.strerror or str(error) or type(error).__name__
    return why if error.filename is None else f"{error.filename}: {why}"
