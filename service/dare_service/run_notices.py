"""What is known of each run: which clients are live under its name, and what its log has been told already."""

from __future__ import annotations

import logging
from collections import Counter, OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from .joins.rendezvous import JoiningGroup
from .metrics import Metrics
from .middleware import logger

__all__ = ["Runs"]

REMEMBERED = 1024


@dataclass(slots=True)
class _Run:
    live: Counter[str] = field(default_factory=Counter)
    said: set[str] = field(default_factory=set)


class Runs:
    """Runs by name, the most recently used ones."""

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics
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

    def group(self, run: str, group: JoiningGroup, seconds: float) -> None:
        """A line for a group of single rollouts that was scored, instead of one for each of them."""
        if logger.isEnabledFor(logging.INFO):
            waited = [group.closed_at - slot.arrived for slot in group.slots]
            fields = {
                "run": run,
                "rollouts": len(group.slots),
                "group_size": group.size,
                "reason": group.reason,
                "fate": group.fate,
                "waited_s": round(max(waited), 3),
                "ms": round(seconds * 1e3, 3),
            }
            logger.info("group", extra={"fields": fields})

    @contextmanager
    def live(self, run: str, address: str) -> Iterator[None]:
        """A request of that address waits. A second one under the run is flagged: two jobs must not mix silently."""
        known = self._run(run)
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
            yield
        finally:
            known.live[address] -= 1
            if not known.live[address]:
                del known.live[address]

    def _run(self, name: str) -> _Run:
        known = self._runs.setdefault(name, _Run())
        self._runs.move_to_end(name)
        while len(self._runs) > REMEMBERED:
            self._runs.popitem(last=False)
        return known
