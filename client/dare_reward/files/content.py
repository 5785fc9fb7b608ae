"""From a file's bytes to JSON values: compressed or not, one value a line or one array, Parquet, standard input."""

from __future__ import annotations

import gzip
import io
import json
import sys
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from importlib import import_module
from itertools import chain
from pathlib import Path
from types import MappingProxyType
from typing import IO, Any, Final, cast

from ..errors import RequestError

__all__ = ["Values", "line_count", "open_values"]

GZIP, ZSTD, PARQUET = b"\x1f\x8b", b"\x28\xb5\x2f\xfd", b"PAR1"
# Files that are no rollouts by how they begin, and what to do with each.
FOREIGN: Final[Mapping[bytes, str]] = MappingProxyType(
    {
        b"\xff\xfe": "UTF-16; convert it: iconv -f UTF-16 -t UTF-8",
        b"\xfe\xff": "UTF-16; convert it: iconv -f UTF-16 -t UTF-8",
        b"PK\x03\x04": "a zip archive (also .npz, .xlsx and PyTorch's .pt); unpack it, or write JSON lines",
        b"BZh": "compressed by bzip2; unpack it: bunzip2",
        b"\xfd7zXZ": "compressed by xz; unpack it: unxz",
        b"\x93NUMPY": "a NumPy array; write JSON lines",
        b"ARROW1": "an Arrow file; write Parquet or JSON lines",
        b"SQLite format 3": "a SQLite database; write JSON lines",
        b"%PDF": "a PDF",
        b"\x89PNG": "a picture",
        b"\x89HDF": "an HDF5 file; write JSON lines",
    }
)


@dataclass(frozen=True, slots=True)
class Values:
    """The values of a file with their numbers, from 1; `unit` is what they are numbered by.

    A value that cannot be read is a RequestError in its place.
    """

    unit: str
    items: Iterator[tuple[int, Any]]
    close: Callable[[], None]


def open_values(path: str) -> Values:
    """RequestError if the file is of a kind that holds no rollouts."""
    if path != "-" and Path(path).is_dir():
        raise RequestError(f"{path} is a folder; name a file", code="file")
    with ExitStack() as stack:
        source = _opened(path)
        if path != "-":
            stack.enter_context(source)
        stream = _unpacked(source, path)
        head = stream.peek(512)[:512]
        items: Iterator[tuple[int, Any]]
        if head.startswith(PARQUET):
            unit, items = "row", iter(enumerate(_parquet(stream, path), 1))
        else:
            _refuse_foreign(head, path)
            text = stack.enter_context(_Text(cast("Any", stream), encoding="utf-8-sig", errors="surrogateescape"))
            unit, items = _json(text, path)
        return Values(unit, items, stack.pop_all().close)


def line_count(path: str) -> int:
    """Lines that hold something, of a file of JSON lines; 0 where counting would cost a second reading."""
    with Path(path).open("rb") as file:
        if file.peek(4)[:4].startswith((GZIP, ZSTD, PARQUET)):
            return 0
        return sum(1 for line in file if line.strip())


# --- bytes ------------------------------------------------------------------------------------------------------------


def _opened(path: str) -> io.BufferedReader:
    if path != "-":
        return Path(path).open("rb")
    buffer = getattr(sys.stdin, "buffer", None)
    if buffer is None:  # a stand-in for standard input has text only
        buffer = io.BytesIO(sys.stdin.read().encode("utf-8", "surrogateescape"))
    return buffer if isinstance(buffer, io.BufferedReader) else io.BufferedReader(buffer)


def _unpacked(stream: io.BufferedReader, path: str) -> io.BufferedReader:
    head = stream.peek(4)[:4]
    if head.startswith(GZIP):
        return io.BufferedReader(cast("Any", _Whole(gzip.GzipFile(fileobj=stream), path, "gzip")))
    if head.startswith(ZSTD):
        try:
            zstandard = import_module("zstandard")
        except ModuleNotFoundError:
            raise RequestError(
                f"{path}: compressed by zstd; run pip install '.[files]' in your checkout, or unpack it: unzstd",
                code="file",
            ) from None
        reader = zstandard.ZstdDecompressor().stream_reader(stream, read_across_frames=True)
        return io.BufferedReader(cast("Any", _Whole(reader, path, "zstd")))
    return stream


class _Text(io.TextIOWrapper):
    """Text that leaves standard input open when it is closed."""

    def close(self) -> None:
        if not self.closed and getattr(self.buffer, "name", None) != "<stdin>":
            super().close()


