"""Scored groups for a report: the lines of a run log, or those of any file of rollouts, which are scored here."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice, pairwise
from pathlib import Path
from typing import Any, Final

from .._scoring.diagnostics import correctness
from .._scoring.request import UNLIMITED, prepare
from .._scoring.score import estimate
from .._segments import Floats, offsets
from ..errors import RequestError
from ..files.content import open_values
from ..files.reader import Faults, Reader
from ..reply import Reply

__all__ = ["lines_of", "read_lines"]

Line = dict[str, Any]
Group = Mapping[str, Any]
BATCH: Final = 64
LOGGED: Final = frozenset({"v", "group_id", "answers"})


def read_lines(
    path: str,
    *,
    method: str,
    params: Mapping[str, Any],
    shadow: Sequence[str],
    logprobs: bool,
    tell: Callable[[str], None],
) -> Iterator[Line]:
    """The lines of a run log (a folder or a file of it), or of a file that `dare-reward score` reads, scored.

    RequestError if nothing can be read there. What cannot be read of a file is said through `tell`.
    """
    if path != "-" and Path(path).is_dir():
        found = sorted(f for f in Path(path).rglob("*") if f.name.endswith((".jsonl", ".jsonl.gz")))
        if not found:
            raise RequestError(f"{path}: no run log is there, which is a folder with files *.jsonl.gz", code="file")
        return (line for file in found for line in _logged(str(file)))
    if path != "-" and _is_log(path):
        return _logged(path)
    return _scored(Reader(path, logprobs=logprobs), method=method, params=params, shadow=shadow, tell=tell)


def _is_log(path: str) -> bool:
    values = open_values(path)
    try:
        _, first = next(values.items, (0, None))
    finally:
        values.close()
    return isinstance(first, dict) and first.keys() >= LOGGED and "rollouts" not in first


def _logged(path: str) -> Iterator[Line]:
    values = open_values(path)
    try:
        yield from (value for _, value in values.items if isinstance(value, dict) and "group_id" in value)
    finally:
        values.close()


def _scored(
    reader: Reader, *, method: str, params: Mapping[str, Any], shadow: Sequence[str], tell: Callable[[str], None]
) -> Iterator[Line]:
    faults = Faults(reader.unit, tell)

    def good() -> Iterator[Group]:
        for number, group in reader:
            if isinstance(group, RequestError):
                faults.add(number, group)
                continue
            try:
                prepare([group], limits=UNLIMITED)
            except RequestError as error:
                faults.add(number, error)
                continue
            yield group

    source = good()
    while batch := list(islice(source, BATCH)):
        yield from lines_of(batch, estimate(batch, method=method, shadow=shadow, limits=UNLIMITED, **params))
    faults.say()
    reader.say(tell)


def lines_of(groups: Sequence[Group], reply: Reply) -> Iterator[Line]:
    """Lines in the shape of the run log; run and step are those of a group's `meta`."""
    prepared = prepare(groups, limits=UNLIMITED)
    arrays, correct_R = prepared.groups, correctness(prepared)
    ends = pairwise(offsets(arrays.sizes_P).tolist())
    body = reply.to_json()["groups"]
    for group, said, kind, (low, high) in zip(groups, body, prepared.kinds, ends, strict=True):
        meta = group.get("meta") or {}
        rollouts = group["rollouts"]
        texts = [r.get("text") for r in rollouts]
        tokens = [r.get("token_entropies") for r in rollouts]
        yield {
            "v": 1,
            "run": meta.get("run"),
            "step": meta.get("step"),
            "kind": kind,
            "label": group.get("label"),
            **said,
            "group_id": group.get("group_id", said["group_id"]),
            "trained": arrays.trains_R[low:high].tolist(),
            "correct": _known(correct_R[low:high], bool),
            "mean_entropies": _known(arrays.column("mean_entropy")[low:high], float),
            "num_tokens": _known(arrays.column("num_tokens")[low:high], int),
            "prompt": group.get("prompt"),
            "texts": texts if any(t is not None for t in texts) else None,
            "token_entropies": tokens if any(t is not None for t in tokens) else None,
        }


def _known(values: Floats, kind: type) -> list[Any] | None:
    """Numbers with null for unknown ones; null as a whole if none is known."""
    out = [None if math.isnan(x) else kind(x) for x in values.tolist()]
    return out if any(x is not None for x in out) else None
