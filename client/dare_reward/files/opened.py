"""The files that a command reads, so that none of its outputs takes the place of one, whatever path leads there.

Whoever opens an input calls `opened`; `output.py` calls `check_not_input` before it writes. Files are compared by
device and inode, which are the same through relative paths, links of both kinds, /dev/stdin and standard input itself.
"""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from pathlib import Path
from typing import IO

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
