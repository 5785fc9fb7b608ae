"""What the page knows: it follows the run log on disk, with the reader and the totals of `dare-reward report`.

Nothing of a request is handed over, so rewards never wait for the page, and page and report say the same. Totals stay
when the log's oldest files go.
"""

from __future__ import annotations

import secrets
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import orjson

from dare_reward import __version__
from dare_reward.report.book import RunBook
from dare_reward.report.view import unmeasured, view
from dare_reward.runs.reader import Follower

NEWEST: Final = 16 << 20  # bytes of an older log that are read, and that may wait: 15,000 groups of 64 rollouts
GROUPS: Final = 400_000  # bytes of the single groups in a view


class LivePage:
    """`json` is the report. What the log gains is read once, when somebody looks, or before it goes."""

    def __init__(self, folder: Path, warn: Callable[[str, str], None]) -> None:
        self.book = RunBook()
        self._warn = warn
        self._epoch = secrets.token_hex(4)
        self._unread = 0
        self._lock = threading.Lock()
        self._log = Follower(folder, NEWEST, orjson.loads)
        self.ledger = self._log.ledger  # where the lines of the log went

    def grew(self, size: int) -> None:
        """So many bytes more are on disk, the thread of the log says."""
        self._unread += size
        if self._unread > NEWEST:
            self._unread = 0
            threading.Thread(target=self.read, name="page", daemon=True).start()

    @property
    def unmeasured(self) -> list[str]:
        """The runs whose method reads entropies, of which no label says whether they are informative."""
        self.read()
        with self._lock:
            return [run.name for run in self.book.runs.values() if unmeasured(run)]

    def json(self, seen: str = "") -> bytes:
        """Every run as JSON; nothing if a page has `seen` that already. For one that opens, all labels are judged."""
        self.read()
        with self._lock:
            now = f"{self._epoch}-{self.book.lines}"
            if now == seen:
                return b""
            head = {"live": True, "title": "", "source": self._source(), "made": "", "version": __version__}
            return orjson.dumps({**head, "now": now, **view(self.book, groups=GROUPS, anew=not seen)}, default=dict)

    def read(self) -> None:
        """Read what is on disk."""
        with self._lock:
            try:
                for line in self._log.new():
                    _bare(line)
                    self.book.add(line)
            except Exception as error:  # noqa: BLE001  (a page never ends what it shows)
                why = f"the run log could not be read for the page: {type(error).__name__}: {error}"
                self._warn("page_failed", why)

    def _source(self) -> str:
        """What is not shown, or no longer on disk."""
        notes = {
            self.ledger.sentence: self.ledger.lost,
            f"{self._log.older:,} older files of the log were not read: dare-reward report shows them": self._log.older,
            f"{self._log.gone:,} older files of the log are gone, and their groups still counted": self._log.gone,
            self.book.left_out: self.book.gone,
        }
        return ". ".join(note for note, said in notes.items() if said)


def _bare(line: dict[str, Any]) -> None:
    """Prompts and texts stay in the log; of a prompt, what tells it from others is known."""
    if (prompt := line.pop("prompt", None)) is not None:
        line["asked"] = hash(prompt)
    for rollout in line["rollouts"]:
        rollout.pop("text", None)
