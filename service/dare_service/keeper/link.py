"""The service's end: records wait in a bounded queue, and a thread hands them to the keeper.

What a request pays for is an append. The thread writes to a pipe, which needs no interpreter lock; encoding, counting
and compressing happen in the keeper. A keeper that dies is started again, and what it had not written counts as failed.
"""

from __future__ import annotations

import atexit
import itertools
import os
import subprocess
import sys
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Mapping
from contextlib import suppress
from multiprocessing.connection import Connection
from typing import Any, Final

from pydantic_core import to_json

from dare_reward.runs.line import RunRecord

from .messages import Answer, Ask, Message, Setup, Status, Warned, receive, send, widen

__all__ = ["Link"]

WAITING: Final = 64 << 20  # bytes of records that wait for the thread; more are dropped and counted
PAUSE: Final = 0.05  # seconds that records are gathered for, and in which a request's client has its reply
AGAIN: Final = 5.0  # seconds between two starts of a keeper
CLOSING: Final = 3.0  # seconds in which the keeper has all that waits, and ends; then it is killed
SILENT: Final = Status({}, 0, 0)


class Link:
    """`add` from any thread; it neither blocks nor raises. The keeper is started by the first record or question."""

    def __init__(self, setup: Setup, warn: Callable[[str, str], None]) -> None:
        self._setup, self._warn = setup, warn
        self.pid = 0  # the keeper's
        self._forget()

    def _forget(self) -> None:
        self._owner = os.getpid()
        self._more = threading.Condition()
        self._queue: deque[tuple[float, RunRecord] | Ask] = deque()
        self._waiting = 0
        self._thread: threading.Thread | None = None
        self._stopping = False
        self._counts: Counter[str] = Counter()  # of keepers that are gone, and of this side
        self._sent = 0  # groups that this keeper was given
        self._status = SILENT
        self._answers: dict[int, bytes] = {}
        self._asked: set[int] = set()
        self._given: set[int] = set()  # the questions that this keeper has
        self._numbers = itertools.count(1)
        self._process: subprocess.Popen[bytes] | None = None
        self._pipe: Connection | None = None
        self._started = -AGAIN
        self._told: set[str] = set()
        self._version = 0  # of pages that are gone

    def add(self, record: RunRecord) -> None:
        """Leave a request's groups to the keeper, or count them as dropped if too much waits already."""
        weight, full = record.weight, False
        with self._mine():
            if self._stopping or (self._queue and self._waiting + weight > WAITING):
                self._counts["dropped"] += len(record.sizes)
                full = not self._stopping
            else:
                self._queue.append((time.time(), record))
                self._waiting += weight
                self._wake()
        if full:
            self._say("run_log_full", "groups come faster than they are written, and some are left out")

    def fail(self, groups: int, why: str) -> None:
        """Count groups that could not be handed over."""
        self._counts["failed"] += groups
        self._say("run_log_failed", why)

    def settle(self, seconds: float = 30.0) -> bool:
        """Wait until what was added is written and shown, or has failed; False if that takes longer."""
        return self._ask(view=False, seconds=seconds) is not None

    def view(self, seconds: float = 10.0) -> bytes | None:
        """The page's view as JSON; None if the keeper does not answer."""
        return self._ask(view=True, seconds=seconds)

    def close(self) -> None:
        """Let the keeper write what waits, and end."""
        if self._owner != os.getpid() or self._thread is None:
            return
        with self._more:
            self._stopping = True
            self._more.notify_all()
        until = time.monotonic() + CLOSING
        self._thread.join(CLOSING)
        process = self._process
        if process is not None:
            try:
                process.wait(max(until - time.monotonic(), 0.0))
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
                self._say("run_log_failed", "groups may be missing in the run log: its process did not end in time")
                self._thread.join(1.0)  # what it waited for is gone

    @property
    def version(self) -> int:
        """It grows with what the page knows."""
        return self._version + self._status.version

    @property
    def log_status(self) -> dict[str, int]:
        """Counts of groups, and the bytes of this process's segments."""
        told, own = self._status.log, self._counts
        names = ("flushed", "dropped", "failed", "repeated")
        return {**{n: own[n] + told.get(n, 0) for n in names}, "bytes": told.get("bytes", 0)}

    # --- inside -------------------------------------------------------------------------------------------------------

    def _mine(self) -> threading.Condition:
        """The lock of this process: after a fork, the child has a keeper of its own."""
        if self._owner != os.getpid():
            self._forget()
        return self._more

    def _wake(self) -> None:
        if self._thread is None:
            thread = threading.Thread(target=self._work, name="keeper", daemon=True)
            thread.start()
            self._thread = thread
            atexit.register(self.close)
        self._more.notify_all()

    def _ask(self, *, view: bool, seconds: float) -> bytes | None:
        with self._mine():
            if self._stopping:
                return None
            ask = Ask(next(self._numbers), view)
            self._asked.add(ask.number)
            self._queue.append(ask)
            self._wake()
            self._more.wait_for(lambda: ask.number in self._answers or ask.number not in self._asked, seconds)
            self._asked.discard(ask.number)
            return self._answers.pop(ask.number, None)

    def _work(self) -> None:
        while True:
            with self._more:
                self._more.wait_for(lambda: self._queue or self._stopping)
                stopping = self._stopping
            if not stopping and not isinstance(self._queue[0], Ask):
                time.sleep(PAUSE)
            while self._queue:
                self._hand_over(self._queue[0])
                with self._more:
                    gone = self._queue.popleft()
                    if not isinstance(gone, Ask):
                        self._waiting -= gone[1].weight
            if stopping:
                break
        if self._pipe is not None:
            self._pipe.close()  # the keeper reads to the end, and goes

    def _hand_over(self, item: tuple[float, RunRecord] | Ask) -> None:
        """A second keeper gets what a first one could not take, once."""
        groups = 0 if isinstance(item, Ask) else len(item[1].sizes)
        try:
            message = item if isinstance(item, Ask) else (item[0], item[1].written(_encode))
            for _ in range(2):
                pipe = self._keeper()
                try:
                    send(pipe, message)
                except OSError:
                    self._end(pipe)
                    continue
                self._sent += groups
                if isinstance(item, Ask):
                    self._given.add(item.number)
                return
            why = "the process that writes it ends at once"
        except Exception as error:  # noqa: BLE001  (whatever a record holds, the next ones are handed over)
            why = f"{type(error).__name__}: {error}"
        if isinstance(item, Ask):
            with self._more:
                self._asked.discard(item.number)
                self._more.notify_all()
        self.fail(groups, f"groups are missing in the run log and on the page: {why}")

    def _keeper(self) -> Connection:
        """The pipe to the keeper, which is started if there is none, but not twice in a few seconds; OSError."""
        if self._pipe is not None:
            return self._pipe
        if self._stopping and self._process is not None:
            raise OSError("the process that writes it has ended, and the service stops")
        with self._more:
            self._more.wait_for(lambda: self._stopping, self._started + AGAIN - time.monotonic())
        self._started = time.monotonic()
        inward, ours = os.pipe()
        theirs, outward = os.pipe()
        try:
            for end in (ours, outward):
                widen(end)
            command = [sys.executable, "-P", "-m", "dare_service.keeper", str(inward), str(outward)]
            self._process = subprocess.Popen(  # noqa: S603  (our own module by our own interpreter)
                command, stdin=subprocess.DEVNULL, pass_fds=(inward, outward), process_group=0
            )
        except BaseException:
            os.close(ours)
            os.close(theirs)
            raise
        finally:
            os.close(inward)
            os.close(outward)
        self.pid = self._process.pid
        self._pipe, self._sent = Connection(ours, readable=False), 0
        source = Connection(theirs, writable=False)
        threading.Thread(target=self._listen, args=(source, self._pipe), name="keeper-news", daemon=True).start()
        send(self._pipe, self._setup)
        return self._pipe

    def _listen(self, source: Connection, pipe: Connection) -> None:
        with suppress(EOFError, OSError):
            while True:
                self._heard(receive(source))
        source.close()
        if not self._stopping:
            self._end(pipe)

    def _heard(self, message: Message) -> None:
        if isinstance(message, Warned):
            self._say(message.event, message.why)
            return
        with self._more:
            if isinstance(message, Status):
                self._status = message
            elif isinstance(message, Answer):
                self._given.discard(message.number)
                if message.number in self._asked:
                    self._answers[message.number] = message.view
            self._more.notify_all()

    def _end(self, pipe: Connection) -> None:
        """The keeper is gone: what it was given and did not count is lost."""
        with self._more:
            if self._pipe is not pipe:
                return
            self._pipe = None
            pipe.close()
            if self._process is not None:
                self._process.kill()
                self._process.wait()
            told = self._status.log
            done = {n: told.get(n, 0) for n in ("flushed", "dropped", "failed", "repeated")}
            self._counts.update(done)
            lost = self._sent - sum(done.values()) if self._setup.folder else 0
            self._version += self._status.version + 1
            self._status, self._sent = SILENT, 0
            self._asked -= self._given
            self._given = set()
            self._more.notify_all()
        self.fail(max(lost, 0), "the process that writes the run log and the page ended, and is started again")

    def _say(self, event: str, why: str) -> None:
        if event not in self._told:
            self._told.add(event)
            self._warn(event, why)


def _encode(line: Mapping[str, Any]) -> bytes:
    return to_json(line, inf_nan_mode="null")
