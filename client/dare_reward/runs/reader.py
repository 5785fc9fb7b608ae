"""Reading a run log: every line of a folder's segments, several processes merged in the order of time.

A process that was killed leaves its last segment torn: what was flushed is read, the rest of that segment is not.
"""

from __future__ import annotations

import heapq
import json
import zlib
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Any, Final

from .._pattern import pattern
from ..errors import RequestError
from .line import VERSION

__all__ = ["SEGMENT", "check_version", "count_lines", "read_run", "read_segments", "segments"]

# The process (when it began, its number, and chance, because two containers have the same numbers) and the segment.
SEGMENT: Final = pattern(r"(?P<process>\d{8}T\d{9}Z-\d+-[0-9a-f]{8})-(?P<number>\d{6})\.jsonl\.gz")
CHUNK: Final = 1 << 18


def read_run(path: str | Path) -> Iterator[dict[str, Any]]:
    """The lines of a run, oldest first.

    path   a folder with segments, in it or in folders of it; or one segment. Other files are left alone.

    RequestError if there is no segment, or a line is of a newer version than this one reads. All older versions are
    read: a version only adds keys, or its reader translates.
    """
    return read_segments(segments(path))


def read_segments(files: Sequence[Path], *, skip: Mapping[Path, int] | None = None) -> Iterator[dict[str, Any]]:
    """The lines of these segments, oldest first; without the first `skip` lines of a segment."""
    streams: dict[str, list[Path]] = defaultdict(list)
    for file in sorted(files, key=lambda f: (f.name, str(f))):
        match = SEGMENT.fullmatch(file.name)
        streams[match["process"] if match else file.name].append(file)
    ordered = sorted(streams.items())
    return _merged([_process(files, skip or {}) for _, files in ordered], [_began(name) for name, _ in ordered])


def count_lines(file: Path) -> int:
    """Lines of a segment, which are not looked at."""
    return sum(data.count(b"\n") for data in _decompressed(file))


def segments(path: str | Path) -> list[Path]:
    """The segments under `path`; RequestError if there are none."""
    place = Path(path)
    found = [place] if place.is_file() else [f for f in place.rglob("*.jsonl.gz") if SEGMENT.fullmatch(f.name)]
    if not found:
        raise RequestError(f"{path} holds no run log. A run log is a folder with files *.jsonl.gz.", code="file")
    return found


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


def _process(files: Sequence[Path], skip: Mapping[Path, int]) -> Iterator[dict[str, Any]]:
    """The lines of one process, whose runs lie in folders of their own."""
    folders: dict[Path, list[Path]] = defaultdict(list)
    for file in files:
        folders[file.parent].append(file)
    runs = [chain.from_iterable(_lines(file, skip.get(file, 0)) for file in own) for own in folders.values()]
    return runs[0] if len(runs) == 1 else heapq.merge(*runs, key=lambda line: str(line.get("time", "")))


def _lines(file: Path, skip: int) -> Iterator[dict[str, Any]]:
    rest = b""
    for chunk in _decompressed(file):
        whole, newline, tail = (rest + chunk).rpartition(b"\n")
        rest = tail
        texts = whole.split(b"\n") if newline else []
        left, skip = texts[skip:], max(skip - len(texts), 0)
        for text in left:
            if line := _read(text, file):
                yield line


def _read(text: bytes, file: Path) -> dict[str, Any] | None:
    try:
        line = json.loads(text)
    except (ValueError, RecursionError):
        return None
    if not isinstance(line, dict):
        return None
    check_version(line, file)
    return line


def check_version(line: Mapping[str, Any], file: Path) -> None:
    """RequestError if this release cannot read the line."""
    version = line.get("v")
    if not isinstance(version, int) or version > VERSION:
        raise RequestError(
            f"{file}: lines of version {version!r:.20}; this release reads up to {VERSION}: read it with a newer one",
            code="version",
        )


def _decompressed(file: Path) -> Iterator[bytes]:
    """The content of all gzip members; what is torn or damaged ends it."""
    with file.open("rb") as source:
        member = zlib.decompressobj(wbits=31)
        data = b""
        while data := data or source.read(CHUNK):
            try:
                yield member.decompress(data)
            except zlib.error:
                return
            data = b""
            if member.eof:
                data, member = member.unused_data, zlib.decompressobj(wbits=31)
