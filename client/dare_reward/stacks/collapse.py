"""What an adapter does where a run collapses: nothing, or with `on_collapse=warn` a warning.

The word is that of the report (`report.verdict`), by rules that see no label. They are heuristics, and end no training.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from logging import INFO, WARNING
from types import MappingProxyType
from typing import Any, Final
from weakref import WeakKeyDictionary

from ..reply import Reply, group_json
from ..report.book import RunTotals
from ..report.verdict import READ, rules_by_step, run_verdict
from ..segments import Floats
from .report import logger

# `dare/run_state` in a tracker; there is none while it is too early to say.
STATES: Final[Mapping[str, int]] = MappingProxyType({"fine": 0, "sharpening": 1, "collapsing": 2})


@dataclass(slots=True, eq=False)
class RunWatch:
    """The state of one run: `see` each reply, `word` is that of the last whole step, `collapsing` once it was that.

    kind    of its answers
    """

    kind: str = "math"
    word: str = "too early"
    collapsing: bool = False
    _run: RunTotals = field(default_factory=lambda: RunTotals(""))
    _judged: int | None = None
    _last: int | None = None

    def see(self, reply: Reply | None, step: int | None = None) -> None:
        """Count a reply's groups. TRL's groups have the names of their prompts, so its label flips are known.

        Steps that begin again are those of another training in this process, which starts without a past.
        """
        if step is not None and self._last is not None and step < self._last:
            self.word, self.collapsing, self._run, self._judged = "too early", False, RunTotals(""), None
        self._last = self._last if step is None else step
        for group in reply.groups if reply is not None else ():
            self._run.add({"step": step, "time": "now", "kind": self.kind, "reply": group_json(group)})
        places = self._run.steps.places
        whole = places[-2] if len(places) > 1 else None  # the last step may have more to come
        if whole is not None and whole != self._judged:
            self._judged = whole
            self._judge({name: column_S[:-1] for name, column_S in self.columns.items()})

    def _judge(self, columns: Mapping[str, Floats]) -> None:
        verdict = run_verdict(columns, rules_by_step(columns))
        if verdict.word != self.word and verdict.word in STATES:
            level = WARNING if verdict.word == "collapsing" else INFO
            told = (self._judged, verdict.word, verdict.rule, verdict.why)
            logger.log(level, "step %s: the run is %s (%s): %s", *told)
        self.word = verdict.word
        self.collapsing |= verdict.word == "collapsing"

    @property
    def columns(self) -> dict[str, Floats]:
        """The report's figures by step, which the word is made of."""
        return self._run.steps.means(READ)

    @property
    def numbers(self) -> dict[str, float]:
        """For a tracker; `collapsed` stays 1 once the run was collapsing."""
        state = {"run_state": float(STATES[self.word])} if self.word in STATES else {}
        return {**state, "collapsed": float(self.collapsing)}


_watches: WeakKeyDictionary[Any, dict[Any, RunWatch]] = WeakKeyDictionary()


def watch_of(scorer: Any, trainer: Any) -> RunWatch:
    """The watch of a trainer's run. Without a trainer, of what this process scores by these settings."""
    watches = _watches.setdefault(RunWatch if trainer is None else trainer, {})
    return watches.setdefault((scorer, os.getpid()), RunWatch(kind=scorer.kind))
