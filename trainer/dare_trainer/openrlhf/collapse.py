"""Where a run collapses, for the actor's log: with `on_collapse=warn`.

The word is that of the report (`report.verdict`), by rules that see no label. They are heuristics, and end no training.
"""

from __future__ import annotations

import logging

from dare_reward.reply import Reply, group_json
from dare_reward.report.book import RunTotals
from dare_reward.report.verdict import READ, rules_by_step, run_verdict
from dare_reward.segments import Floats

logger = logging.getLogger("dare_trainer")


class RunWatch:
    """The state of one run: `see` each reply, `word` is that of the last whole step; 64 groups count as a step."""

    def __init__(self) -> None:
        self.word = "too early"
        self._run = RunTotals("")
        self._judged: int | None = None

    def see(self, reply: Reply) -> None:
        """Count a reply's groups, which have the names of their prompts, so that label flips are known."""
        for group in reply.groups:
            line = {"time": "now", "group_id": group.group_id, "rollouts": (), "reply": group_json(group)}
            self._run.add(line)
        places = self._run.steps.places
        whole = places[-2] if len(places) > 1 else None  # the last step may have more to come
        if whole is not None and whole != self._judged:
            self._judged = whole
            self._judge()

    def _judge(self) -> None:
        columns = {name: column_S[:-1] for name, column_S in self.columns.items()}
        verdict = run_verdict(columns, rules_by_step(columns))
        if verdict.word != self.word and verdict.word in {"fine", "sharpening", "collapsing"}:
            level = logging.WARNING if verdict.word == "collapsing" else logging.INFO
            told = (self._judged, verdict.word, verdict.rule, verdict.why)
            logger.log(level, "step %s: the run is %s (%s): %s", *told)
        self.word = verdict.word

    @property
    def columns(self) -> dict[str, Floats]:
        """The report's figures by step, which the word is made of."""
        return self._run.steps.means(READ)
