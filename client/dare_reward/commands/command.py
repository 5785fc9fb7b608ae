"""How a subcommand is declared: a sentence, examples and exit codes."""

from __future__ import annotations

import argparse
import shutil
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import Any, Final, NoReturn

from dare_reward.errors import RequestError, unknown_name
from dare_reward.params import Spec

# Of the commands that this project brings: so help and a wrong name load no command, and a command no other.
HELP_INDEX: Final[Mapping[str, str]] = {
    "score": "Score groups of rollouts from a file.",
    "explain": "Explain how a group got its rewards, or find suspicious groups in a file.",
    "calibrate": "Decide from labelled rollouts whether to use entropy or the plain vote.",
    "label": "Label some of the prompts on a page.",
    "report": "Show a run as one HTML file.",
    "serve": "Start the reward service.",
    "doctor": "Check this node before a run: service, versions, plugin.",
    "data": "Prepare prompts for OpenRLHF: a benchmark, or your own.",
    "methods": "List the estimators, or the parameters of one.",
    "measure": "Sample a model and measure whether its entropy, or a vote, is worth having.",
}


class Command(argparse.ArgumentParser):
    """A parser that knows how it is called."""

    def __init__(self, *, examples: Sequence[str] = (), exits: str = "", **options: Any) -> None:
        ends = ["Examples:\n" + textwrap.indent("\n".join(examples), "  ")] if examples else []
        ends += [paragraph(f"Exit codes: {exits}")] if exits else []
        options.setdefault("epilog", "\n\n".join(ends) or None)
        options.setdefault("formatter_class", argparse.RawDescriptionHelpFormatter)
        super().__init__(allow_abbrev=False, add_help=False, **options)
        self.add_argument("-h", "--help", action="help", help="Show this help.")
        self.set_defaults(parser=self)  # the innermost one, where commands nest
        self.examples = tuple(examples)

    @property
    def summary(self) -> str:
        """The first paragraph of the description."""
        return " ".join((self.description or "").partition("\n\n")[0].split())

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"{self.prog}: {message}\nTry: {self.prog} --help\n")

    def unknown(self, words: Sequence[str]) -> NoReturn:
        """End with the first of `words` that means nothing here, and the flag that it resembles."""
        long = words[0].startswith("--")
        flags = [name for action in self._actions for name in action.option_strings if long and name.startswith("--")]
        self.error(unknown_name("argument", words[0].partition("=")[0], flags))


def add_command(
    subparsers: Any, name: str, summary: str = "", *, examples: Sequence[str], notes: str = "", exits: str = ""
) -> Command:
    """Declare a subcommand.

    summary    one sentence: the line of `dare-reward --help`, and the first of the command's own. `HELP_INDEX` has
               those of this project's commands
    examples   command lines that work as they stand
    notes      what else a user has to know before the first use
    exits      the exit codes, if they mean more than success or wrong use
    """
    summary = summary or HELP_INDEX[name]
    description = "\n\n".join(paragraph(text) for text in (summary, notes) if text)
    made: Command = subparsers.add_parser(name, help=summary, description=description, examples=examples, exits=exits)
    return made


def add_flags(parser: Any, specs: Iterable[Spec]) -> None:
    """A flag for each parameter: its sentence, its values, its default."""
    for spec in specs:
        flag, usual = f"--{spec.name.replace('_', '-')}", spec.default
        if spec.type is bool:
            switch: Any = argparse.BooleanOptionalAction if usual else "store_true"
            parser.add_argument(flag, action=switch, default=usual, help=f"{spec.doc}.")
        else:
            words = f"{spec.doc}." if usual in {"", None} else f"{spec.doc} (default: {usual})."
            parser.add_argument(
                flag, type=partial(_parsed, spec), choices=spec.choices or None, default=usual, help=words
            )


def _parsed(spec: Spec, text: str) -> Any:
    try:
        return spec.parse(text)
    except RequestError as error:
        raise argparse.ArgumentTypeError(error.message) from None


def add_count(parser: Any, name: str, words: str, default: int | None, *, least: int = 1) -> None:
    """A flag for a whole number of at least so many."""
    add_flags(parser, [Spec(words, ge=least, name=name, type=int, default=default)])


def add_seed(parser: argparse.ArgumentParser, words: str) -> None:
    """`--seed` of NumPy's generators, which take no negative one."""
    add_count(parser, "seed", words, 0, least=0)


def listing(commands: Mapping[str, str]) -> str:
    """All commands, each with its sentence."""
    width = max(map(len, commands), default=0) + 4
    return "\n".join(
        textwrap.fill(f"{name:{width - 4}}  {sentence}", _columns(), initial_indent="  ", subsequent_indent=" " * width)
        for name, sentence in sorted(commands.items())
    )


def paragraph(text: str) -> str:
    """Wrapped to the terminal; an empty line begins a new paragraph."""
    return "\n\n".join(textwrap.fill(" ".join(part.split()), _columns()) for part in text.split("\n\n"))


def _columns() -> int:
    return min(shutil.get_terminal_size().columns, 120) - 2
