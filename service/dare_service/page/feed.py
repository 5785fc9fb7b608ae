"""What the page knows: scored groups go into a bounded queue, and a thread adds them up.

A request hands its columns over, and lines are made only of the groups that the page picks. Where groups come faster
than the thread adds them up, some are left out and counted: the page loses them, the rewards and the run log do not.
"""

from __future__ import annotations

import os
import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final

from pydantic_core import to_json

from dare_reward import __version__
from dare_reward.report.book import RunBook
from dare_reward.report.view import BookView, unmeasured
from dare_reward.runs.line import ASKED, RunRecord

from .past import Past

WAITING: Final = 64 << 20  # bytes of records that wait for the thread
PAUSE: Final = 0.05  # seconds that groups are gathered for
CARDS: Final = 400_000  # bytes of the single groups in a view


class Feed:
    """`add` from any thread; `json` is the view of what was added, made again only where something was."""

    def __init__(self, warn: Callable[[str, str], None]) -> None:
        self.book = RunBook()
        self._shown = BookView(self.book, groups=CARDS)
        self.left_out = 0
        self._warn = warn
        self._past: Callable[[], Past] | None = None
        self._cut = False
        self._reading, self._pasts = False, 0
        self._queue: deque[tuple[float, RunRecord]] = deque()
        self._weight = 0
        self._queued = threading.Lock()
        self._book = threading.Lock()
        self._making = threading.Lock()
        self._more = threading.Event()
        self._idle = threading.Event()
        self._idle.set()
        self._pid = 0  # of the process whose thread adds up: after a fork, the child starts its own
        self._json: tuple[int, bytes] = (-1, b"")

    def begin(self, past: Callable[[], Past]) -> None:
        """Add up an earlier process's groups before all others."""
        with self._queued:
            self._past, self._reading = past, True
            self._idle.clear()
            self._start()
        self._more.set()

    def add(self, record: RunRecord, when: float) -> None:
        """Leave the groups of a request, scored at `when`, to the feed's thread. Texts stay away."""
        record = replace(record, texts={}, tokens=None, encoded=None)
        weight = record.weight
        with self._queued:
            if self._queue and self._weight + weight > WAITING:
                self.left_out += len(record.sizes)
                return
            self._queue.append((when, record))
            self._weight += weight
            self._idle.clear()
            self._start()
        self._more.set()

    def _start(self) -> None:
        if self._pid != os.getpid():
            self._pid = os.getpid()
            threading.Thread(target=self._work, name="page", daemon=True).start()

    @property
    def version(self) -> int:
        """It grows with what is known, and when an older log has been read."""
        return self.book.version + self._pasts

    def json(self) -> bytes:
        """The view as JSON."""
        with self._making:  # one at a time: who waited finds it made
            if self._json[0] != self.version:
                with self._book:
                    version, data = self.version, self._view()
                self._json = (version, to_json(data, inf_nan_mode="null"))
            return self._json[1]

    @property
    def unmeasured(self) -> list[str]:
        """The runs whose method reads entropies, of which no label says whether they are informative."""
        with self._book:
            return [run.name for run in self.book.runs.values() if unmeasured(run)]

    def settle(self, seconds: float = 10.0) -> bool:
        """Wait until all that was added is in the book; False if that takes longer."""
        return self._idle.wait(seconds)

    def _view(self) -> dict[str, Any]:
        left = f"{self.left_out:,} groups are not shown: they came too fast, or hold what cannot be shown"
        cut = "Older groups of these runs are in the run log: dare-reward report shows them all"
        notes = ". ".join(note for note, on in ((left, self.left_out), (cut, self._cut)) if on)
        head = {"live": True, "title": "", "source": notes, "made": "", "version": __version__}
        return head | self._shown.since(-1, reading=self._reading)

    def _work(self) -> None:
        while True:
            self._more.wait()
            self._more.clear()
            self._remember()
            time.sleep(PAUSE)
            while self._queue:
                when, record = self._queue[0]
                try:
                    with self._book:
                        self.book.add_record(record, when)
                except Exception as error:  # noqa: BLE001  (whatever a record holds, the next ones are shown)
                    self.left_out += len(record.sizes)
                    self._warn("page_failed", f"groups could not be shown on the page: {type(error).__name__}")
                with self._queued:
                    self._queue.popleft()
                    self._weight -= record.weight
            with self._queued:
                if not self._queue and self._past is None:
                    self._idle.set()

    def _remember(self) -> None:
        past, self._past = self._past, None
        if past is None:
            return
        try:
            found = past()
            self._cut = found.cut
            for line in found.lines:
                shown = {name: value for name, value in line.items() if name not in ASKED}
                with self._book:
                    self.book.add(shown)
        except Exception as error:  # noqa: BLE001  (an old log that cannot be read hides nothing that comes)
            self._warn("page_failed", f"earlier runs could not be read for the page: {type(error).__name__}: {error}")
        with self._book:
            self._reading, self._pasts = False, self._pasts + 1
