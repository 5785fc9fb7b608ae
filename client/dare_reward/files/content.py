"""From a file's bytes to JSON values: JSON lines, one JSON value, or Parquet; plain, or packed by gzip or zstd."""

from __future__ import annotations

import gzip
import io
import json
import os
import sys
import zlib
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from itertools import chain
from pathlib import Path
from typing import IO, Any, Final

from ..errors import RequestError
from ..ledger import LOST, Ledger
from ..runs.reader import Segment, in_order, is_segment, segments
from .output import opened

GZIP, ZSTD, PARQUET = b"\x1f\x8b", b"\x28\xb5\x2f\xfd", b"PAR1"
WANTED: Final = (
    "is neither JSON lines, JSON nor Parquet (plain, gzip or zstd). Write one JSON object a line, as "
    "pandas.read_csv(FILE).to_json(OUT, orient='records', lines=True) does of a table."
)
SAID_AT_ONCE: Final = frozenset({"encoding", "duplicate_key"})  # what no other way of reading a file mends
NOT_UTF8: Final = "not UTF-8. Save the file in that encoding, as by `iconv -f LATIN1 -t UTF-8`."


@dataclass(frozen=True, slots=True)
class FileRecords:
    """The values of a file with their numbers, from 1; `unit` is what they are numbered by.

    A value that cannot be read is a RequestError in its place.

    share   how much of the file is read, where the last value has this number; 0 if nothing tells it
    """

    unit: str
    items: Iterator[tuple[int, Any]]
    close: Callable[[], None]
    share: Callable[[int], float]

    def expected(self, given: int, at: int) -> int | None:
        """How many there will be, where so many are made of what is read up to a value; None if nothing tells it."""
        share = self.share(at)
        return round(given / share) if 0 < share < 1 else None


def open_records(path: str) -> FileRecords:
    """The records of a file (`-`: standard input). RequestError if it is of a kind that holds none."""
    if path != "-" and is_segment(path):
        return _logged(path)
    opened(path)
    with ExitStack() as stack:
        source = Path(path).open("rb") if path != "-" else os.fdopen(os.dup(sys.stdin.fileno()), "rb")  # noqa: SIM115
        length = 0
        stack.enter_context(source)
        path = "standard input" if path == "-" else path
        with _damage_named(path):
            stream = _unpacked(source, path)
            head = stream.peek(512)[:512]
            if head.startswith(PARQUET):
                unit, (items, length) = "row", _parquet(stream, path)
            elif b"\0" in head or head[:1] == b"\x80":  # a pickle is binary too, and could run code
                raise RequestError(f"{path} {WANTED}", code="file")
            else:
                text = stack.enter_context(io.TextIOWrapper(stream, encoding="utf-8-sig", errors="surrogateescape"))
                unit, items, length = _json(text, path)
        share = _part_of(source) if not length else lambda at: at / length
        return FileRecords(unit, _whole(items, path), stack.pop_all().close, share)


def _logged(path: str) -> FileRecords:
    """The lines of a run log, and at the end what could not be read of it."""
    ledger, files = Ledger(), segments(path)
    for file in files:
        opened(file)
    size, parts = sum(file.stat().st_size for file in files), [Segment(file, ledger) for file in files]

    def items() -> Iterator[tuple[int, Any]]:
        yield from enumerate(in_order(parts), 1)
        for fate in LOST:
            for _ in range(ledger[fate]):  # each is one more record that is not there
                yield ledger["read"] + 1, RequestError(ledger.entries[fate].first, code=fate)

    return FileRecords("line", items(), lambda: None, lambda _: sum(part.offset for part in parts) / max(size, 1))


# --- bytes ------------------------------------------------------------------------------------------------------------


def _part_of(source: IO[bytes]) -> Callable[[int], float]:
    """The share of its bytes that is read, packed or not; a pipe has no size."""
    size = os.fstat(source.fileno()).st_size
    return lambda _: 0.0 if not size else 1.0 if source.closed else source.tell() / size


def _unpacked(stream: io.BufferedReader, path: str) -> io.BufferedReader:
    head = stream.peek(4)[:4]
    if head.startswith(GZIP):
        return io.BufferedReader(gzip.GzipFile(fileobj=stream))
    if head.startswith(ZSTD):
        zstandard = _library(partial(import_module, "zstandard"), "packed by zstd", "files", path)
        return io.BufferedReader(zstandard.ZstdDecompressor().stream_reader(stream, read_across_frames=True))
    return stream


def _library(load: Callable[[], Any], what: str, extra: str, path: str) -> Any:
    """What reads such a file. RequestError that names the extra which brings it."""
    try:
        return load()
    except ModuleNotFoundError:
        fix = f"Run pip install '.[{extra}]' in your checkout, or write JSON lines."
        raise RequestError(f"{path} is {what}, and what reads it is not installed. {fix}", code="file") from None


