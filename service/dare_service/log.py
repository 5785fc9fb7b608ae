"""The service's log, one JSON object a line; and what it has been told of each run, so that it says so once."""

from __future__ import annotations

import json
import logging
from collections import OrderedDict
from datetime import UTC, datetime
from typing import Any

from .metrics import Metrics

logger = logging.getLogger("dare_service")


class JSONLines(logging.Formatter):
    """One JSON object a line; the time is ISO 8601 in UTC, with milliseconds and zone."""

    def format(self, record: logging.LogRecord) -> str:
        entry = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "event": record.getMessage(),
        }
        entry.update(getattr(record, "fields", {}))
        if record.exc_info:
            entry["traceback"] = self.formatException(record.exc_info)
        return json.dumps(entry)


REMEMBERED = 1024


class Runs:
    """Runs by name, the most recently used ones."""

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics
        self._warnings: dict[str, dict[str, Any]] = {}
        self._said: OrderedDict[str, set[str]] = OrderedDict()

    def say(self, run: str, event: str, why: str, **fields: Any) -> bool:
        """A line in the log, the first time that this happens in the run; whether it was."""
        known = self._said.setdefault(run, set())
        self._said.move_to_end(run)
        if len(self._said) > REMEMBERED:
            self._said.popitem(last=False)
        if event in known:
            return False
        known.add(event)
        logger.warning(event, extra={"fields": {"run": run, **fields, "why": why}})
        return True

    def warn(self, run: str, event: str, why: str, **fields: Any) -> None:
        """What a user should change: a line and a count, the first time in the run, and an entry of `GET /info`."""
        if self.say(run, event, why, **fields):
            self._metrics.warnings.labels(event).inc()
            entry = self._warnings.setdefault(event, {"event": event, "why": why, "runs": 0})
            entry["runs"] += 1

    @property
    def warnings(self) -> list[dict[str, Any]]:
        """Each event with its first sentence and the number of runs in which it was found; runs are not named."""
        return list(self._warnings.values())
