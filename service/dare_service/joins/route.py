"""A route that takes rollouts one by one: its join, and what is counted and logged of it."""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod

from ..log import logger
from ..metrics import Metrics
from ..run_notices import Runs
from ..run_recorder import RunRecorder
from ..settings import Settings
from ..workers import Workers
from .join import Join, Scored
from .rendezvous import JoiningGroup


class JoinRoute(ABC):
    """The state of a route. The key of a group begins with its run.

    stale, keep   seconds, as in `rendezvous.py`
    refusal       why this process must not join; empty: it may
    """

    def __init__(
        self,
        name: str,
        *,
        settings: Settings,
        metrics: Metrics,
        workers: Workers,
        runs: Runs,
        recorder: RunRecorder,
        refusal: str,
        stale: float,
        keep: float,
    ) -> None:
        self._settings = settings
        self._metrics = metrics
        self._workers = workers
        self._runs = runs
        self._recorder = recorder
        self._refusal = refusal
        self.join: Join[bytes] = Join(self._score, stale=stale, keep=keep, memory=settings.join_memory, observer=self)
        join = self.join  # its state is read when the metrics are
        metrics.join_waiting.labels(name).set_function(lambda: join.waiting)
        metrics.join_open.labels(name).set_function(lambda: join.groups.open_groups)
        metrics.join_remembered.labels(name).set_function(lambda: join.groups.remembered)
        metrics.join_bytes.labels(name).set_function(lambda: join.groups.bytes)

    @abstractmethod
    async def _score(self, group: JoiningGroup) -> Scored[bytes]:
        """A reply per slot, written where the group is scored: all are sent at once, and then the loop is busy."""

    def closed(self, group: JoiningGroup) -> None:
        self._metrics.join_groups.labels(group.reason).inc()

    def scored(self, group: JoiningGroup, seconds: float) -> None:
        """One line for the group, instead of one for each rollout."""
        self._metrics.join_seconds.observe(seconds)
        if logger.isEnabledFor(logging.INFO):
            waited = [group.closed_at - slot.arrived for slot in group.slots]
            fields = {
                "run": group.key[0],
                "rollouts": len(group.slots),
                "group_size": group.size,
                "reason": group.reason,
                "fate": group.fate,
                "waited_s": round(max(waited), 3),
                "ms": round(seconds * 1e3, 3),
            }
            logger.info("group", extra={"fields": fields})

    def expired(self, groups: int) -> None:
        self._metrics.join_groups.labels("expired").inc(groups)
