"""What became of the groups that a command reads: its messages, its last line and its exit code are made of this."""

from __future__ import annotations

import argparse
import re
import shlex
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from dare_reward.answers.classes import Labels

from ..answers.rollouts import Unanswered
from ..errors import DareError, RequestError, counted
from ..files.reader import Reader, fault_message
from ..ledger import Fate
from ..methods import find, specs
from ..reply import GroupReply
from .shared_arguments import warn
from .tables import short_answer

MISSING = "missing_entropy"

Placed = tuple[int, Mapping[str, Any]]  # a group with its place

KINDS = 10  # of mistakes, after which a file is given up


class ReadSummary:
    """The groups of a reader, each with its place, for a command to work on; what is wrong with the others is counted.

    At the end it says what was refused and how much was read, and how to end.
    """

    def __init__(self, reader: Reader, *, done: str = "scored", tell: Callable[..., None] = warn) -> None:
        """done: what becomes of a group. tell: takes the lines on what is wrong with the file."""
        self._began = time.monotonic()
        self.reader, self.ledger, self.tell = reader, reader.ledger, tell
        self._kinds: dict[str, tuple[int, str, int]] = {}  # of mistakes: the first with its place, and how many
        self._seen, self._groups = Unanswered(), 0
        self._done = done
        self._missed = 0
        self.lacking = 0  # groups that were not scored for want of entropies

    def __iter__(self) -> Iterator[Placed]:
        for place, group in self.reader:
            if isinstance(group, RequestError):
                self.refuse(place, group)
            else:
                yield place, group

    def scored(self, results: Iterable[tuple[int, Any, Any]]) -> Iterator[tuple[int, Mapping[str, Any], GroupReply]]:
        """Each group with its place and its reply, counted; of what has no reply, only the count."""
        for place, group, reply in results:
            if isinstance(reply, DareError):
                self.refuse(place, reply, group)
            else:
                self.add_scored(place, group, reply)
                yield place, group, reply

    def add(self, group: Mapping[str, Any], no_answer: Mapping[str, int] | None) -> None:
        """Count a group that was read, with the reasons of its rollouts without an answer."""
        self._groups += 1
        self._seen.add(len(group["rollouts"]), no_answer)

    def add_scored(self, place: int, group: Mapping[str, Any], reply: GroupReply) -> None:
        """Count a group with its reply, which may be that it cannot be scored."""
        if reply.error is not None:
            self.lacking += reply.error.code == MISSING
            self.refuse(place, RequestError(unscored(reply.error.code, reply.error.message)), group)
        else:
            self.add(group, reply.no_answer)

    def refuse(self, place: int, error: Exception, group: Mapping[str, Any] | None = None) -> None:
        """Count what cannot be used at a place: a group, or what is none, which the reader has counted itself.

        RequestError after ten kinds of mistakes: such a file is no file of rollouts.
        """
        text = fault_message(error)
        kind = re.sub(r"\d+", "#", text)
        if kind not in self._kinds and len(self._kinds) == KINDS:
            self._say_refused()
            raise RequestError(f"more than {KINDS} kinds of mistakes: is this a file of rollouts?", code="file")
        first, said, count = self._kinds.get(kind, (place, f"{self.reader.unit} {place}: {text}", 0))
        self._kinds[kind] = first, said, count + 1
        if group is not None:
            self._missed += 1
            self.move("refused", str(error))

    def move(self, fate: Fate, why: str, groups: int = 1) -> None:
        """Count groups that were read to another fate."""
        self.ledger.count("read", records=-groups)
        self.ledger.count(fate, why, groups)

    def _say_refused(self) -> None:
        """Print a line for each kind of mistake, by their first places."""
        for _, first, count in sorted(self._kinds.values()):
            self.tell(first + (f" ({count - 1:,} more like this)" if count > 1 else ""))

    def say_read(self) -> None:
        """Print what is wrong with the file, and what its reader took for what."""
        self._say_refused()
        self.reader.say(self.tell)

    def say(self) -> None:
        """Print the last line; before it a warning, if more than half of the rollouts have no answer."""
        seen, seconds = self._seen, time.monotonic() - self._began
        if seen.most:
            warn(f"WARNING: {seen}. Their reward is 0, whatever they say. Look at one of the texts.")
        parts = [counted(self._groups + self._missed, "group")]
        if self._missed:
            parts.append(f"{self._missed:,} of them not {self._done}")
        if self._groups:
            parts += [counted(seen.rollouts, "rollout"), f"{seen.count:,} without an answer{seen.why}"]
        warn(", ".join([*parts, f"{seconds:.1f} s"]))

    def say_remedy(self, arguments: argparse.Namespace) -> None:
        """Say what scores the groups that lack entropies, with the command to copy."""
        ways, command = [], []
        if arguments.entropy == "exact":
            ways.append("estimate them by --entropy logprob or --entropy topk --vocab-size N, from log-probabilities")
        if any(s.name == MISSING for s in specs(find(arguments.method))):
            ways.append("score by votes alone:")
            command = [f"  {shlex.join(['dare-reward', *arguments.words])} -p {MISSING}=frequency"]
        if self.lacking and ways:
            warn(f"Without entropies: {', or '.join(ways)}", *command)

    def end(self, arguments: argparse.Namespace) -> int:
        """Print how much was scored and what scores the rest; the exit code."""
        self.say()
        self.say_remedy(arguments)
        return self.exit_code()

    def exit_code(self, decided: int = 0, *, refused: int = 1) -> int:
        """`refused` if anything was refused or unreadable, else what the command decided.

        A command whose 1 means something else has another `refused`.
        """
        return refused if self.ledger.lost else decided


def unscored(code: str, message: str) -> str:
    """Why a group was not scored, without the advice to somebody who writes requests."""
    return message.partition(" (index ")[0] if code == MISSING else message


LEAST = 8  # prompts with labels and answers of which none are equal


class MismatchedLabels:
    """Counts the prompts that have a label and an answer; `sentence` if no label of LEAST or more equals any."""

    def __init__(self) -> None:
        self._judged, self._equal, self._first = 0, False, ""

    def add(self, place: str, label: Labels | None, answers: Iterable[str | None], *, right: bool) -> None:
        """Count a prompt. `right`: one of its rollouts is."""
        first = next((a for a in answers if a is not None), None)
        if label is None or first is None:
            return
        self._judged += 1
        self._equal |= right
        self._first = self._first or f"{place}: label {short_answer(label)}, answer {short_answer(first)}"

    @property
    def sentence(self) -> str | None:
        """What is wrong, with the first prompt as an example."""
        if self._equal or self._judged < LEAST:
            return None
        return (
            f"no label equals any answer in {self._judged} prompts, so that no verdict is given. The first, "
            f"{self._first}. Are the labels of these prompts, and is `kind` right?"
        )
