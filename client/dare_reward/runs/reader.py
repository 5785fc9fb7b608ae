"""Reading a run log: every line of a folder's segments, several processes merged in the order of time.

A process that was killed leaves its last segment torn: what was flushed is read, the rest of that segment is not.
"""

from __future__ import annotations

import heapq
import json
import zlib
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any, Final

from .._pattern import pattern
from ..errors import RequestError
from ..files.content import SWOLLEN, swollen
from ..files.opened import opened
from .line import VERSION
from .shape import fault

# The process (when it began, its number, and chance, because two containers have the same numbers) and the segment.
SEGMENT: Final = pattern(r"(?P<process>\d{8}T\d{9}Z-\d+-[0-9a-f]{8})-(?P<number>\d{6})\.jsonl\.gz")
CHUNK: Final = 1 << 18
UNPACKED: Final = 1 << 22  # bytes that are unpacked at a time
LONGEST: Final = 256 << 20  # bytes of a line: a group of 1,024 rollouts with texts of 256 KiB


@dataclass(slots=True)
class Skipped:
    """Lines that cannot be used: how many, and what is wrong with the first."""

    count: int = 0
    first: str = ""

    def unfit(self, line: Mapping[str, Any], file: Path) -> bool:
        """Whether the line cannot be used; it is counted then."""
        why = fault(line)
        if why:
            self.add(file, why)
        return bool(why)

    def add(self, file: Path, why: str) -> None:
        self.count += 1
        self.first = self.first or f"{file}: {why}"

    def say(self, tell: Callable[[str], None]) -> None:
        if self.count:
            tell(f"skipped {self.count:,} lines of the run log that cannot be used. The first: {self.first}")


def _silent(_: str) -> None:
    """Nobody asked."""


def read_run(path: str | Path, *, tell: Callable[[str], None] = _silent) -> Iterator[dict[str, Any]]:
    """The lines of a run, oldest first.

    Args:
        path: a folder with segments, in it or in folders of it; or one segment. Other files are left alone.
        tell: is told at the end how many lines were skipped, because a value in them has another type or size than
            `dare_reward.runs.line` declares, or because they are no JSON

    Raises:
        RequestError: there is no segment, or a line is of a newer version than this one reads. All older ones are read.
    """
    return read_segments(segments(path), tell=tell)


def read_segments(
    files: Sequence[Path], *, skip: Mapping[Path, int] | None = None, tell: Callable[[str], None] = _silent
) -> Iterator[dict[str, Any]]:
    """The lines of these segments, oldest first; without the first `skip` lines of a segment."""
    streams: dict[str, list[Path]] = defaultdict(list)
    for file in sorted(files, key=lambda f: (f.name, str(f))):
        match = SEGMENT.fullmatch(file.name)
        streams[match["process"] if match else file.name].append(file)
    ordered, skipped = sorted(streams.items()), Skipped()
    processes = [_process(of_process, skip or {}, skipped) for _, of_process in ordered]
    yield from _merged(processes, [_began(name) for name, _ in ordered])
    skipped.say(tell)


def count_lines(file: Path) -> int:
    """Lines of a segment, which are not looked at."""
    return sum(data.count(b"\n") for data in _decompressed(file, Skipped()))


def segments(path: str | Path) -> list[Path]:
    """The segments under `path`; RequestError if there are none."""
    place = Path(path)
    files = [place] if place.is_file() else [f for f in place.rglob("*.jsonl.gz") if SEGMENT.fullmatch(f.name)]
    if not files:
        raise RequestError(f"{path} holds no run log. A run log is a folder with files *.jsonl.gz.", code="file")
    for file in files:
        opened(file)
    return files


def _merged(streams: Sequence[Iterator[dict[str, Any]]], began: Sequence[str]) -> Iterator[dict[str, Any]]:
    """All streams by time. One is opened when its process began, so that few files of a long run are open at once."""
    heap: list[tuple[str, int, dict[str, Any]]] = []
    waiting = list(range(len(streams)))[::-1]
    while heap or waiting:
        while waiting and (not heap or began[waiting[-1]] <= heap[0][0]):
            _push(heap, streams, waiting.pop())
        if heap:
            _, i, line = heapq.heappop(heap)
            yield line
            _push(heap, streams, i)


def _push(heap: list[tuple[str, int, dict[str, Any]]], streams: Sequence[Iterator[dict[str, Any]]], i: int) -> None:
    line = next(streams[i], None)
    if line is not None:
        heapq.heappush(heap, (str(line.get("time", "")), i, line))


def _began(process: str) -> str:
    """The stamp of a process as `time` is written; of another file's name, nothing: it is opened at once."""
    if not SEGMENT.fullmatch(f"{process}-000000.jsonl.gz"):
        return ""
    d = process
    return f"{d[:4]}-{d[4:6]}-{d[6:8]}T{d[9:11]}:{d[11:13]}:{d[13:15]}.{d[15:18]}Z"


def _process(files: Sequence[Path], skip: Mapping[Path, int], skipped: Skipped) -> Iterator[dict[str, Any]]:
    """The lines of one process, whose runs lie in folders of their own."""
    folders: dict[Path, list[Path]] = defaultdict(list)
    for file in files:
        folders[file.parent].append(file)
    runs = [chain.from_iterable(_lines(file, skip.get(file, 0), skipped) for file in part) for part in folders.values()]
    return runs[0] if len(runs) == 1 else heapq.merge(*runs, key=lambda line: str(line.get("time", "")))


def _lines(file: Path, skip: int, skipped: Skipped) -> Iterator[dict[str, Any]]:
    """Line by line, in bounded memory, however long a line is and however much a chunk unpacks to."""
    begun: list[bytes] = []
    size = 0
    for chunk in _decompressed(file, skipped):
        *whole, tail = chunk.split(b"\n")
        for text in whole:
            size += len(text)
            if skip:
                skip -= 1
            elif size > LONGEST:
                skipped.add(file, f"a line is longer than {LONGEST >> 20} MiB")
            elif size and (line := _read(b"".join([*begun, text]), file, skipped)):
                yield line
            begun, size = [], 0
        size += len(tail)
        begun = [*begun, tail] if size <= LONGEST else []


def _read(text: bytes, file: Path, skipped: Skipped) -> dict[str, Any] | None:
    try:
        line = json.loads(text)
    except (ValueError, RecursionError):
        line = None
    if not isinstance(line, dict):
        skipped.add(file, "a line is no JSON object")
        return None
    check_version(line, file)
    return None if skipped.unfit(line, file) else line


def check_version(line: Mapping[str, Any], file: Path) -> None:
    """RequestError if this release cannot read the line."""
    version = line.get("v")
    if not isinstance(version, int) or version > VERSION:
        raise RequestError(
            f"{file}: lines of version {version!r:.20}; this release reads up to {VERSION}: read it with a newer one",
            code="version",
        )


def _decompressed(file: Path, skipped: Skipped) -> Iterator[bytes]:
    """The content of all gzip members, a chunk at a time; what is torn or damaged, or unpacks to too much, ends it."""
    with file.open("rb") as source:
        member = zlib.decompressobj(wbits=31)
        data, packed, unpacked = b"", 0, 0
        while data or (data := source.read(CHUNK)):
            try:
                chunk = member.decompress(data, UNPACKED)
            except zlib.error:
                return
            packed, unpacked = max(packed, source.tell()), unpacked + len(chunk)
            if swollen(packed, unpacked):
                skipped.add(file, SWOLLEN)
                return
            yield chunk
            data = member.unconsumed_tail
            if member.eof:
                data, member = member.unused_data, zlib.decompressobj(wbits=31)
