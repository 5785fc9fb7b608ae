"""Scored groups for a report: the lines of a run log, or those of any file of rollouts, which are scored here."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import Any, Final

from ..errors import RequestError
from ..files.content import open_records, run_log
from ..files.reader import Faults, Item, Reader
from ..files.shapes import is_logged
from ..ledger import Fate, Ledger
from ..runs.line import ASKED, fault, objects, of_scored
from ..runs.reader import is_segment
from ..scoring.request import UNLIMITED, fault_of, is_named
from ..scoring.score import ScoredGroups, score

Line = dict[str, Any]
Group = Mapping[str, Any]
BATCH: Final = 64


def is_run(path: str) -> bool:
    """Whether the groups there were scored before."""
    return path != "-" and (is_segment(path) or _is_log(path))


def run_lines(path: str, ledger: Ledger) -> Iterator[Line]:
    """The lines of a run log: of its folder, of one of its files, or of a file with such lines under another name."""
    return run_log(path, ledger) if is_segment(path) else _logged(path, ledger)


def _is_log(path: str) -> bool:
    if not Path(path).is_file():  # a pipe can be read once
        return False
    values = open_records(path)
    try:
        _, first = next(values.items, (0, None))
    finally:
        values.close()
    return is_logged(first)


def _logged(path: str, ledger: Ledger) -> Iterator[Line]:
    values = open_records(path)
    try:
        for number, value in values.items:
            unread = isinstance(value, RequestError)
            why = str(value) if unread else fault(value)
            fate: Fate = "unreadable" if unread else "refused" if why else "read"
            ledger.count(fate, why and f"{values.unit} {number}: {why}")
            if not why:
                yield value
    finally:
        values.close()


def scored_lines(
    reader: Reader,
    ledger: Ledger,
    *,
    method: str,
    params: Mapping[str, Any],
    shadow: Sequence[str],
    tell: Callable[[str], None],
) -> Iterator[Line]:
    """The lines of a file that `dare-reward score` reads, scored. What cannot be read of it is said through `tell`."""
    faults = Faults(reader.unit, tell)

    def scored(groups: Sequence[Group]) -> Iterator[Line]:
        # A prompt comes back in a later step.
        numbered = [{**group, "group_id": str(i)} for i, group in enumerate(groups)]
        found = score(numbered, params, method=method, shadow=shadow, limits=UNLIMITED, readings=reader.readings)
        return lines_of(found, groups)

    def good(items: Sequence[Item]) -> Iterator[dict[str, Any]]:
        for number, item in items:
            if isinstance(item, RequestError):
                faults.add(number, item)
            elif (error := fault_of(item, reader.readings)) is not None:
                faults.add(number, error)
                reader.ledger.count("read", records=-1)
                reader.ledger.count("refused", f"{reader.unit} {number}: {error}")
            else:
                yield item

    source = iter(reader)
    while items := list(islice(source, BATCH)):
        lines = None
        with suppress(RequestError):  # one of them is at fault, or the request, which is told when it is asked again
            groups = [item for _, item in items if is_named(item)]
            lines = scored(groups) if len(groups) == len(items) else None
        if lines is None:
            groups = list(good(items))
            lines = scored(groups) if groups else iter(())
        yield from lines
    faults.say()
    reader.say(tell)
    ledger.add(reader.ledger)


def lines_of(scored: ScoredGroups, groups: Sequence[Group]) -> Iterator[Line]:
    """The lines that a run log would hold, with prompts and texts; run and step are those of a group's `meta`."""
    record = of_scored(scored, groups, asked=frozenset(ASKED))
    for group, line in zip(groups, objects(record, 0.0), strict=True):
        meta, name = group.get("meta") or {}, group.get("group_id", line["reply"]["group_id"])
        reply = {**line["reply"], "group_id": name}
        yield line | {"time": None, "run": meta.get("run"), "step": meta.get("step"), "reply": reply}
