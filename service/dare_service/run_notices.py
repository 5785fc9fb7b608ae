"""What is known of each run: which clients are live under its name, and what its log has been told already."""

from __future__ import annotations

import logging
import time
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from .log import logger
from .metrics import Metrics

REMEMBERED = 1024
FILLED = 1 << 14  # groups of a step that are remembered: a trainer that never pauses has one step without end
PAUSE = 2.0  # seconds without a rollout that end a phase; a client comes back within one


@dataclass(slots=True)
class _Run:
    """phase counts the stretches in which some rollout waited; filled: the keys of this phase's full groups."""

    live: Counter[str] = field(default_factory=Counter)
    said: set[str] = field(default_factory=set)
    warning: str = ""
    phase: int = 0
    idle_since: float = 0.0
    filled: set[str] = field(default_factory=set)


class Runs:
    """Runs by name, the most recently used ones."""

    def __init__(self, metrics: Metrics, clock: Callable[[], float] = time.monotonic) -> None:
        self._metrics = metrics
        self._clock = clock
        self._warnings: dict[str, dict[str, Any]] = {}
        self._runs: OrderedDict[str, _Run] = OrderedDict()

    def say(self, run: str, event: str, why: str, **fields: Any) -> bool:
        """A line in the log, the first time that this happens in the run; whether it was."""
        known = self._run(run)
        if event in known.said:
            return False
        known.said.add(event)
        self.line(run, event, why, **fields)
        return True

    def line(self, run: str, event: str, why: str, **fields: Any) -> None:
        """A line in the log, every time."""
        if logger.isEnabledFor(logging.WARNING):
            logger.warning(event, extra={"fields": {"run": run, **fields, "why": why}})

    def warn(self, run: str, event: str, why: str, **fields: Any) -> None:
        """What a user should change: a line and a count, the first time in the run, and an entry of `GET /info`."""
        if self.say(run, event, why, **fields):
            self._run(run).warning = why
            self._metrics.warnings.labels(event).inc()
            entry = self._warnings.setdefault(event, {"event": event, "why": why, "runs": 0})
            entry["runs"] += 1

    @property
    def warnings(self) -> list[dict[str, Any]]:
        """Each event with its first sentence and the number of runs in which it was found; runs are not named."""
        return list(self._warnings.values())

    def warning(self, run: str) -> str:
        """The run's last warning, or nothing."""
        return self._runs[run].warning if run in self._runs else ""

    def filled_again(self, run: str, group: str, phase: int) -> bool:
        """A group of the run is full, whose first rollout came in `phase`: was its key full in that phase before?

        A trainer that waits for its rewards leaves a pause between its steps, so a phase lies within one step.
        """
        known = self._run(run)
        if phase != known.phase:
            return False
        again = group in known.filled
        if len(known.filled) >= FILLED:
            known.filled.clear()
        known.filled.add(group)
        return again

    @contextmanager
    def live(self, run: str, address: str) -> Iterator[int]:
        """A request of that address waits; yields the run's phase.

        A second address under the run is flagged: two jobs must not mix silently.
        """
        known = self._run(run)
        if not known.live and self._clock() - known.idle_since > PAUSE:
            known.phase += 1
            known.filled.clear()
        if (
            known.live
            and address not in known.live
            and self.say(
                run,
                f"second_address {address}",
                "right for one job on several nodes, wrong for two jobs: give each job its own run=",
                addresses=sorted({*known.live, address})[:8],
            )
        ):
            self._metrics.join_addresses.labels("run").inc()
        known.live[address] += 1
        try:
            yield known.phase
        finally:
            known.live[address] -= 1
            if not known.live[address]:
                del known.live[address]
                known.idle_since = self._clock()

    def _run(self, name: str) -> _Run:
        known = self._runs.setdefault(name, _Run())
        self._runs.move_to_end(name)
        while len(self._runs) > REMEMBERED:
            self._runs.popitem(last=False)
        return known
