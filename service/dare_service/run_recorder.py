"""What the scoring routes tell of the groups that they have scored: to the run log and to the page, if they are on."""

from __future__ import annotations

import os
import threading
from collections.abc import Mapping, Sequence
from typing import Any

from starlette.requests import Request

from dare_reward.runs.line import of_scored
from dare_reward.scoring.score import ScoredGroups

from .keeper.link import Link
from .keeper.messages import Setup
from .run_notices import Runs
from .settings import Settings

__all__ = ["RunRecorder", "recorded"]


def recorded(request: Request) -> bool:
    """Whether run log and page are told of a request; a group of several needs the word of each."""
    return request.headers.get("dare-record", "").lower() != "no"


class RunRecorder:
    """One per process. Called on the threads that score; without a run log and a page it does nothing."""

    def __init__(self, settings: Settings, runs: Runs) -> None:
        self._runs = runs
        self.keeper: Link | None = None
        self.set_up(settings)

    def set_up(self, settings: Settings) -> None:
        """Record as these settings say from now on. What an earlier keeper has is written by a thread."""
        old, self.keeper = self.keeper, None
        self.asked = settings.logged_texts if settings.run_log else frozenset()
        self.logs = bool(settings.run_log)
        if settings.run_log or settings.page == "on":
            setup = Setup(
                folder=settings.run_log,
                asked=self.asked,
                max_bytes=settings.run_log_max_bytes,
                max_age=settings.run_log_max_age,
                page=settings.page == "on",
            )
            self.keeper = Link(setup, lambda event, why: self._runs.warn("", event, why))
        if settings.run_log and not _writable(settings.run_log):
            why = "DARE_RUN_LOG is no folder that can be written, and groups will be missing there"
            self._runs.warn("", "run_log_unwritable", why, folder=settings.run_log)
        if old is not None:
            threading.Thread(target=old.close, name="last-keeper").start()

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
        keeper = self.keeper
        if keeper is None:
            return
        try:
            record = of_scored(scored, groups, asked=self.asked, run=run, step=step, encoded=encoded, key=key)
            keeper.add(record)
        except Exception as error:  # noqa: BLE001  (a log never ends what it is a log of)
            keeper.fail(len(groups), f"groups could not be logged: {type(error).__name__}: {error}")

    @property
    def status(self) -> dict[str, int] | None:
        """The counts of the run log for `GET /info`."""
        return self.keeper.log_status if self.keeper is not None and self.logs else None

    def close(self) -> None:
        if self.keeper is not None:
            self.keeper.close()


def _writable(folder: str) -> bool:
    """The folder, or what is above it where it has to be made first."""
    while not os.path.exists(folder):  # noqa: PTH110  (Path raises where a folder above may not be read)
        folder = os.path.dirname(folder) or os.curdir  # noqa: PTH120
    return os.path.isdir(folder) and os.access(folder, os.W_OK | os.X_OK)  # noqa: PTH112
