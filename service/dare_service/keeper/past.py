"""What the page shows after a restart: the end of the run log, as much of it as a few seconds of work can add up."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any, Final

from dare_reward.errors import RequestError
from dare_reward.report.book import RUNS
from dare_reward.runs.reader import read_segments, segments

__all__ = ["Past", "load"]

BYTES: Final = 16 << 20  # of the segments that are read: some 15,000 groups of 64 rollouts
FOLDERS: Final = 1 << 12  # runs that are looked at


@dataclass(frozen=True, slots=True)
class Past:
    """Lines of the last runs, the last run at the end; `cut` if older lines of these runs are left out."""

    lines: Iterator[dict[str, Any]]
    cut: bool


def load(folder: Path) -> Past:
    """The last runs of a run log that were written, and of each its last segments. Nothing if there is none."""
    found: list[tuple[float, list[Path]]] = []
    with suppress(OSError):
        for _, own in zip(range(FOLDERS), folder.iterdir(), strict=False):
            with suppress(OSError, RequestError):
                files = [own] if own.is_file() else segments(own)
                found.append((max(f.stat().st_mtime for f in files), files))
    last = sorted(found, key=lambda pair: pair[0])[-RUNS:]
    chosen, room, cut = [], BYTES, False
    for _, files in reversed(last):
        kept, room = _newest(files, room)
        chosen.append(kept)
        cut = cut or len(kept) < len(files)
    return Past(chain.from_iterable(read_segments(own) for own in reversed(chosen) if own), cut)


def _newest(files: list[Path], room: int) -> tuple[list[Path], int]:
    """The newest of a run's segments that fit, the room that they leave; one that does not fit ends them."""
    kept: list[Path] = []
    for file in sorted(files, key=lambda f: f.stat().st_mtime, reverse=True):
        size = file.stat().st_size
        if size > room:
            break
        kept.append(file)
        room -= size
    return kept, room
