"""What the scoring routes tell of the groups that they have scored: to the run log and to the page, if they are on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from pydantic_core import to_json

from dare_reward._scoring.score import ScoredGroups
from dare_reward.runs.line import of_scored
from dare_reward.runs.log import RunLog

from .middleware import logger
from .page.feed import Feed
from .run_notices import Runs
from .settings import Settings

__all__ = ["RunRecorder"]


class RunRecorder:
    """One per process. Called on the threads that score; without a run log and a page it does nothing."""

    def __init__(self, settings: Settings, runs: Runs) -> None:
        self.asked = settings.logged_texts
        self.log: RunLog | None = None
        self.feed = Feed() if settings.page == "on" else None
        if settings.run_log:
            self.log = RunLog(
                Path(settings.run_log),
                self.asked,
                max_bytes=settings.run_log_max_bytes,
                max_age=settings.run_log_max_age,
                encode=_encoded,
                warn=lambda event, why: runs.warn("", event, why),
            )

    def scored(
        self,
        scored: ScoredGroups,
        groups: Sequence[Mapping[str, Any]],
        *,
        run: str | None,
        step: int | None,
        encoded: Sequence[bytes] | None = None,
    ) -> None:
        """Groups as they were sent, and what came of them; `encoded`: their replies, if they are JSON already."""
        if self.log is not None:
            make = partial(of_scored, scored, groups, asked=self.asked, run=run, step=step, encoded=encoded)
            self.log.add_made(make, len(groups))
        if self.feed is not None:
            try:
                self.feed.add(of_scored(scored, groups, run=run, step=step))
            except Exception as error:  # noqa: BLE001  (a page never ends what it shows)
                logger.warning("page", extra={"fields": {"why": type(error).__name__}})

    @property
    def status(self) -> dict[str, int] | None:
        """The counts of the run log for `GET /info`."""
        return None if self.log is None else self.log.status

    def close(self) -> None:
        if self.log is not None:
            self.log.close()


def _encoded(line: Mapping[str, Any]) -> bytes:
    return to_json(line, inf_nan_mode="null")
