"""The groups of a run log as `POST /reward` takes them, step by step."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from ..inputs import FIELDS
from ..scoring.request import LIMITS

JSON = Mapping[str, Any]
SOURCES: Final = ("exact", "topk", "logprob")
OPEN: Final = 8  # steps, of all runs, whose groups may still come


def by_step(lines: Iterable[JSON]) -> Iterator[list[JSON]]:
    """The lines of each step of a run, where lines of a few steps are mixed; too large a step comes in parts."""
    waiting: OrderedDict[tuple[Any, Any], list[JSON]] = OrderedDict()
    for line in lines:
        key = (line.get("run"), line.get("step"))
        step = waiting.setdefault(key, [])
        step.append(line)
        if len(step) >= LIMITS.groups:
            yield waiting.pop(key)
        elif len(waiting) > OPEN:
            yield waiting.popitem(last=False)[1]
    yield from waiting.values()


def stored_group(line: JSON, index: int = 0) -> dict[str, Any]:
    """A group of `POST /reward` with what a line holds: answers by code points, because they are classes already."""
    columns = {
        "answer": line["answers"],
        "mean_entropy": line.get("mean_entropies"),
        "num_tokens": line.get("num_tokens"),
        "correct": line.get("correct"),
        **{name: values for name, values in (line.get("inputs") or {}).items() if name in FIELDS},
    }
    rollouts: list[dict[str, Any]] = [
        {"trained": bool(t)} for t in line.get("trained") or [True] * len(line["answers"])
    ]
    for name, values in columns.items():
        for rollout, value in zip(rollouts, values or (), strict=False):
            if value is not None or name == "answer":
                rollout[name] = value
    source = line.get("entropy_source")
    return {
        "group_id": str(index),
        "kind": "exact",
        "entropy_source": source if source in SOURCES else "exact",
        "rollouts": rollouts,
    }
