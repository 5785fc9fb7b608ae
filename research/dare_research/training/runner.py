"""Scheduling: bases and runs that are missing, on a few processes, appended to the raw results as they end.

A study is resumed by the same command: what has a record is not run again. SIGTERM ends it when the runs in progress
have ended and are written.
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from contextlib import contextmanager
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from types import MappingProxyType
from typing import Any

from dare_reward import Client
from dare_reward.errors import ConfigError

from .jobs import digest, make_base, make_trunk, run_cell, saved, trunk_name
from .plan import Cell, Design
from .records import append, read_records

JSON = dict[str, Any]
Job = Callable[[], list[JSON]]
NOTHING: Mapping[str, str] = MappingProxyType({})


def run(
    design: Design,
    wanted: Sequence[Cell],
    *,
    file: Path,
    bases: Path,
    url: str,
    workers: int = 2,
    seconds: float = float("inf"),
    stamp: Mapping[str, str] = NOTHING,
    packed: Sequence[JSON] = (),
    said: Callable[[str], None] = lambda _: None,
) -> int:
    """Run what has no record yet, until no new job would end within `seconds`. Returns how many cells are left.

    `stamp` goes into every record; `packed` are records that are not in `file`.
    """
    known = [*packed, *read_records(file)]
    done = {r["id"] for r in known}
    trunks = {
        trunk_name(c.base, c.regime): partial(make_trunk, design, c.base, bases, c.regime)
        for c in wanted
        if not saved(bases, f"{c.regime}-{c.base}") and not saved(bases, trunk_name(c.base, c.regime))
    }
    starts = {
        f"{stage}/{regime}/{base}": partial(make_base, design, stage, regime, base, bases)
        for stage, regime, base in dict.fromkeys((c.stage, c.regime, c.base) for c in wanted)
        if f"{stage}/{regime}/{base}" not in done or not saved(bases, f"{regime}-{base}")
    }
    runs = {c.id: partial(run_cell, design, c, bases, url) for c in wanted if c.id not in done}
    clock = _Clock(seconds)
    # A fresh interpreter for each process: torch does not like to be forked.
    with _on_term(clock.stop), ProcessPoolExecutor(workers, mp_context=get_context("spawn")) as pool:
        for jobs in (trunks, starts, runs):
            left = set(jobs)
            for name, records in _finished(pool, jobs, workers, clock):
                if name not in done:
                    append(file, [{**record, **stamp} for record in records])
                    known += records
                done.add(name)
                left.remove(name)
                said(f"{name} ({clock.elapsed:.0f} s)")
            if left:
                break
            if jobs is starts:
                _check_weights(wanted, known, bases)
    return sum(c.id not in done for c in wanted)


def _check_weights(wanted: Sequence[Cell], records: Sequence[JSON], bases: Path) -> None:
    """Runs of one base must all begin from the same weights: another machine or torch may make others."""
    known = {r["id"]: r["weights"] for r in records if "weights" in r}
    for name, folder in {f"{c.stage}/{c.regime}/{c.base}": bases / f"{c.regime}-{c.base}" for c in wanted}.items():
        if name in known and digest(folder) != known[name]:
            raise ConfigError(
                f"{folder} has other weights than base {name} of the results: bring the model that they are from, or "
                "write to another --out"
            )


class _Clock:
    """Whether there is time for one more job like the longest so far."""

    def __init__(self, seconds: float) -> None:
        self._begun, self._seconds, self._longest = time.monotonic(), seconds, 0.0

    @property
    def elapsed(self) -> float:
        return time.monotonic() - self._begun

    def took(self, seconds: float) -> None:
        self._longest = max(self._longest, seconds)

    def stop(self) -> None:
        self._seconds = 0.0

    def room(self) -> bool:
        return self.elapsed + self._longest < self._seconds


@contextmanager
def _on_term(stop: Callable[[], None]) -> Iterator[None]:
    """`stop` in place of a sudden end. The processes of the pool keep the signal's usual meaning."""
    before = signal.signal(signal.SIGTERM, lambda *_: stop())
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _finished(
    pool: ProcessPoolExecutor, jobs: Mapping[str, Job], workers: int, clock: _Clock
) -> Iterator[tuple[str, list[JSON]]]:
    """Names and records of jobs as they end; no more are handed out than there are processes."""
    waiting = iter(jobs.items())
    running: dict[Future[list[JSON]], tuple[str, float]] = {}
    while True:
        while len(running) < workers and clock.room() and (following := next(waiting, None)):
            running[pool.submit(following[1])] = (following[0], time.monotonic())
        if not running:
            return
        for future in wait(running, return_when=FIRST_COMPLETED).done:
            name, begun = running.pop(future)
            clock.took(time.monotonic() - begun)
            yield name, future.result()


@contextmanager
def service(url: str | None) -> Iterator[str]:
    """The service's address: the given one, or that of a service started on loopback for as long as this lasts."""
    if url is not None:
        yield url
        return
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = [sys.executable, "-c", "import dare_reward.cli as c; c.main()", "serve", "--port", str(port)]
    process = subprocess.Popen(  # noqa: S603  (our own service)
        command, env={**os.environ, "DARE_LOG": "error"}
    )
    try:
        address = f"http://127.0.0.1:{port}"
        with Client(address) as client:
            client.wait_ready(60)
        yield address
    finally:
        process.terminate()
        process.wait(30)
