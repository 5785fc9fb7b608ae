"""What a client sends: groups reduced to what the method needs, in bodies that fit the service's limits.  Sans-IO."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from .errors import RequestError
from .fields import FIELDS
from .groups import Ragged
from .methods import find
from .request import READING, check_shape, kind_of, option_tuple, read_answers
from .segments import segment_means
from .wire import MEDIA_TYPES, pack

__all__ = ["Part", "Sending", "parts"]

JSON = Mapping[str, Any]
COPIED: Final = ("id", "finish_reason", "trained", "correct")
SCALARS: Final = tuple(f.name for f in FIELDS.values() if f.shape == "scalar")
TOKENS: Final = tuple(f.name for f in FIELDS.values() if f.shape == "tokens")
GROUP_COPIED: Final = ("kind", "options", "label", "reference", "entropy_source", "entropy_mode")


@dataclass(frozen=True, slots=True)
class Sending:
    """Texts instead of answers; token arrays instead of means."""

    text: bool = False
    tokens: bool = False


@dataclass(frozen=True, slots=True)
class Part:
    """One request body, and what its reply has to match."""

    content: bytes
    media_type: str
    group_ids: list[str]
    sizes: list[int]


@dataclass(frozen=True, slots=True)
class _Group:
    """One group as it travels: JSON, its token arrays by field (one entry per rollout), and its size in bytes."""

    body: dict[str, Any]
    arrays: Mapping[str, list[Any]]
    size: int


def parts(
    groups: Sequence[JSON],
    head: JSON,
    *,
    sending: Sending,
    max_groups: int,
    json_bytes: int,
    frame_bytes: int,
) -> Iterator[Part]:
    """The request bodies for `groups`, in order. A single group over a limit travels alone and is refused there."""
    check_shape(groups)
    wanted = _token_fields(head["method"], sending)
    reading = {k: v for k, v in head["params"].items() if k in READING}
    ready = [_slim(g, p, sending, wanted, reading) for p, g in enumerate(groups)]
    limit = frame_bytes if any(g.arrays for g in ready) else json_bytes
    run: list[_Group] = []
    total = 0
    for group in ready:
        if run and (len(run) == max_groups or total + group.size > 0.9 * limit):
            yield _part(run, head)
            run, total = [], 0
        run.append(group)
        total += group.size
    if run or not ready:
        yield _part(run, head)


def _token_fields(method: str, sending: Sending) -> tuple[str, ...]:
    """The per-token inputs that travel as arrays. A method that this version does not know gets all."""
    try:
        required = find(method).requires
    except RequestError:
        return TOKENS
    return tuple(name for name in TOKENS if sending.tokens or name in required)


def _slim(group: JSON, index: int, sending: Sending, wanted: Sequence[str], reading: Mapping[str, Any]) -> _Group:
    rollouts = group["rollouts"]
    out: list[dict[str, Any]] = [{k: r[k] for k in COPIED if r.get(k) is not None} for r in rollouts]
    _put_answers(out, group, sending, reading)
    for name in SCALARS:
        for target, rollout in zip(out, rollouts, strict=True):
            if rollout.get(name) is not None:
                target[name] = rollout[name]
    if "token_entropies" not in wanted:
        _put_means(out, rollouts)
    arrays = {
        name: [r.get(name) for r in rollouts] for name in wanted if any(r.get(name) is not None for r in rollouts)
    }
    body = {
        "group_id": group.get("group_id", str(index)),
        **{k: group[k] for k in GROUP_COPIED if group.get(k) is not None},
    }
    body["rollouts"] = out
    # Eight bytes an element, and 300 for the frame's bookkeeping, bound what the arrays add.
    size = (
        len(json.dumps(body, default=_plain))
        + sum(8 * len(x) for a in arrays.values() for x in a if x is not None)
        + 300
    )
    return _Group(body, arrays, size)


def _put_answers(out: Sequence[dict[str, Any]], group: JSON, sending: Sending, reading: Mapping[str, Any]) -> None:
    """Answers extracted here; texts where asked for, or where the service has to see how an answer was found."""
    rollouts = group["rollouts"]
    if sending.text or reading.get("mode", "clean") != "clean" or reading.get("fallback"):
        for target, rollout in zip(out, rollouts, strict=True):
            target.update({k: _portable(rollout[k]) for k in ("answer", "text") if k in rollout})
        return
    raws = read_answers(rollouts, [False] * len(rollouts), kind=kind_of(group), options=option_tuple(group), **reading)
    for target, found in zip(out, raws, strict=True):
        target["answer"] = _portable(found.answer)


def _put_means(out: Sequence[dict[str, Any]], rollouts: Sequence[JSON]) -> None:
    """Mean and number of the token entropies, by the same sums as the service's."""
    for target, rollout in zip(out, rollouts, strict=True):
        tokens = rollout.get("token_entropies")
        if tokens is None:
            continue
        values = _array("token_entropies", tokens)
        mask = rollout.get("token_mask")
        lengths = np.array([len(values)])
        means, counts = segment_means(values, lengths, mask_T=None if mask is None else _array("token_mask", mask))
        target["mean_entropy"] = None if np.isnan(means[0]) else float(means[0])
        target["num_tokens"] = int(counts[0])


def _part(run: Sequence[_Group], head: JSON) -> Part:
    bodies = [g.body for g in run]
    ids, sizes = [b["group_id"] for b in bodies], [len(b["rollouts"]) for b in bodies]
    request = {**head, "groups": bodies}
    names = sorted({name for g in run for name in g.arrays})
    if not names:
        return Part(json.dumps(request, separators=(",", ":"), default=_plain).encode(), "application/json", ids, sizes)
    request = json.loads(json.dumps(request, default=_plain))
    columns = {
        name: _ragged(name, [x for g in run for x in g.arrays.get(name, [None] * len(g.body["rollouts"]))])
        for name in names
    }
    if "token_mask" in columns and "token_entropies" in columns:
        columns["token_mask"] = _whole_mask(columns["token_mask"], columns["token_entropies"])
    return Part(pack(request, columns), MEDIA_TYPES[0], ids, sizes)


def _ragged(name: str, rows: Sequence[Any]) -> Ragged:
    lengths = np.array([0 if x is None else len(x) for x in rows], np.int64)
    return Ragged(np.concatenate([_array(name, x) for x in rows if x is not None]), lengths)


def _whole_mask(mask: Ragged, tokens: Ragged) -> Ragged:
    """The frame's arrays share one `lengths`: a rollout that sent no mask gets a full one."""
    values = np.ones(len(tokens.values), np.bool_)
    values[np.repeat(mask.lengths > 0, tokens.lengths)] = mask.values
    return Ragged(values, tokens.lengths)


def _array(name: str, tokens: Any) -> Any:
    """A NumPy array of a type that travels: float32 stays, everything else is float64 (masks: bool)."""
    kind = FIELDS[name].type
    if kind == "bool":
        return np.asarray(tokens, np.bool_)
    array = np.asarray(tokens)
    return array if array.dtype == np.float32 else array.astype(np.int64 if kind == "int" else np.float64)


def _portable(text: str | None) -> str | None:
    """Lone surrogates are not Unicode text and no JSON parser takes them."""
    if text is None or text.isascii():
        return text
    return text.encode("utf-8", "replace").decode()


def _plain(value: Any) -> Any:
    """NumPy's numbers as Python's."""
    if isinstance(value, np.generic | np.ndarray):
        return value.tolist()
    raise RequestError(f"{type(value).__name__} is not JSON", code="type")
