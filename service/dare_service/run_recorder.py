"""What the scoring routes tell of the groups that they have scored: to the run log and to the page, if they are on."""

from __future__ import annotations

import os
import threading
import time
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from pydantic_core import to_json
from starlette.requests import Request

from dare_reward.runs.line import RunRecord, of_scored
from dare_reward.runs.log import RunLog
from dare_reward.scoring.score import ScoredGroups

from .page.feed import Feed
from .page.past import load
from .run_notices import Runs
from .settings import Settings

REMEMBERED: Final = 1 << 12  # requests that a repetition is known of


def recorded(request: Request) -> bool:
    """Whether run log and page are told of a request; a group of several needs the word of each."""
    return request.headers.get("dare-record", "").lower() != "no"


class RunRecorder:
    """One per process. Called on the threads that score; without a run log and a page it does nothing."""

    def __init__(self, settings: Settings, runs: Runs) -> None:
        self._runs = runs
        self._seen: OrderedDict[tuple[str | None, int | None, str], None] = OrderedDict()
        self._lock = threading.Lock()
        self._counts = {"failed": 0, "repeated": 0}
        self.log: RunLog | None = None
        self.feed: Feed | None = None
        self.set_up(settings)

    def set_up(self, settings: Settings) -> None:
        """Record as these settings say from now on. What an earlier log has is written by a thread; the page stays."""
        old, self.log, folder = self.log, None, Path(settings.run_log)
        self.asked = settings.logged_texts if settings.run_log else frozenset()
        if settings.run_log:
            if not _writable(settings.run_log):
                why = "DARE_RUN_LOG is no folder that can be written, and groups will be missing there"
                self._runs.warn("", "run_log_unwritable", why, folder=settings.run_log)
            self.log = RunLog(
                folder,
                self.asked,
                max_bytes=settings.run_log_max_bytes,
                max_age=settings.run_log_max_age,
                encode=lambda line: to_json(line, inf_nan_mode="null"),
                warn=self._warn,
            )
        if settings.page == "on" and self.feed is None:
            self.feed = Feed(self._warn)
            if settings.run_log:
                self.feed.begin(lambda: load(folder, lambda why: self._warn("page_failed", why)))
        if old is not None:
            threading.Thread(target=old.close, name="last-run-log").start()

    def scored(
        self,
        scored: ScoredGroups,
        groups: Sequence[Mapping[str, Any]],
        *,
        run: str | None,
        step: int | None,
        encoded: Sequence[bytes] | None = None,
        key: str | None = None,
    ) -> None:
        """Groups as they were sent, and what came of them.

        encoded   their replies, if they are JSON already
        key       what a repetition of the request has too
        """
        if self.log is None and self.feed is None:
            return
        try:
            record = of_scored(scored, groups, asked=self.asked, run=run, step=step, encoded=encoded)
            if key is None or self._is_new(record, key):
                now = time.time()
                if self.log is not None:
                    self.log.add(record, now)
                if self.feed is not None:
                    self.feed.add(record, now)
        except Exception as error:  # noqa: BLE001  (a log never ends what it is a log of)
            self._counts["failed"] += len(groups)
            self._warn("run_log_failed", f"groups could not be logged: {type(error).__name__}: {error}")

    def _is_new(self, record: RunRecord, key: str) -> bool:
        """A request that a client repeats, because the reply was lost, is logged and shown once."""
        request = (record.run, record.step, key)
        with self._lock:
            if request in self._seen:
                self._seen.move_to_end(request)
                self._counts["repeated"] += len(record.sizes)
                return False
            self._seen[request] = None
            if len(self._seen) > REMEMBERED:
                self._seen.popitem(last=False)
        return True

    @property
    def status(self) -> dict[str, int] | None:
        """The counts of the run log for `GET /info`."""
        if self.log is None:
            return None
        told = self.log.status
        return {**told, **self._counts, "failed": told["failed"] + self._counts["failed"]}

    def settle(self, seconds: float = 30.0) -> bool:
        """Wait until what was scored is written and shown, or has failed; False if that takes longer."""
        written = self.log is None or self.log.flush(seconds)
        return written and (self.feed is None or self.feed.settle(seconds))

    def close(self) -> None:
        if self.log is not None:
            self.log.close()

    def _warn(self, event: str, why: str) -> None:
        self._runs.warn("", event, why)


def _writable(folder: str) -> bool:
    """The folder, or what is above it where it has to be made first."""
    while not os.path.exists(folder):  # noqa: PTH110  (Path raises where a folder above may not be read)
        folder = os.path.dirname(folder) or os.curdir  # noqa: PTH120
    return os.path.isdir(folder) and os.access(folder, os.W_OK | os.X_OK)  # noqa: PTH112
