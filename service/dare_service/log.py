"""The service's log: one JSON object a line."""

from __future__ import annotations

import json
import logging
from datetime import UTC, datetime

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
