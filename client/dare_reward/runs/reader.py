"""Reading a run log: every line of a folder's segments, several processes merged in the order of time.

A segment is a file of gzip members, each whole by itself. Nothing of a member is used before its checksum is right. Of
one that is damaged all lines are lost and counted, and the next one is read.
"""

from __future__ import annotations

import heapq
import json
import struct
import zlib
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import chain
from operator import itemgetter
from pathlib import Path
from typing import Any, Final

from .._pattern import pattern
from ..errors import RequestError
from ..ledger import Fate, Ledger
from .line import fault

# A file of a run log: the process (when it began, its number, and chance) and the number of the file.
SEGMENT: Final = pattern(r"(?P<process>\d{8}T\d{9}Z-\d+-[0-9a-f]{8})-(?P<number>\d{6})\.jsonl\.gz")
LONGEST: Final = 512 << 20  # bytes that a member unpacks to: more than a group of 1,024 rollouts with texts of 256 KiB
MOST: Final = 1 << 16  # lines of a member, which its writer ends after 256 KiB
# A header of gzip (RFC 1952) with one extra field, DR, of four bytes: how many lines the member holds.
SIGNATURE: Final = b"\x1f\x8b\x08\x04\0\0\0\0\0\xff\x08\0DR\x04\0"

Line = dict[str, Any]


def member(lines: Sequence[bytes], level: int) -> bytes:
    """One whole member of a segment: gzip with the number of its lines in the header."""
    text = b"\n".join(lines) + b"\n"
    packed = zlib.compress(text, level, wbits=-zlib.MAX_WBITS)
    head = SIGNATURE + struct.pack("<I", len(lines))
    return head + packed + struct.pack("<II", zlib.crc32(text), len(text) & 0xFFFFFFFF)


def read_run(path: str | Path, ledger: Ledger | None = None) -> Iterator[Line]:
    """The lines of a run, oldest first.

    Args:
        path: a folder with segments, in it or in folders of it; or one segment. Other files are left alone.
        ledger: counts what was read, and what could not be, with the first reason

    Raises:
        RequestError: there is no segment
    """
    told = Ledger() if ledger is None else ledger
    return in_order([Segment(file, told) for file in segments(path)])


def is_segment(path: str) -> bool:
    """Whether it is a folder, as that of a run log is, or a file of one."""
    return Path(path).is_dir() or SEGMENT.fullmatch(Path(path).name) is not None


def segments(path: str | Path) -> list[Path]:
    """The segments under `path`; RequestError if there are none."""
    place = Path(path)
    files = [place] if place.is_file() else [f for f in place.rglob("*.jsonl.gz") if SEGMENT.fullmatch(f.name)]
    if not files:
        raise RequestError(f"{path} holds no run log, whose files are *.jsonl.gz. Name a file.", code="file")
    return files


@dataclass(slots=True, eq=False)
class Segment:
    """A file of a run log, and how much of it was read.

    growing   somebody may be writing its last member: one that is not whole yet is left for later
    loads     reads a line
    """

    file: Path
    ledger: Ledger
    offset: int = 0
    growing: bool = False
    loads: Callable[[bytes], Any] = json.loads

    def lines(self) -> Iterator[Line]:
        """The lines of all members that were not read before."""
        for text in chain.from_iterable(self._members()):
            try:
                line: Any = self.loads(text)
            except (ValueError, RecursionError):
                self._lose("unreadable", "a line is no JSON")
                continue
            if why := fault(line):
                self._lose("refused", why)
            else:
                self.ledger.count("read")
                yield line

    def _lose(self, fate: Fate, why: str, lines: int = 1) -> None:
        self.ledger.count(fate, f"{self.file}: {why}", lines)

    def _members(self) -> Iterator[list[bytes]]:
        """The lines of each whole member, its checksum checked."""
        with self.file.open("rb") as source:
            source.seek(self.offset)
            data = source.read()
        begun, at = self.offset, 0
        while at < len(data):
            if (found := _unpacked(data, at)) is not None:
                text, at = found
                self.offset = begun + at
                yield [line for line in text.split(b"\n") if line]
                continue
            after = data.find(SIGNATURE, at + 1)
            if after < 0 and self.growing:
                return
            self._lose("unreadable", "damaged" if after >= 0 else "its end is damaged or torn off", _stated(data, at))
            at = after if after >= 0 else len(data)
            self.offset = begun + at


