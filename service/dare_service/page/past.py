"""What the page shows after a restart: the end of the run log, in so many lines and bytes and no more.

New groups wait until it is added up, which takes longer the larger its groups are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any, Final

from dare_reward.errors import RequestError
from dare_reward.report.book import RUNS
from dare_reward.runs.reader import count_lines, read_segments, segments

BYTES: Final = 16 << 20  # of the compressed segments that are read: some 15,000 groups of 64 rollouts
LINES: Final = 20_000  # that are read and added up, however small
FOLDERS: Final = 1 << 12  # runs that are looked at


@dataclass(frozen=True, slots=True)
class Past:
    """Lines of the last runs, the last run at the end; `cut` if older lines of these runs are left out."""

    lines: Iterator[dict[str, Any]]
    cut: bool


def load(folder: Path, tell: Callable[[str], None] = lambda _: None) -> Past:
    """The last runs of a run log that were written, and of each its last segments. Nothing if there is none.

    tell   is told how many lines cannot be used
    """
    runs_by_time: list[tuple[float, list[Path]]] = []
    with suppress(OSError):
        for _, place in zip(range(FOLDERS), folder.iterdir(), strict=False):
            with suppress(OSError, RequestError):
                files = [place] if place.is_file() else segments(place)
                runs_by_time.append((max(f.stat().st_mtime for f in files), files))
    last = sorted(runs_by_time, key=lambda pair: pair[0])[-RUNS:]
    chosen: list[dict[Path, int]] = []
    room, left, cut = BYTES, LINES, False
    for _, files in reversed(last):
        kept, room, left = _newest(files, room, left)
        chosen.append(kept)
        cut = cut or len(kept) < len(files) or any(kept.values())
    runs = (read_segments([*place], skip=place, tell=tell) for place in reversed(chosen) if place)
    return Past(chain.from_iterable(runs), cut)


def _newest(files: list[Path], room: int, left: int) -> tuple[dict[Path, int], int, int]:
    """The newest of a run's segments that fit, each with the number of its first lines to skip; what room is left.

    Bytes and lines are bounded. A segment with too many bytes is left out. Of one with too many
    lines, the last ones fit.
    """
    kept: dict[Path, int] = {}
    for file in sorted(files, key=lambda f: f.stat().st_mtime, reverse=True):
        size = file.stat().st_size
        if size > room or left == 0:
            break
        count = count_lines(file)
        kept[file] = max(count - left, 0)
        room, left = room - size, max(left - count, 0)
    return kept, room, left
