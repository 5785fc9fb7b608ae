"""Writing a file of the user: whole or not at all, or by whole lines; never over something unless the user says so.

The content goes to a temporary file beside the target, which takes the target's name at the end. Whatever interrupts
the writing, an error, Ctrl-C or SIGTERM, leaves the old file as it was, and nothing beside it.

Whoever opens an input calls `opened`, and no output takes the place of one, whatever path leads there: files are
compared by device and inode, the same through relative paths, links, /dev/stdin and standard input itself.
"""

from __future__ import annotations

import json
import os
import secrets
import shutil
import signal
import stat
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from pathlib import Path
from typing import IO, Any, NoReturn

from ..errors import RequestError

# None outside of a command: a service that reads its own log for weeks would remember every segment of it.
_INPUTS: ContextVar[set[tuple[int, int]] | None] = ContextVar("inputs", default=None)


@contextmanager
def remembered_inputs() -> Iterator[None]:
    """A block, as the run of a command, in which every input that is opened is kept from being written over."""
    token = _INPUTS.set(set())
    try:
        yield
    finally:
        _INPUTS.reset(token)


def opened(path: str | Path) -> None:
    """Remember an input (`-`: standard input). RequestError if the shell sends standard output to the end of it."""
    inputs, file = _INPUTS.get(), _file_of(sys.stdin if str(path) == "-" else path)
    if inputs is None or file is None:
        return
    inputs.add(file)
    if file == _file_of(sys.__stdout__):
        raise RequestError(f"{path} is where standard output goes too. Send it to another file.", code="file")


def check_not_input(path: str | Path) -> None:
    """RequestError if the running command has opened the file that stands at `path`."""
    if _file_of(path) in (_INPUTS.get() or ()):
        raise RequestError(f"{path} is a file that this command reads. Name another one.", code="file")


def _file_of(place: str | Path | IO[str] | None) -> tuple[int, int] | None:
    """Device and inode; None of what is no file, as a pipe, a terminal or a stand-in for standard input."""
    with suppress(OSError, ValueError, AttributeError):
        status = Path(place).stat() if isinstance(place, str | Path) else os.fstat(place.fileno())  # type: ignore[union-attr]
        return (status.st_dev, status.st_ino) if stat.S_ISREG(status.st_mode) else None
    return None


def check_free(path: str | Path, *, force: bool = False) -> Path:
    """The real path of the target.

    RequestError if the command reads this file, or if it exists and `force` is not set.
    """
    target = Path(os.path.realpath(path))
    if target.is_dir():
        raise RequestError(f"{path} is a folder. Name a file in it.", code="file")
    if not target.parent.is_dir():
        raise RequestError(f"{path}: the folder {target.parent} does not exist. Make it first.", code="file")
    check_not_input(path)
    if target.is_file() and not force:
        raise RequestError(f"{path} exists. Name another file, or add --force to replace it.", code="file")
    return target


@contextmanager
def whole_file(path: str | Path, *, force: bool = False) -> Iterator[Path]:
    """A path to write to, which becomes `path` at the end of the block and vanishes if the block raises.

    A device or a pipe, such as /dev/stdout, is written to as it is. The suffix stays, for writers that go by it.
    """
    target = check_free(path, force=force)
    if target.exists() and not target.is_file():
        yield target
        return
    part = target.with_name(f".{target.stem[:64]}.{secrets.token_hex(4)}.part{target.suffix}")
    try:
        with terminable():
            yield part
            check_free(path, force=force)  # somebody may have made it meanwhile, or the block has opened it
            if target.exists():
                shutil.copymode(target, part)
            part.replace(target)
    except OSError as error:
        if error.filename == str(part):  # the user has never heard of it
            error.filename, error.filename2 = str(path), None
        raise
    finally:
        part.unlink(missing_ok=True)


@contextmanager
def terminable() -> Iterator[None]:
    """SIGTERM ends the block as an exception does, where nobody else handles it."""
    main = threading.current_thread() is threading.main_thread()
    if not main or signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL:
        yield
        return

    def end(number: int, _: object) -> NoReturn:
        raise SystemExit(128 + number)  # what a shell says of a process that the signal ends

    signal.signal(signal.SIGTERM, end)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)


@contextmanager
def text_file(path: str | Path, *, force: bool = False) -> Iterator[IO[str]]:
    """The same as an open text file."""
    with whole_file(path, force=force) as part, part.open("w", encoding="utf-8", newline="\n") as file:
        yield file


def write_files(contents: Mapping[Path, str | bytes], *, force: bool = False) -> None:
    """Several files, of which none is written if one may not be. One that holds its content already is left alone."""
    encoded = {p: c.encode("utf-8", "replace") if isinstance(c, str) else c for p, c in contents.items()}
    wanted = {path: data for path, data in encoded.items() if not (path.is_file() and path.read_bytes() == data)}
    for path in wanted:
        check_free(path, force=force)
    for path, data in wanted.items():
        with whole_file(path, force=force) as part:
            part.write_bytes(data)


# --- line by line -----------------------------------------------------------------------------------------------------


def mend_end(path: Path) -> None:
    """Make a file of JSON lines one that lines can be added to: what a cut left of a last line is taken away."""
    with path.open("rb+") as file:
        content = file.read()
        if content and not content.endswith(b"\n"):
            tail = content[content.rfind(b"\n") + 1 :]
            try:
                json.loads(tail)
                file.write(b"\n")
            except ValueError:
                file.truncate(len(content) - len(tail))


def append_line(path: Path, row: Mapping[str, Any]) -> None:
    """A line at the end of the file, on the disk before this returns: a kill loses nothing that was called saved.

    What a full disk took of a line is taken away again: the next one would stand behind it.
    """
    line = json.dumps(row).encode() + b"\n"
    place = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o644)
    written = 0
    try:
        while written < len(line):
            written += os.write(place, line[written:])
        os.fsync(place)
    except OSError:
        start = os.lseek(place, -written, os.SEEK_END)
        if os.read(place, written) == line[:written]:  # nobody else has written since
            os.ftruncate(place, start)
        raise
    finally:
        os.close(place)
