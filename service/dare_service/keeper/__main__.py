"""The keeper: `python -m dare_service.keeper IN OUT`, started by the service with the ends of two pipes.

It ends when the service does, however that ends: the pipe is then at its end, and what came through it is written.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections import OrderedDict
from contextlib import suppress
from functools import partial
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Final

from pydantic_core import to_json

from dare_reward.runs.line import RunRecord
from dare_reward.runs.log import RunLog

from .feed import Feed
from .messages import Answer, Ask, Setup, Status, Warned, receive, send
from .past import load

__all__ = ["Keeper", "main"]

TICK: Final = 0.1  # seconds between two looks at how far the writing is
REMEMBERED: Final = 1 << 12  # requests that a repetition is known of
NICE: Final = 5  # scoring goes before it, but it gets a quarter of a processor that both want


class Keeper:
    """Run log and page of one service, fed by its messages."""

    def __init__(self, setup: Setup, out: Connection) -> None:
        self._out = out
        self._sending = threading.Lock()
        self._came = threading.Event()
        self._told: Status | None = None
        self._seen: OrderedDict[tuple[str | None, int | None, str], None] = OrderedDict()
        self._repeated = 0
        self.log = None
        if setup.folder:
            self.log = RunLog(
                Path(setup.folder),
                setup.asked,
                max_bytes=setup.max_bytes,
                max_age=setup.max_age,
                encode=lambda line: to_json(line, inf_nan_mode="null"),
                warn=self._warn,
            )
        self.feed = Feed(self._warn) if setup.page else None
        if self.feed is not None and setup.folder:
            self.feed.begin(lambda: load(Path(setup.folder), partial(self._warn, "page_failed")))
        threading.Thread(target=self._report, name="status", daemon=True).start()

    def take(self, message: tuple[float, RunRecord] | Ask) -> None:
        """A record, or a question, which is answered when all records before it are settled."""
        if isinstance(message, Ask):
            threading.Thread(target=self._answer, args=(message,), daemon=True).start()
        elif self._is_new(message[1]):
            when, record = message
            if self.log is not None:
                self.log.add(record, when)
            if self.feed is not None:
                self.feed.add(record, when)
        self._came.set()

    def _is_new(self, record: RunRecord) -> bool:
        """A request that a client repeats, because the reply was lost, is logged and shown once."""
        if record.key is None:
            return True
        request = (record.run, record.step, record.key)
        if request in self._seen:
            self._seen.move_to_end(request)
            self._repeated += len(record.sizes)
            return False
        self._seen[request] = None
        if len(self._seen) > REMEMBERED:
            self._seen.popitem(last=False)
        return True

    def close(self) -> None:
        if self.log is not None:
            self.log.close()

    @property
    def status(self) -> Status:
        log, feed = self.log, self.feed
        counts = {"repeated": self._repeated} | ({} if log is None else log.status)
        return Status(counts, feed.version if feed else 0, feed.left_out if feed else 0)

    def _answer(self, ask: Ask) -> None:
        if not ask.view:
            if self.log is not None:
                self.log.flush()
            if self.feed is not None:
                self.feed.settle()
            self._tell()
        self._say(Answer(ask.number, self.feed.json() if ask.view and self.feed is not None else b""))

    def _report(self) -> None:
        """Say how far the work is, as long as it goes on."""
        while True:
            self._came.wait()
            self._came.clear()
            while not self._idle() or not self._tell():
                time.sleep(TICK)

    def _idle(self) -> bool:
        log, feed = self.log, self.feed
        return (log is None or log.flush(0.0)) and (feed is None or feed.settle(0.0))

    def _tell(self) -> bool:
        """Whether nothing has changed since the last time."""
        with self._sending:
            status = self.status
            same = status == self._told
            self._told = status
        if not same:
            self._say(status)
        return same

    def _warn(self, event: str, why: str) -> None:
        self._say(Warned(event, why))

    def _say(self, message: Answer | Status | Warned) -> None:
        with self._sending, suppress(OSError):  # who has gone needs no news
            send(self._out, message)


def main(inward: int, outward: int) -> None:
    for name in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):  # they go to all processes of a service or a terminal
        signal.signal(name, signal.SIG_IGN)  # the end of the pipe says when to end
    with suppress(OSError):
        os.nice(NICE)
    source, keeper = Connection(inward, writable=False), None
    with suppress(EOFError, OSError):
        keeper = Keeper(receive(source), Connection(outward, readable=False))
        while True:
            keeper.take(receive(source))
    if keeper is not None:
        keeper.close()


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
