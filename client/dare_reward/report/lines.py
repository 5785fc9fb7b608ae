"""Scored groups for a report: the lines of a run log, or those of any file of rollouts, which are scored here."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice, pairwise
from pathlib import Path
from typing import Any, Final

from .._scoring.request import UNLIMITED, prepare
from .._scoring.score import ScoredGroups, scored
from .._segments import Floats, offsets
from ..errors import RequestError
from ..files.content import open_values
from ..files.reader import Faults, Reader
from ..reply import group_json
from ..runs.line import ASKED, VERSION
from ..runs.reader import SEGMENT, read_run

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
    if path != "-" and (Path(path).is_dir() or SEGMENT.fullmatch(Path(path).name)):
        return read_run(path)
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
        own = [{**group, "group_id": str(i)} for i, group in enumerate(batch)]  # a prompt comes back in a later step
        found = scored(own, params, method=method, shadow=shadow, limits=UNLIMITED)
        yield from lines_of(found, batch, asked=frozenset(ASKED))
    faults.say()
    reader.say(tell)


def lines_of(
    found: ScoredGroups,
    groups: Sequence[Group],
    *,
    asked: frozenset[str] = frozenset(),
    run: str | None = None,
    step: int | None = None,
) -> Iterator[Line]:
    """Groups that were scored, in the shape of the run log's lines, with what was `asked` for of prompt and texts.

    Run and step of a group's `meta`, where a file names them, go before those of the request.
    """
    arrays, correct_R = found.prepared.groups, found.correct_R
    ends = pairwise(offsets(arrays.sizes_P).tolist())
    entropy_R, tokens_R, trained_R = arrays.column("mean_entropy"), arrays.column("num_tokens"), arrays.trains_R
    for group, said, kind, (low, high) in zip(groups, found.reply.groups, found.prepared.kinds, ends, strict=True):
        meta, rollouts = group.get("meta") or {}, group["rollouts"]
        texts = {"texts": "text", "token_entropies": "token_entropies"}
        columns = {key: [r.get(name) for r in rollouts] for key, name in texts.items() if key in asked}
        yield {
            "v": VERSION,
            "run": meta.get("run", run),
            "step": meta.get("step", step),
            "kind": kind,
            "label": group.get("label"),
            **group_json(said),
            "group_id": group.get("group_id", said.group_id),
            "trained": trained_R[low:high].tolist(),
            "correct": _known(correct_R[low:high], bool),
            "mean_entropies": _known(entropy_R[low:high], float),
            "num_tokens": _known(tokens_R[low:high], int),
            **({"prompt": group.get("prompt")} if "prompt" in asked else {}),
            **{key: column for key, column in columns.items() if any(x is not None for x in column)},
        }


def _known(values: Floats, kind: type) -> list[Any] | None:
    """Numbers with null for unknown ones; null as a whole if none is known."""
    out = [None if math.isnan(x) else kind(x) for x in values.tolist()]
    return out if any(x is not None for x in out) else None