class _Whole(io.RawIOBase):
    """A decompressed stream whose errors say which file is damaged."""

    def __init__(self, inner: Any, path: str, kind: str) -> None:
        self._inner, self._path, self._kind = inner, path, kind

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        try:
            data = self._inner.read(len(buffer))
        except (EOFError, OSError, zlib.error, ValueError, RuntimeError) as error:
            raise RequestError(
                f"{self._path}: the {self._kind} file is damaged or cut off: {error}", code="file"
            ) from None
        except Exception as error:
            if type(error).__name__ != "ZstdError":
                raise
            raise RequestError(
                f"{self._path}: the {self._kind} file is damaged or cut off: {error}", code="file"
            ) from None
        buffer[: len(data)] = data
        return len(data)


def _refuse_foreign(head: bytes, path: str) -> None:
    for magic, what in FOREIGN.items():
        if head.startswith(magic):
            raise RequestError(f"{path} is {what}", code="file")
    if head[:1] == b"\x80" and head[1:2] in {b"\x02", b"\x03", b"\x04", b"\x05"}:
        raise RequestError(f"{path} is a pickle, which is never opened here; write JSON lines", code="file")
    if b"\0" in head:
        raise RequestError(f"{path} is binary or UTF-16; write JSON lines in UTF-8", code="file")


def _parquet(stream: IO[bytes], path: str) -> Iterator[Any]:
    try:
        parquet = import_module("pyarrow.parquet")
        arrow = import_module("pyarrow")
    except ModuleNotFoundError:
        raise RequestError(
            f"{path}: reading Parquet needs pyarrow; run pip install '.[files]' in your checkout", code="file"
        ) from None
    try:
        table = parquet.ParquetFile(io.BytesIO(stream.read()))
        for batch in table.iter_batches(1024):
            yield from batch.to_pylist()
    except (arrow.ArrowException, OSError) as error:
        raise RequestError(f"{path}: the Parquet file is damaged: {str(error)[:200]}", code="file") from None


# --- text -------------------------------------------------------------------------------------------------------------


def _json(text: IO[str], path: str) -> tuple[str, Iterator[tuple[int, Any]]]:
    """JSON lines if the first line is a value; else one value over many lines, if it is one; else lines with errors."""
    numbered = ((n, line) for n, line in enumerate(text, 1) if line.strip())
    first = next(numbered, None)
    if first is None:
        raise RequestError(f"{path} is empty", code="empty")
    if first[1].lstrip()[:1] not in {"{", "["}:
        raise RequestError(f"{path} is not JSON{_guess(first[1])}", code="json")
    value = _parsed(first[1])
    if not isinstance(value, RequestError):
        return ("line", _lines(chain([first], numbered)))
    rest = [first, *numbered]
    whole = _parsed("".join(line for _, line in rest))
    if isinstance(whole, list):
        return ("entry", enumerate(whole, 1))
    if isinstance(whole, dict):
        return ("entry", iter([(1, whole)]))
    return ("line", _lines(iter(rest)))


def _lines(numbered: Iterator[tuple[int, str]]) -> Iterator[tuple[int, Any]]:
    for number, line in numbered:
        value = _parsed(line)
        for one in value if isinstance(value, list) and value else [value]:
            yield number, one


def _parsed(text: str) -> Any:
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        end = " (the text ends in the middle)" if error.pos >= len(text.rstrip()) else f" at character {error.pos + 1}"
        return RequestError(f"not JSON: {_plain(error.msg, text)}{end}", code="json")
    except (ValueError, RecursionError) as error:
        return RequestError(f"not JSON: {str(error)[:80]}", code="json")


def _plain(message: str, text: str) -> str:
    if text.lstrip()[:2] in {"{'", "['"} or message.startswith("Expecting property name"):
        return "names and texts need double quotes (of a Python dictionary print json.dumps(...))"
    return message.lower()


def _guess(line: str) -> str:
    """What the first line looks like, if it is not JSON."""
    text = line.strip()
    if text.startswith("<"):
        return " but a web page or XML"
    if "\t" in text:
        return "; it looks like TSV: write JSON lines, one rollout or group each"
    if "," in text:
        return "; it looks like CSV: write JSON lines, one rollout or group each"
    if text.startswith("version https://git-lfs"):
        return " but a pointer of Git LFS: run git lfs pull"
    return "; one JSON object a line is read, and JSON arrays and Parquet"
