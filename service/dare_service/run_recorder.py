"""What the scoring routes tell of the groups that they have scored: to the run log, which the page follows."""

from __future__ import annotations

import os
import shutil
import tempfile
import threading
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import orjson

from dare_reward.runs.line import asked_for, of_scored
from dare_reward.scoring.score import ScoredGroups

from .log import Runs
from .settings import Settings

if TYPE_CHECKING:  # loaded where there is a log, and a page
    from dare_reward.runs.log import RunLog

    from .page.live import LivePage

REMEMBERED: Final = 1 << 12  # requests that a repetition is known of
PRIVATE: Final = 32 << 20  # bytes of a log that nobody has named a folder for


class RunRecorder:
    """One per process. Called on the threads that score; without a run log it does nothing."""

    def __init__(self, settings: Settings, runs: Runs) -> None:
        self._warn = partial(runs.warn, "")
        self._seen: OrderedDict[tuple[str | None, int | None, str], None] = OrderedDict()
        self._lock = threading.Lock()
        self._repeated = 0  # groups of requests that came again
        self._private: tuple[int, Path] | None = None  # the process that made a folder for itself, and where
        self.log: RunLog | None = None
        self.page: LivePage | None = None
        self.asked = frozenset[str]()
        if settings.run_log != "off" and (settings.run_log or settings.page == "on"):
            self._begin(settings)

    def _begin(self, settings: Settings) -> None:
        """Log where the settings say, else in a private folder for the page."""
        from dare_reward.runs.log import LEVEL, RunLog  # noqa: PLC0415

        if not settings.run_log:
            try:
                self._private = os.getpid(), Path(tempfile.mkdtemp(prefix="dare-run-log-"))
            except OSError as error:
                why = f"no temporary folder can be made, so there is no run log and no page: {error.strerror}"
                self._warn("run_log_unwritable", why)
                return
        folder = Path(settings.run_log or self.private)
        if not _writable(folder):
            why = "DARE_RUN_LOG is no folder that can be written, and groups will be missing there"
            self._warn("run_log_unwritable", why, folder=str(folder))
        self.asked = asked_for(settings.run_log_texts)
        self.log = RunLog(
            folder,
            self.asked,
            max_bytes=settings.run_log_max_bytes if settings.run_log else PRIVATE,
            level=LEVEL if settings.run_log else 0,
            encode=lambda line: orjson.dumps(line, default=dict),
            warn=self._warn,
        )
        if settings.page == "on":
            from .page.live import LivePage  # noqa: PLC0415

            self.page = LivePage(folder, self._warn)
            self.log.wrote, self.log.going = self.page.grew, self.page.read

    @property
    def private(self) -> str:
        """The folder that this process made for itself, if it did."""
        return str(self._private[1]) if self._private else ""

    def record(
        self,
        scored: ScoredGroups,
        groups: Sequence[Mapping[str, Any]],
        *,
        run: str | None,
        step: int | None,
        encoded: Sequence[bytes] | None = None,
        key: str = "",
    ) -> None:
        """Groups as they were sent, and what came of them.

        encoded   their replies, if they are JSON already
        key       what a repetition of the request has too
        """
        if self.log is not None and (not key or self._is_new((run, step, key), len(groups))):
            made = partial(of_scored, scored, groups, asked=self.asked, run=run, step=step, encoded=encoded)
            self.log.add_made(made, len(groups))

    def _is_new(self, request: tuple[str | None, int | None, str], groups: int) -> bool:
        """A request that a client repeats, because the reply was lost, is logged and shown once."""
        with self._lock:
            if request in self._seen:
                self._seen.move_to_end(request)
                self._repeated += groups
                return False
            self._seen[request] = None
            if len(self._seen) > REMEMBERED:
                self._seen.popitem(last=False)
        return True

    @property
    def status(self) -> dict[str, int] | None:
        """The counts of the run log for `GET /info`."""
        return None if self.log is None else {**self.log.status, "repeated": self._repeated}

    def flush(self, seconds: float = 30.0) -> bool:
        """Wait until what was scored is written, or has failed; False if that takes longer."""
        return self.log is None or self.log.flush(seconds)

    def close(self) -> None:
        if self.log is not None:
            self.log.close()
        if self._private is not None and self._private[0] == os.getpid():
            shutil.rmtree(self._private[1], ignore_errors=True)


def _writable(folder: Path) -> bool:
    """The folder, or what is above it where it has to be made first; a link that leads nowhere is none."""
    place = next(above for above in (folder, *folder.parents) if os.path.lexists(above))
    # `Path.is_dir` raises where a link leads below what this user may not enter.
    return os.path.isdir(place) and os.access(place, os.W_OK | os.X_OK)  # noqa: PTH112
