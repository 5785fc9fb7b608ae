"""The last line of a command that reads groups: how much, how many rollouts without an answer and why, how long."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from ..answers.unanswered import Unanswered
from ..reply import GroupReply
from .group_lines import warn


class Closing:
    """Counts groups while a command works, and says so on standard error at its end."""

    def __init__(self, done: str = "scored") -> None:
        """done: what the command does with a group."""
        self._began = time.monotonic()
        self._seen, self._groups = Unanswered(), 0
        self._done = done
        self._missed = 0

    def add(self, group: Mapping[str, Any], no_answer: Mapping[str, int] | None) -> None:
        """A group that was read, with the reasons of its rollouts without an answer."""
        self._groups += 1
        self._seen.add(len(group["rollouts"]), no_answer)

    def add_scored(self, group: Mapping[str, Any], reply: GroupReply) -> None:
        """A group with its reply, which may be that it cannot be scored."""
        if reply.valid is None:
            self.miss(group)
        else:
            self.add(group, reply.no_answer)

    def miss(self, group: Any) -> None:
        """What stands at a place that was left out: it counts if it is a group, and not what is wrong with a line."""
        self._missed += isinstance(group, Mapping)

    def say(self) -> None:
        """The line; before it a warning, if more than half of the rollouts have no answer."""
        seen, seconds = self._seen, time.monotonic() - self._began
        if seen.most:
            warn(f"WARNING: {seen}. Their reward is 0, whatever they say. Look at one of the texts.")
        count = self._groups + self._missed
        parts = [f"{count:,} {'group' if count == 1 else 'groups'}"]
        if self._missed:
            parts.append(f"{self._missed:,} of them not {self._done}")
        if self._groups:
            parts.append(f"{seen.rollouts:,} {'rollout' if seen.rollouts == 1 else 'rollouts'}")
            parts.append(f"{seen.count:,} without an answer{seen.why}")
        warn(", ".join([*parts, f"{seconds:.1f} s"]))
