"""The writer of a run log: a thread that encodes, compresses and writes what `add` leaves in a bounded queue.

Each flush is one whole member of a gzip file (`reader.member`), handed to the operating system in one piece. Whatever
kills the process, every group that `flushed` counts can be read; a torn end holds none of them.
"""

from __future__ import annotations

import atexit
import errno
import json
import logging
import math
import os
import secrets
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cache, partial
from hashlib import blake2b
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

import numpy as np

from .line import RunRecord, lines
from .reader import member

logger = logging.getLogger("dare_reward")

WAITING: Final = 64 << 20  # bytes of records that wait for the thread; more are dropped and counted
MEMBER: Final = 256 << 10  # bytes of lines in one gzip member
PAUSE: Final = 0.25  # seconds that lines are gathered for a member
SHARE: Final = 8  # a segment holds at most this part of the bounds, so that the oldest can go
BLOCK: Final = 4096  # bytes that the smallest file takes
LARGEST: Final = 8 << 20  # bytes of one segment, whatever the bounds are: a page reads the last 16 MiB in whole ones
TRIES: Final = 8  # at a folder that another process deletes meanwhile
CLOSING: Final = 5.0  # seconds that the end of a process waits for the thread, whatever the disk does
LEVEL: Final = 1  # of zlib: three times the speed of its default for a seventh more bytes

_starting = threading.Lock()


def _after_fork() -> None:
    global _starting  # noqa: PLW0603  (another thread of the parent may have held it)
    _starting = threading.Lock()


os.register_at_fork(after_in_child=_after_fork)


def encoded(line: Mapping[str, Any]) -> bytes:
    """A line as JSON; what is no number becomes null."""
    write = partial(json.dumps, ensure_ascii=False, allow_nan=False, separators=(",", ":"), default=np.generic.item)
    try:
        text = write(line)
    except ValueError:
        text = write(finite(line))
    return text.encode("utf-8", "replace")  # a lone surrogate is no text, and no JSON parser takes it


def finite(value: Any) -> Any:
    """A JSON value with null for what no JSON number is, at any depth."""
    if isinstance(value, Mapping):
        return {name: finite(x) for name, x in value.items()}
    if isinstance(value, list | tuple):
        return [finite(x) for x in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def folder_of(run: str | None) -> str:
    """The name of a run's folder: the run's, with what no file name may hold escaped."""
    name = quote(run or "unnamed", safe=" ", errors="replace").strip(" ")
    name = "%2E" + name[1:] if name.startswith(".") else name
    if 0 < len(name) <= 120:
        return name
    return f"{name[:100]}-{blake2b((run or '').encode('utf-8', 'replace'), digest_size=6).hexdigest()}"


@dataclass(slots=True, eq=False)
class _Segment:
    """A file that this process made. It is open only while it is written to: there may be as many as runs."""

    path: Path
    size: int = 0

    @classmethod
    def create(cls, path: Path) -> _Segment:
        for _ in range(TRIES):
            with suppress(FileNotFoundError):  # another process has just found the folder empty, and deleted it
                for folder in reversed(path.parents):  # for this user only, because rollouts are read in it
                    folder.mkdir(mode=0o700, exist_ok=True)
                os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
                return cls(path)
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT))

    def write(self, data: bytes) -> None:
        """All of it or nothing; OSError."""
        unwritten, fd = memoryview(data), os.open(self.path, os.O_WRONLY)
        try:
            while unwritten:
                unwritten = unwritten[os.pwrite(fd, unwritten, self.size + len(data) - len(unwritten)) :]
        except OSError:
            with suppress(OSError):
                os.ftruncate(fd, self.size)  # without what was begun and not finished
            raise
        finally:
            os.close(fd)
        self.size += len(data)


# flushed: groups that the operating system has; dropped: that found no room; failed: that could not be written.
NO_GROUPS: Final = {"flushed": 0, "dropped": 0, "failed": 0}


