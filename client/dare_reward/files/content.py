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
from zipfile import BadZipFile

from ..errors import RequestError
from .names import RUN_LOG_COMMANDS
from .opened import opened

GZIP, ZSTD, PARQUET, ZIP = b"\x1f\x8b", b"\x28\xb5\x2f\xfd", b"PAR1", b"PK\x03\x04"
SAMPLE: Final = {"id", "epoch", "input", "choices", "target", "output", "scores"}  # what we read of inspect_ai's
LONGEST: Final = 256 << 20  # characters of a line
SPARE, RATIO = 16 << 20, 200  # bytes that any file may unpack to, and how much larger others may become
SWOLLEN: Final = f"it unpacks to more than {RATIO} times its size, as rollouts never do"
# Files that are no rollouts by how they begin, and what to do with each.
FOREIGN: Final[Mapping[bytes, str]] = MappingProxyType(
    {
        b"\xff\xfe": "encoded in UTF-16. Convert it with iconv -f UTF-16 -t UTF-8.",
        b"\xfe\xff": "encoded in UTF-16. Convert it with iconv -f UTF-16 -t UTF-8.",
        ZIP: "a zip archive, as .npz, .xlsx and PyTorch's .pt are. Unpack it, or write JSON lines.",
        b"BZh": "compressed by bzip2. Unpack it with bunzip2.",
        b"\xfd7zXZ": "compressed by xz. Unpack it with unxz.",
        b"\x93NUMPY": "a NumPy array. Write its rows as JSON lines.",
        b"ARROW1": "an Arrow file. Write it as Parquet or JSON lines.",
        b"SQLite format 3": "a SQLite database. Write its rows as JSON lines.",
        b"%PDF": "a PDF. Name a file of rollouts.",
        b"\x89PNG": "a picture. Name a file of rollouts.",
        b"\x89HDF": "an HDF5 file. Write its rows as JSON lines.",
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
        raise RequestError(
            f"{path} is a folder. Name a file in it. If it is a run log, read it with {RUN_LOG_COMMANDS}.", code="file"
        )
    with ExitStack() as stack:
        source = _opened(path)
        if path == "-":
            path = "standard input"
        else:
            stack.enter_context(source)
        stream = _unpacked(source, path)
        head = stream.peek(512)[:512]
        items: Iterator[tuple[int, Any]]
        if head.startswith(PARQUET):
            unit, items = "row", iter(enumerate(_parquet(stream, path), 1))
        elif head.startswith(ZIP) and path.endswith(".eval"):
            unit, items = "sample", iter(enumerate(_inspect(path), 1))
        else:
            _refuse_foreign(head, path)
            text = stack.enter_context(_Text(cast("Any", stream), encoding="utf-8-sig", errors="surrogateescape"))
            unit, items = _json(text, path)
        return Values(unit, items, stack.pop_all().close)


def swollen(packed: int, unpacked: int) -> bool:
    """Whether so many bytes became so many more that they hold no rollouts; reading on would take time or memory."""
    return unpacked > max(SPARE, RATIO * packed)


def line_count(path: str) -> int:
    """Lines that hold something, of a file of JSON lines; 0 where counting would cost a second reading."""
    with Path(path).open("rb") as file:
        if file.peek(4)[:4].startswith((GZIP, ZSTD, PARQUET)):
            return 0
        return sum(1 for line in file if line.strip())


# --- bytes ------------------------------------------------------------------------------------------------------------


def _opened(path: str) -> io.BufferedReader:
    opened(path)
    if path != "-":
        return Path(path).open("rb")
    buffer = getattr(sys.stdin, "buffer", None)
    if buffer is None:  # a stand-in for standard input has text only
        buffer = io.BytesIO(sys.stdin.read().encode("utf-8", "surrogateescape"))
    return buffer if isinstance(buffer, io.BufferedReader) else io.BufferedReader(buffer)


def _unpacked(stream: io.BufferedReader, path: str) -> io.BufferedReader:
    head = stream.peek(4)[:4]
    if head.startswith(GZIP):
        packed = _Counted(stream)
        return io.BufferedReader(cast("Any", _Whole(gzip.GzipFile(fileobj=cast("Any", packed)), packed, path, "gzip")))
    if head.startswith(ZSTD):
        try:
            zstandard = import_module("zstandard")
        except ModuleNotFoundError:
            raise RequestError(
                f"{path} is compressed by zstd. Unpack it with unzstd, or run pip install '.[files]' in your checkout.",
                code="file",
            ) from None
        packed = _Counted(stream)
        reader = zstandard.ZstdDecompressor().stream_reader(packed, read_across_frames=True)
        return io.BufferedReader(cast("Any", _Whole(reader, packed, path, "zstd")))
    return stream


class _Text(io.TextIOWrapper):
    """Text that leaves standard input open when it is closed."""

    def close(self) -> None:
        if not self.closed and getattr(self.buffer, "name", None) != "<stdin>":
            super().close()


class _Counted:
    """A compressed stream, and how much of it was read."""

    def __init__(self, inner: io.BufferedReader) -> None:
        self._inner = inner
        self.size = 0

    def read(self, size: int = -1) -> bytes:
        data = self._inner.read(size)
        self.size += len(data)
        return data


class _Whole(io.RawIOBase):
    """A decompressed stream whose errors say which file is damaged."""

    def __init__(self, inner: Any, packed: _Counted, path: str, kind: str) -> None:
        self._inner, self._packed, self._path, self._kind = inner, packed, path, kind
        self._size = 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        try:
            data = self._inner.read(len(buffer))
        except (EOFError, OSError, zlib.error, ValueError, RuntimeError) as error:
            raise _damaged(self._path, self._kind, error) from None
        except Exception as error:
            if type(error).__name__ != "ZstdError":
                raise
            raise _damaged(self._path, self._kind, error) from None
        self._size += len(data)
        if swollen(self._packed.size, self._size):
            raise RequestError(f"{self._path}: {SWOLLEN}. Unpack it yourself if you trust it.", code="file")
        buffer[: len(data)] = data
        return len(data)


def _damaged(path: str, kind: str, error: Exception) -> RequestError:
    why = str(error).partition(". ")[0].rstrip(".")[:120]
    return RequestError(f"{path}: the {kind} file is damaged or cut off ({why}). Write or copy it again.", code="file")


def _refuse_foreign(head: bytes, path: str) -> None:
    for magic, what in FOREIGN.items():
        if head.startswith(magic):
            raise RequestError(f"{path} is {what}", code="file")
    if head[:1] == b"\x80" and head[1:2] in {b"\x02", b"\x03", b"\x04", b"\x05"}:
        raise RequestError(f"{path} is a pickle, which could run code. Write JSON lines.", code="file")
    if b"\0" in head:
        raise RequestError(f"{path} is binary or UTF-16. Write JSON lines in UTF-8.", code="file")


def _parquet(stream: IO[bytes], path: str) -> Iterator[Any]:
    try:
        parquet = import_module("pyarrow.parquet")
        arrow = import_module("pyarrow")
    except ModuleNotFoundError:
        raise RequestError(
            f"{path} is Parquet, which needs pyarrow. Run pip install '.[files]' in your checkout.", code="file"
        ) from None
    try:
        table = parquet.ParquetFile(io.BytesIO(stream.read()))
        for batch in table.iter_batches(1024):
            yield from batch.to_pylist()
    except (arrow.ArrowException, OSError) as error:
        raise _damaged(path, "Parquet", error) from None


def _inspect(path: str) -> Iterator[Any]:
    """The samples of an evaluation by inspect_ai, by its own reader."""
    try:
        log = import_module("inspect_ai.log")
    except ModuleNotFoundError:
        raise RequestError(
            f"{path} is a log of inspect_ai, which its own package reads. Run pip install inspect_ai here, or "
            "`inspect log convert --to json` where it is installed.",
            code="file",
        ) from None
    try:
        for sample in log.read_eval_log_samples(path, all_samples_required=False, resolve_attachments=True):
            yield sample.model_dump(mode="json", include=SAMPLE)
    except (OSError, ValueError, KeyError, RuntimeError, BadZipFile) as error:
        raise _damaged(path, "inspect_ai", error) from None


NOT_UTF8: Final = "not UTF-8. Save the file in that encoding, as by `iconv -f LATIN1 -t UTF-8`."

# --- text -------------------------------------------------------------------------------------------------------------


def _json(text: IO[str], path: str) -> tuple[str, Iterator[tuple[int, Any]]]:
    """JSON lines if the first line is a value; else one value over many lines, if it is one; else lines with errors."""
    numbered = ((n, line) for n, line in enumerate(_bounded(text, path), 1) if line.strip())
    first = next(numbered, None)
    if first is None:
        raise RequestError(f"{path} is empty. Name a file that holds rollouts.", code="empty")
    if first[1].lstrip()[:1] not in {"{", "["}:
        raise RequestError(f"{path} {_guess(first[1])}", code="json")
    value = _parsed(first[1])
    if not isinstance(value, RequestError) or value.code == "encoding":
        return ("line", _lines(chain([first], numbered)))
    lines = [first, *numbered]
    joined = "".join(line for _, line in lines)
    if _undecoded(joined):
        raise RequestError(f"{path} is {NOT_UTF8}", code="encoding")
    try:
        whole = json.loads(joined)
    except json.JSONDecodeError as error:
        if _is_spread(lines):
            return ("line", iter([(lines[min(error.lineno, len(lines)) - 1][0], _fault(error, joined))]))
        whole = None
    except (ValueError, RecursionError):
        whole = None
    if isinstance(whole, list):
        return ("entry", enumerate(whole, 1))
    if isinstance(whole, dict):
        return ("entry", iter([(1, whole)]))
    return ("line", _lines(iter(lines)))


def _bounded(text: IO[str], path: str) -> Iterator[str]:
    """Its lines; RequestError at one that is too long to be read into memory with what is made of it."""
    number = 0
    while line := text.readline(LONGEST):
        number += 1
        if len(line) == LONGEST:
            raise RequestError(
                f"{path}: line {number} is longer than {LONGEST >> 20} Mi characters. Write one group a line.",
                code="file",
            )
        yield line


def _is_spread(numbered: list[tuple[int, str]]) -> bool:
    """Whether lines that are not JSON as a whole were meant to be one value: an array, or no line is an object."""
    if numbered[0][1].lstrip().startswith("["):
        return len(numbered) > 1
    return not any(isinstance(_parsed(line), dict) for _, line in numbered)


def _lines(numbered: Iterator[tuple[int, str]]) -> Iterator[tuple[int, Any]]:
    for number, line in numbered:
        value = _parsed(line)
        for one in value if isinstance(value, list) and value else [value]:
            yield number, one


def _undecoded(text: str) -> bool:
    """It holds bytes that the decoder could not read."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return True
    return False


def _parsed(text: str) -> Any:
    if _undecoded(text):
        return RequestError(NOT_UTF8, code="encoding")
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        return _fault(error, text)
    except RecursionError:
        return RequestError("nested too deeply. Write one rollout or group a line.", code="json")
    except ValueError as error:
        return RequestError(f"not JSON: {str(error)[:80]}", code="json")


def _fault(error: json.JSONDecodeError, text: str) -> RequestError:
    character = text[error.pos : error.pos + 1]
    if text.lstrip()[:2] in {"{'", "['"}:
        why = " but a Python object. Write it with json.dumps(...)."
    elif error.pos >= len(text.rstrip()) or error.msg.startswith("Unterminated string"):
        why = ", because it ends in the middle. Write it again, or remove what is left of it."
    elif error.msg == "Extra data":
        spread = "\n" in text[: error.pos].strip()
        fix = "Write each object on one line, as `jq -c .` does" if spread else "Begin a new line after each object"
        why = f" at character {error.colno}. {fix}."
    elif (character in {"}", "]"} and text[: error.pos].rstrip().endswith(",")) or error.msg.startswith(
        "Illegal trailing comma"
    ):
        why = f" at character {error.colno}. Remove the comma before the end."
    elif error.msg.startswith("Expecting property name"):
        why = f" at character {error.colno}. Put names in double quotes."
    else:
        why = f" at character {error.colno} ({error.msg.lower().removesuffix(' at')}). Write it with json.dumps(...)."
    return RequestError(f"not JSON{why}", code="json")


def _guess(line: str) -> str:
    """What the first line looks like, if it is not JSON."""
    text = line.strip()
    if text.startswith("<"):
        return "is not JSON but a web page or XML. Download the file itself."
    if text.startswith("version https://git-lfs"):
        return "is not JSON but a pointer of Git LFS. Run git lfs pull."
    for mark, kind, more in (("\t", "TSV", ", sep='\\t'"), (",", "CSV", "")):
        if mark in text:
            return (
                f"is not JSON but looks like {kind}. Convert it with "
                f"pandas.read_csv(FILE{more}).to_json(OUT, orient='records', lines=True)."
            )
    return "is not JSON. Write one JSON object a line, a JSON array, or Parquet."