@contextmanager
def _damage_named(path: str) -> Iterator[None]:
    """What a library says of a file that is damaged or cut off becomes a RequestError that names the file."""
    try:
        yield
    except RequestError:
        raise
    except Exception as error:
        known = isinstance(error, (EOFError, zlib.error, gzip.BadGzipFile))
        if not known and type(error).__module__.partition(".")[0] not in {"zstandard", "zstd", "pyarrow"}:
            raise
        why = str(error).partition(". ")[0].rstrip(".")[:120]
        fix = "Write or copy it again."
        raise RequestError(f"{path}: the file is damaged or cut off ({why}). {fix}", code="file") from None


def _whole(items: Iterator[tuple[int, Any]], path: str) -> Iterator[tuple[int, Any]]:
    with _damage_named(path):
        yield from items


def _parquet(stream: IO[bytes], path: str) -> tuple[Iterator[tuple[int, Any]], int]:
    """The rows and their number."""
    parquet = _library(partial(import_module, "pyarrow.parquet"), "Parquet", "parquet", path)
    table = parquet.ParquetFile(io.BytesIO(stream.read()))
    rows = chain.from_iterable(batch.to_pylist() for batch in table.iter_batches(1024))
    return enumerate(rows, 1), table.metadata.num_rows


# --- text -------------------------------------------------------------------------------------------------------------


def _json(text: IO[str], path: str) -> tuple[str, Iterator[tuple[int, Any]], int]:
    """JSON lines if the first line is a value; else one value over many lines, if it is one; else lines with errors.

    Behind them their number, or 0 where they are not read yet.
    """
    numbered = ((n, line) for n, line in enumerate(text, 1) if line.strip())
    first = next(numbered, None)
    if first is None:
        raise RequestError(f"{path} is empty. Name a file that holds rollouts.", code="empty")
    begin = first[1].lstrip()[:1]
    if begin not in {"{", "["}:
        raise RequestError(f"{path} {WANTED}", code="json")
    value = _parsed(first[1])
    if not isinstance(value, RequestError) or value.code in SAID_AT_ONCE:
        return "line", _lines(chain([first], numbered)), 0
    lines = [first, *numbered]
    whole = _parsed("".join(line for _, line in lines))
    if not isinstance(whole, RequestError):
        entries = whole if isinstance(whole, list) else [whole]
        return "entry", enumerate(entries, 1), len(entries)
    if whole.code in SAID_AT_ONCE:
        raise RequestError(f"{path} is {whole.message}", code=whole.code)
    # An array over many lines, or an object of which no line is one: the one mistake of the whole.
    one = len(lines) > 1 if begin == "[" else not any(isinstance(_parsed(line), dict) for _, line in lines)
    if one and isinstance(whole.__cause__, json.JSONDecodeError):
        return "line", iter([(lines[min(whole.__cause__.lineno, len(lines)) - 1][0], whole)]), 0
    return "line", _lines(iter(lines)), 0


def _lines(numbered: Iterator[tuple[int, str]]) -> Iterator[tuple[int, Any]]:
    for number, line in numbered:
        value = _parsed(line)
        for one in value if isinstance(value, list) and value else [value]:
            yield number, one


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object; RequestError where a key stands twice, since nobody could tell which of the two is meant."""
    out = dict(pairs)
    if len(out) < len(pairs):
        seen: set[str] = set()
        twice = next(key for key, _ in pairs if key in seen or seen.add(key))  # type: ignore[func-returns-value]
        raise RequestError(
            f"JSON in which the key {twice[:64]!r} stands twice. Keep one of them.", code="duplicate_key"
        )
    return out


def _parsed(text: str) -> Any:
    try:
        text.encode()
    except UnicodeEncodeError:  # it holds bytes that the decoder could not read
        return RequestError(NOT_UTF8, code="encoding")
    try:
        return json.loads(text, object_pairs_hook=_object)
    except RequestError as error:
        return error
    except json.JSONDecodeError as error:
        if error.pos >= len(text.rstrip()) or error.msg.startswith("Unterminated string"):
            why = "not JSON, because it ends in the middle. Write it again, or remove what is left."
        else:
            what = error.msg.partition(" (")[0].lower().removesuffix(" at")
            fix = "Write each object on one line, as json.dumps(...) and `jq -c .` do."
            why = f"not JSON at character {error.colno} ({what}). {fix}"
        fault = RequestError(why, code="json")
        fault.__cause__ = error
        return fault
    except RecursionError:
        return RequestError("nested too deeply. Write one rollout or group a line.", code="json")
    except ValueError as error:
        return RequestError(f"not JSON: {str(error)[:80]}", code="json")