@dataclass(slots=True, eq=False)
class RunLog:
    """A folder that runs are logged to, each in a folder of its own.

    folder      is made when the first group comes
    asked       the optional keys of a line
    max_bytes   of this process's segments; the oldest go first
    encode      a line as JSON without a line break
    level       of zlib; 0: the fastest, and four times as many bytes
    warn        is told an event and a sentence, once each
    wrote       is told from the thread how many bytes there are more to read
    going       is called from it before lines are deleted

    `add` neither blocks nor raises, from any thread. After a fork the child writes files of its own.
    """

    folder: Path
    asked: frozenset[str] = frozenset()
    max_bytes: int = 1 << 30
    encode: Callable[[Mapping[str, Any]], bytes] = encoded
    warn: Callable[[str, str], None] = lambda event, why: logger.warning("%s: %s", event, why)
    clock: Callable[[], float] = time.time
    wrote: Callable[[int], None] = lambda _: None
    going: Callable[[], None] = lambda: None
    level: int = LEVEL
    counts: dict[str, int] = field(default_factory=NO_GROUPS.copy)
    _queue: deque[tuple[float, int, RunRecord]] = field(default_factory=deque)
    _waiting: int = 0
    _more: threading.Condition = field(default_factory=threading.Condition)
    _idle: bool = True
    _thread: threading.Thread | None = None
    _pid: int = 0
    _name: str = ""
    _number: int = 0
    _stopping: bool = False
    _told: set[str] = field(default_factory=set)
    _latest: dict[str, _Segment] = field(default_factory=dict)  # by run
    _own: deque[_Segment] = field(default_factory=deque)

    def add(self, record: RunRecord) -> None:
        """Leave a request's groups, scored just now, to the thread; or count them as dropped if too much waits."""
        if self._pid != os.getpid():
            with _starting:
                self._begin()
        with self._more:
            weight = record.weight
            full = bool(self._queue) and self._waiting + weight > WAITING
            if self._stopping or full:
                self.counts["dropped"] += len(record.groups)
            else:
                self._queue.append((self.clock(), weight, record))
                self._waiting += weight
                self._idle = False
                self._more.notify_all()
        if full:
            self._warn("run_log_full", "groups come faster than the run log is written, and some are left out of it")

    def add_made(self, make: Callable[[], RunRecord], groups: int) -> None:
        """`add` what `make` returns; if it raises, its groups count as failed."""
        try:
            self.add(make())
        except Exception as error:  # noqa: BLE001  (a log never ends what it is a log of)
            self._fail(groups, f"{groups} groups could not be logged: {type(error).__name__}: {error}")

    def flush(self, seconds: float = 10.0) -> bool:
        """Wait until what was added is written or counted as failed; False if that takes longer."""
        with self._more:
            return self._more.wait_for(lambda: self._idle, seconds)

    def close(self) -> None:
        """Write what waits, and end the thread, within CLOSING seconds."""
        if self._pid != os.getpid() or self._thread is None:
            return
        with self._more:
            self._stopping = True
            self._more.notify_all()
        self._thread.join(CLOSING)

    @property
    def status(self) -> dict[str, int]:
        """The counts of groups, and the bytes of this process's segments."""
        return {**self.counts, "bytes": sum(s.size for s in tuple(self._own))}

    # --- the thread ---------------------------------------------------------------------------------------------------

    def _begin(self) -> None:
        """The first record of this process: files under a name of its own, and a thread."""
        if self._pid == os.getpid():
            return
        self._more = threading.Condition()
        with self._more:
            self._number, self._waiting, self._idle, self._stopping = 0, 0, True, False
            self._queue, self._latest, self._own = deque(), {}, deque()
            self.counts = NO_GROUPS.copy() if self._pid else self.counts  # a child has none of its parent's
            now = datetime.fromtimestamp(self.clock(), UTC)
            self._name = f"{now:%Y%m%dT%H%M%S}{now.microsecond // 1000:03d}Z-{os.getpid()}-{secrets.token_hex(4)}"
            self._thread = threading.Thread(target=self._work, name="run-log", daemon=True)
            self._thread.start()
            atexit.register(self.close)
            self._pid = os.getpid()

    def _work(self) -> None:
        while True:
            with self._more:
                self._more.wait_for(lambda: self._queue or self._stopping)
                stopping = self._stopping
            if not stopping:
                time.sleep(PAUSE)
            try:
                self._drain()
                self._bound()
            except Exception as error:  # noqa: BLE001  (a thread that ended would lose all that comes later)
                self._fail(0, f"the run log stumbled: {type(error).__name__}: {error}")
            with self._more:
                self._idle = not self._queue
                self._more.notify_all()
                if self._stopping and self._idle:
                    break

    def _drain(self) -> None:
        """Write what waits now, run by run, a member at a time."""
        texts: dict[str, list[bytes]] = {}
        sizes: dict[str, int] = {}
        for _ in range(len(self._queue)):
            when, weight, record = self._queue[0]
            run, made = folder_of(record.run), list[bytes]()
            try:
                made = lines(record, when, self.encode)
            except Exception as error:  # noqa: BLE001  (whatever a record holds, the next ones are written)
                self._fail(len(record.groups), f"groups could not be logged: {type(error).__name__}: {error}")
            for text in made:
                texts.setdefault(run, []).append(text)
                sizes[run] = sizes.get(run, 0) + len(text)
                if sizes[run] >= MEMBER:
                    self._write(run, texts.pop(run))
                    del sizes[run]
            with self._more:
                self._queue.popleft()
                self._waiting -= weight
        for run, rows in texts.items():
            self._write(run, rows)

    def _write(self, run: str, texts: list[bytes]) -> None:
        """One member with these lines."""
        data = member(texts, self.level)
        try:
            self._segment(run).write(data)
        except Exception as error:  # noqa: BLE001  (a full disk, mostly; whatever it is, the thread goes on)
            why = getattr(error, "strerror", None) or f"{type(error).__name__}: {error}"
            self._fail(len(texts), f"groups are missing in the run log: {why}")
            return
        self.counts["flushed"] += len(texts)
        self.wrote(len(data))

    def _segment(self, run: str) -> _Segment:
        """The run's segment, a new one if the old one is full, or was deleted."""
        segment = self._latest.get(run)
        if segment is None or segment.size >= min(LARGEST, self.max_bytes // SHARE) or not segment.path.exists():
            segment = _Segment.create(self.folder / run / f"{self._name}-{self._number:06d}.jsonl.gz")
            self._number += 1
            self._own.append(segment)
            self._latest[run] = segment
        return segment

    def _bound(self) -> None:
        """Delete the oldest of this process's own segments while they are too many."""
        # What they take on the disk: many small runs count as what they are.
        total = sum(max(s.size, BLOCK) for s in self._own)
        while self._own and total > self.max_bytes:
            self.going()
            oldest = self._own.popleft()
            if self._latest.get(oldest.path.parent.name) is oldest:
                del self._latest[oldest.path.parent.name]
            total -= max(oldest.size, BLOCK)
            with suppress(OSError):
                oldest.path.unlink()
            with suppress(OSError):
                oldest.path.parent.rmdir()  # if nothing else is in it

    def _fail(self, groups: int, why: str) -> None:
        self.counts["failed"] += groups
        self._warn("run_log_failed", why)

    def _warn(self, event: str, why: str) -> None:
        if event not in self._told:
            self._told.add(event)
            self.warn(event, why)


@cache
def run_log_of(folder: Path, asked: frozenset[str]) -> RunLog:
    """The one writer of this process for a folder, which every client that logs there shares."""
    return RunLog(folder, asked)
