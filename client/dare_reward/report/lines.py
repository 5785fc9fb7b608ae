"""Scored groups for a report: the lines of a run log, or those of any file of rollouts, which are scored here."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, Final

from ..answers.rollouts import Readings
from ..errors import RequestError
from ..files.content import GZIP, open_values
from ..files.entropy_estimates import EntropyEstimate
from ..files.labels import LabelFile
from ..files.reader import Faults, Reader
from ..files.shapes import is_logged
from ..runs.line import ASKED, objects, of_scored
from ..runs.reader import SEGMENT, Skipped, check_version, read_run
from ..scoring.request import UNLIMITED, prepare
from ..scoring.score import ScoredGroups, score

Line = dict[str, Any]
Group = Mapping[str, Any]
BATCH: Final = 64


def read_lines(
    path: str,
    *,
    method: str,
    params: Mapping[str, Any],
    shadow: Sequence[str],
    missing: EntropyEstimate | None,
    labels: LabelFile | None = None,
    tell: Callable[[str], None],
) -> Iterator[Line]:
    """The lines of a run log (a folder or a file of it), or of a file that `dare-reward score` reads, scored.

    RequestError if nothing can be read there. What cannot be read of a file is said through `tell`.
    """
    if is_run(path):
        if labels is not None:
            raise RequestError(
                f"{path} is a run log, which holds labels as they were sent: leave out --labels", code="parameter"
            )
        return run_lines(path, tell)
    return _scored(Reader(path, missing=missing, labels=labels), method=method, params=params, shadow=shadow, tell=tell)


def is_run(path: str) -> bool:
    """Whether `read_lines` reads groups there that were scored before."""
    return path != "-" and (_is_folder(path) or _is_log(path))


def run_lines(path: str, tell: Callable[[str], None]) -> Iterator[Line]:
    """The lines of a run log: of its folder, of one of its files, or of a file with such lines under another name.

    What is left out is said through `tell`.
    RequestError if there are none.
    """
    if _is_folder(path):
        return read_run(path, tell=tell)
    if Path(path).is_file():
        if not _is_log(path):
            raise RequestError(
                f"{path} holds no line of a run log. If it holds rollouts, `dare-reward score` reads it.", code="file"
            )
        with Path(path).open("rb") as file:
            packed = file.read(len(GZIP)) == GZIP
        if packed:  # it may be torn, as a segment may be
            return read_run(path, tell=tell)
    return _logged(path, tell)


def _is_folder(path: str) -> bool:
    """A run log's folder, or a file of one."""
    return path != "-" and (Path(path).is_dir() or SEGMENT.fullmatch(Path(path).name) is not None)


def _is_log(path: str) -> bool:
    if not Path(path).is_file():  # a pipe can be read once
        return False
    values = open_values(path)
    try:
        _, first = next(values.items, (0, None))
    finally:
        values.close()
    return is_logged(first)


def _logged(path: str, tell: Callable[[str], None]) -> Iterator[Line]:
    values, skipped = open_values(path), Skipped()
    try:
        for _, value in values.items:
            if is_logged(value):
                check_version(value, Path(path))
                if not skipped.unfit(value, Path(path)):
                    yield value
    finally:
        values.close()
    skipped.say(tell)


def _scored(
    reader: Reader, *, method: str, params: Mapping[str, Any], shadow: Sequence[str], tell: Callable[[str], None]
) -> Iterator[Line]:
    faults, readings = Faults(reader.unit, tell), Readings()

    def good() -> Iterator[Group]:
        for number, group in reader:
            if isinstance(group, RequestError):
                faults.add(number, group)
                continue
            try:
                prepare([group], limits=UNLIMITED, readings=readings)
            except RequestError as error:
                faults.add(number, error)
                continue
            yield group

    source = good()
    while batch := list(islice(source, BATCH)):
        # A prompt comes back in a later step.
        numbered = [{**group, "group_id": str(i)} for i, group in enumerate(batch)]
        scored = score(numbered, params, method=method, shadow=shadow, limits=UNLIMITED, readings=readings)
        yield from lines_of(scored, batch)
    faults.say()
    reader.say(tell)


def lines_of(scored: ScoredGroups, groups: Sequence[Group]) -> Iterator[Line]:
    """The lines that a run log would hold, with prompts and texts; run and step are those of a group's `meta`."""
    record = of_scored(scored, groups, asked=frozenset(ASKED))
    for group, line in zip(groups, objects(record, 0.0), strict=True):
        meta = group.get("meta") or {}
        place = {"time": None, "run": meta.get("run"), "step": meta.get("step")}
        yield line | place | {"group_id": group.get("group_id", line["group_id"])}