def _unpacked(data: bytes, at: int) -> tuple[bytes, int] | None:
    """What the member that begins there holds, and where it ends; None if it is not whole or its checksum is wrong."""
    packed, out, room, size = zlib.decompressobj(wbits=31), list[bytes](), LONGEST, 1 << 14
    with suppress(zlib.error):
        while at < len(data) and room > 0:
            part = data[at : at + size]
            out.append(packed.decompress(part, room))
            at += len(part) - len(packed.unconsumed_tail) - len(packed.unused_data)
            room, size = room - len(out[-1]), min(2 * size, 1 << 20)
            if packed.eof:
                return b"".join(out), at
    return None


def _stated(data: bytes, at: int) -> int:
    """How many lines the header of a member says that it holds; 1 if it cannot be read, or says what cannot be."""
    head = data[at : at + len(SIGNATURE) + 4]
    stated = int(struct.unpack("<I", head[-4:])[0]) if head[:-4] == SIGNATURE else 1
    return stated if 0 < stated <= MOST else 1


# --- several segments -------------------------------------------------------------------------------------------------


def in_order(parts: Sequence[Segment]) -> Iterator[Line]:
    """All lines by time."""
    processes: dict[tuple[str, Path], list[Segment]] = defaultdict(list)
    for part in sorted(parts, key=lambda s: (s.file.name, str(s.file))):
        match = SEGMENT.fullmatch(part.file.name)
        processes[match["process"] if match else "", part.file.parent].append(part)
    streams = (_timed(process, own) for (process, _), own in processes.items())
    return (line for _, line in heapq.merge(*streams, key=itemgetter(0)) if line is not None)


def _timed(process: str, parts: Sequence[Segment]) -> Iterator[tuple[str, Line | None]]:
    """The lines of a process with their times; nothing is read before it began, so that few files are read at once."""
    yield _began(process), None
    for line in chain.from_iterable(part.lines() for part in parts):
        yield str(line.get("time") or ""), line


def _began(process: str) -> str:
    """The stamp of a process as `time` is written; nothing of a file by another name, which is read at once."""
    d = process
    return d and f"{d[:4]}-{d[4:6]}-{d[6:8]}T{d[9:11]}:{d[11:13]}:{d[13:15]}.{d[15:18]}Z"


@dataclass(slots=True, eq=False)
class Follower:
    """A run log that grows: `new` gives the lines that came since it was asked last.

    newest   bytes of the segments that are there at first, the last ones, which are read
    older    segments that were there at first and are not read but for what they gain
    gone     segments that were read and are no longer there
    """

    folder: Path
    newest: int
    loads: Callable[[bytes], Any] = json.loads
    ledger: Ledger = field(default_factory=Ledger)
    older: int = 0
    gone: int = 0
    _known: dict[Path, Segment] = field(default_factory=dict)

    def __post_init__(self) -> None:
        room = self.newest
        for file, (_, size) in sorted(self._sizes().items(), key=itemgetter(1), reverse=True):
            room -= size
            if room < 0:
                self._known[file] = self._segment(file, size)
                self.older += 1

    def new(self) -> Iterator[Line]:
        """Nothing if there is no such folder. A member that is still being written is left for the next time."""
        sizes = self._sizes()
        for file in self._known.keys() - sizes.keys():
            del self._known[file]
            self.gone += 1
        for file in sizes.keys() - self._known.keys():
            self._known[file] = self._segment(file)
        grown = [self._known[f] for f, (_, size) in sizes.items() if size > self._known[f].offset]
        return in_order(grown)

    def _segment(self, file: Path, read: int = 0) -> Segment:
        return Segment(file, self.ledger, read, growing=True, loads=self.loads)

    def _sizes(self) -> Mapping[Path, tuple[float, int]]:
        """When each segment was written, and how large it is."""
        out = {}
        with suppress(OSError, RequestError):  # there is none
            for file in segments(self.folder):
                with suppress(OSError):
                    stat = file.stat()
                    out[file] = stat.st_mtime, stat.st_size
        return out
