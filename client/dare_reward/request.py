"""From groups in the JSON shape of the HTTP body to the arrays that an estimator sees.

Columns are checked as columns: one pass over a set of types or an array, and only a failure looks for its place.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain
from types import MappingProxyType
from typing import Annotated, Any, Final, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from .answers import (
    Classes,
    Extraction,
    Kind,
    classify,
    extract,
    official_answer,
    official_key,
    option_letters,
)
from .errors import LimitError, RequestError
from .fields import FIELDS, Field
from .groups import Groups, Ragged
from .params import Param, parameters
from .segments import Bools, Ints, blocks, offsets, segment_means

__all__ = [
    "ANSWER_SPECS",
    "GROUP_KEYS",
    "LIMITS",
    "READING",
    "ROLLOUT_KEYS",
    "Columns",
    "Limits",
    "Prepared",
    "check_shape",
    "option_tuple",
    "prepare",
    "read_answers",
]

Columns = Mapping[str, "NDArray[Any] | Ragged"]
JSON = Mapping[str, Any]

KINDS: Final = get_args(Kind)
SOURCES: Final = ("exact", "topk", "logprob")
MODES: Final = ("temperature", "raw", "unknown")
GROUP_KEYS: Final = frozenset(
    {
        "group_id",
        "kind",
        "options",
        "prompt",
        "label",
        "reference",
        "entropy_source",
        "entropy_mode",
        "rollouts",
        "meta",
    }
)
ROLLOUT_KEYS: Final = frozenset({"id", "answer", "text", "finish_reason", "trained", "correct", "meta", *FIELDS})


@dataclass(frozen=True, slots=True)
class Limits:
    """What one request may hold; more is a LimitError."""

    groups: int = 1024
    rollouts: int = 1024
    text: int = 256 << 10


LIMITS = Limits()
UNLIMITED = Limits(sys.maxsize, sys.maxsize, sys.maxsize)


@dataclass(frozen=True, slots=True, eq=False)
class Prepared:
    """A request's groups as arrays, with what the reply repeats and what only diagnostics may see (labels, correct)."""

    groups: Groups
    group_ids: tuple[str, ...]
    keys_A: tuple[str, ...]
    sources: tuple[str, ...]
    kinds: tuple[Kind, ...]
    options: tuple[tuple[str, ...] | None, ...]
    labels: tuple[str | None, ...]
    correct_R: tuple[bool | None, ...]
    guessed_P: Bools


def prepare(
    groups: Sequence[JSON],
    *,
    columns: Columns = MappingProxyType({}),
    params: Mapping[str, Any] = MappingProxyType({}),
    limits: Limits = LIMITS,
) -> Prepared:
    """Check and convert.

    `columns` are arrays over all rollouts that came beside the JSON (the frame's tensors); `params` are values of
    `ANSWER_SPECS`.
    """
    rollouts = check_shape(groups, limits=limits)
    sizes_P = np.array([len(g["rollouts"]) for g in groups], np.int64)
    where = _locator(sizes_P)
    arrays = _columns(rollouts, columns, where)
    options = tuple(_options(g, p) for p, g in enumerate(groups))
    silent_R = _silent(arrays, len(rollouts))
    classes, guessed_P = _classify(groups, silent_R, options, params)
    return Prepared(
        groups=Groups(
            sizes_P,
            _flat_index(classes),
            np.array([len(c.answers) for c in classes], np.int64),
            tuple(chain.from_iterable(c.answers for c in classes)),
            arrays,
            np.array([r.get("trained", True) for r in rollouts], bool),
        ),
        group_ids=tuple(g.get("group_id", str(p)) for p, g in enumerate(groups)),
        keys_A=tuple(chain.from_iterable(c.kinds for c in classes)),
        sources=tuple(g.get("entropy_source") or "exact" for g in groups),
        kinds=tuple(map(kind_of, groups)),
        options=options,
        labels=tuple(g.get("label") for g in groups),
        correct_R=tuple(r.get("correct") for r in rollouts),
        guessed_P=guessed_P,
    )


# --- structure -------------------------------------------------------------------------------------------------------

Where = Callable[[int], tuple[str | int, ...]]


def _locator(sizes_P: Ints) -> Where:
    starts = offsets(sizes_P)

    def where(i: int) -> tuple[str | int, ...]:
        p = int(np.searchsorted(starts, i, side="right")) - 1
        return ("groups", p, "rollouts", int(i - starts[p]))

    return where


def check_shape(groups: Sequence[JSON], *, limits: Limits | None = None) -> list[JSON]:
    """Objects, lists, names and strings are what they must be; returns all rollouts. Numbers are checked as columns."""
    _check_groups(groups, limits or UNLIMITED)
    rollouts = list(chain.from_iterable(g["rollouts"] for g in groups))
    _check_rollouts(
        groups, rollouts, _locator(np.array([len(g["rollouts"]) for g in groups], np.int64)), limits or UNLIMITED
    )
    return rollouts


def _check_groups(groups: Any, limits: Limits) -> None:
    if isinstance(groups, str | bytes | Mapping) or not isinstance(groups, Sequence):
        raise RequestError("must be a list of groups", loc=("groups",), code="type")
    if len(groups) > limits.groups:
        raise LimitError(
            f"{len(groups)} groups; at most {limits.groups} in one request", loc=("groups",), code="groups"
        )
    seen: dict[str, int] = {}
    for p, group in enumerate(groups):
        loc = ("groups", p)
        _check_keys(group, GROUP_KEYS, loc)
        rollouts = group.get("rollouts")
        if not isinstance(rollouts, Sequence) or isinstance(rollouts, str | bytes) or not rollouts:
            raise RequestError("must be a list of at least one rollout", loc=(*loc, "rollouts"), code="empty_group")
        if len(rollouts) > limits.rollouts:
            raise LimitError(
                f"{len(rollouts)} rollouts; at most {limits.rollouts} in one group",
                loc=(*loc, "rollouts"),
                code="rollouts",
            )
        name = group.get("group_id", str(p))
        if not isinstance(name, str) or not 1 <= len(name) <= 256:
            raise RequestError("must be a string of 1 to 256 characters", loc=(*loc, "group_id"), code="value")
        if name in seen:
            raise RequestError(f"is the id of group {seen[name]} too", loc=(*loc, "group_id"), code="duplicate_id")
        seen[name] = p
        _check_choice(group, "kind", KINDS, loc)
        _check_choice(group, "entropy_source", SOURCES, loc)
        _check_choice(group, "entropy_mode", MODES, loc)
        for key in ("label", "reference", "prompt"):
            if not isinstance(group.get(key), str | None):
                raise RequestError("must be a string or null", loc=(*loc, key), code="type")


def _check_keys(value: Any, known: frozenset[str], loc: tuple[str | int, ...]) -> None:
    if not isinstance(value, Mapping):
        raise RequestError("must be an object", loc=loc, code="type")
    unknown = next((key for key in value if key not in known), None)
    if unknown is not None:
        raise RequestError(
            f"unknown field {str(unknown)[:64]!r}; known: {', '.join(sorted(known))}; put your own data into meta",
            loc=loc,
            code="unknown_field",
        )


def _check_choice(group: JSON, key: str, allowed: Sequence[str], loc: tuple[str | int, ...]) -> None:
    if group.get(key) is not None and group[key] not in allowed:
        raise RequestError(f"must be one of {', '.join(allowed)}", loc=(*loc, key), code="value")


def _check_rollouts(groups: Sequence[JSON], rollouts: Sequence[Any], where: Where, limits: Limits) -> None:
    for i, rollout in enumerate(rollouts):
        if not isinstance(rollout, Mapping) or not rollout.keys() <= ROLLOUT_KEYS:
            _check_keys(rollout, ROLLOUT_KEYS, where(i))
    for key in ("answer", "text", "finish_reason", "id"):
        column = [r.get(key) for r in rollouts]
        _check_types(column, {str, type(None)}, "a string or null", key, where)
        long = next((i for i, x in enumerate(column) if x is not None and len(x) > limits.text), None)
        if long is not None:
            raise LimitError(f"longer than {limits.text} characters", loc=(*where(long), key), code="text")
    _check_types([r.get("trained", True) for r in rollouts], {bool}, "true or false", "trained", where)
    _check_types([r.get("correct") for r in rollouts], {bool, type(None)}, "true, false or null", "correct", where)
    for p, group in enumerate(groups):
        ids = [r.get("id") for r in group["rollouts"]]
        named = [x for x in ids if x is not None]
        if len(set(named)) < len(named):
            j = next(j for j, x in enumerate(ids) if x is not None and x in ids[:j])
            raise RequestError(
                "is the id of another rollout too", loc=("groups", p, "rollouts", j, "id"), code="duplicate_id"
            )


def _check_types(column: Sequence[Any], types: set[type], words: str, key: str, where: Where) -> None:
    if not set(map(type, column)) <= types:
        i = next(i for i, x in enumerate(column) if type(x) not in types)
        raise RequestError(f"must be {words}", loc=(*where(i), key), code="type")


def kind_of(group: JSON) -> Kind:
    kind: Kind = group.get("kind") or "math"
    return kind


def option_tuple(group: JSON) -> tuple[str, ...] | None:
    """The letters that a choice group's answers may be; None for another kind."""
    return option_letters(group.get("options")) if group.get("kind") == "choice" else None


def _options(group: JSON, p: int) -> tuple[str, ...] | None:
    try:
        return option_tuple(group)
    except RequestError as error:
        raise RequestError(error.message, loc=("groups", p, "options"), code=error.code) from None


# --- numbers ---------------------------------------------------------------------------------------------------------


def _columns(rollouts: Sequence[JSON], given: Columns, where: Where) -> dict[str, NDArray[Any] | Ragged]:
    """Every array input, checked; mean entropies and token counts derived from token entropies where sent."""
    present = set(chain.from_iterable(rollouts)) & FIELDS.keys()
    if both := present & given.keys():
        raise RequestError(f"{min(both)} is given as a tensor and in a rollout", loc=("groups",), code="conflict")
    arrays: dict[str, NDArray[Any] | Ragged] = {}
    for name, column in given.items():
        if name not in FIELDS:
            raise RequestError(f"unknown tensor {name[:64]!r}; known: {', '.join(FIELDS)}, lengths", code="tensor")
        arrays[name] = _check_tensor(FIELDS[name], column, len(rollouts), where)
    for name in present:
        build = _scalar if FIELDS[name].shape == "scalar" else _ragged
        arrays[name] = build(FIELDS[name], [r.get(name) for r in rollouts], where)
    _derive(arrays, where)
    return arrays


def _scalar(field: Field, column: Sequence[Any], where: Where) -> NDArray[Any]:
    allowed = {type(None)} | ({int} if field.type == "int" else {int, float})
    _check_types(column, allowed | _numpy_types(column, field), f"{field.rule} or null", field.name, where)
    try:
        values = np.array([np.nan if x is None else x for x in column], np.float64)
    except OverflowError:
        values = np.array([np.nan if x is None else max(-1e308, min(x, 1e308)) for x in column], np.float64)
    missing = np.array([x is None for x in column], bool)
    _check_range(field, np.where(missing, 0.0, values), lambda i: (*where(i), field.name))
    return values


def _numpy_types(column: Sequence[Any], field: Field) -> set[type]:
    """NumPy's scalar types, so that a mean straight from an array is welcome in process."""
    base = np.integer if field.type == "int" else (np.integer, np.floating)
    return {t for t in set(map(type, column)) if issubclass(t, base)}


def _ragged(field: Field, column: Sequence[Any], where: Where) -> Ragged:
    lengths = np.array(
        [0 if x is None else _length(field, x, (*where(i), field.name)) for i, x in enumerate(column)], np.int64
    )
    parts = [_tokens(field, x, (*where(i), field.name)) for i, x in enumerate(column) if x is not None]
    return Ragged(np.concatenate(parts) if parts else np.zeros(0), lengths)


def _length(field: Field, tokens: Any, loc: tuple[str | int, ...]) -> int:
    if isinstance(tokens, str | bytes) or not isinstance(tokens, Sequence | np.ndarray):
        raise RequestError(f"must be a list: {field.rule} per token", loc=loc, code="type")
    return len(tokens)


def _tokens(field: Field, tokens: Any, loc: tuple[str | int, ...]) -> NDArray[Any]:
    if isinstance(tokens, np.ndarray):
        values, good = tokens, tokens.ndim == 1 and tokens.dtype.kind in ("b" if field.type == "bool" else "fiu")
    else:
        good = set(map(type, tokens)) <= ({bool} if field.type == "bool" else {int, float})
        try:
            values = np.array(tokens, np.bool_ if field.type == "bool" else np.float64) if good else np.zeros(0)
        except OverflowError:
            good, values = False, np.zeros(0)
    if not good:
        raise RequestError(f"must be a list: {field.rule} per token", loc=loc, code="type")
    _check_range(field, values, lambda i: (*loc, i))
    return values


def _check_tensor(field: Field, column: NDArray[Any] | Ragged, rollouts: int, where: Where) -> NDArray[Any] | Ragged:
    if isinstance(column, Ragged) != (field.shape == "tokens"):
        raise RequestError(
            f"{field.name} is one value per {'token' if field.shape == 'tokens' else 'rollout'}", code="shape"
        )
    if isinstance(column, Ragged):
        _check_count(field.name, len(column.lengths), rollouts)
        starts = offsets(column.lengths)

        def place(t: int) -> tuple[str | int, ...]:
            i = int(np.searchsorted(starts, t, side="right")) - 1
            return (*where(i), field.name, int(t - starts[i]))

        for _, part in blocks(column.lengths):
            _check_range(field, column.values[part], partial(_shifted, place, part.start))
        return column
    _check_count(field.name, len(column), rollouts)
    values = column.astype(np.float64)
    _check_range(field, values, lambda i: (*where(i), field.name))
    return values


def _shifted(place: Callable[[int], tuple[str | int, ...]], start: int, t: int) -> tuple[str | int, ...]:
    return place(start + t)


def _check_count(name: str, found: int, rollouts: int) -> None:
    if found != rollouts:
        raise RequestError(f"{name} has {found} entries for {rollouts} rollouts", loc=("groups",), code="length")


def _check_range(field: Field, values: NDArray[Any], place: Callable[[int], tuple[str | int, ...]]) -> None:
    """Finite and in range; `min` and `max` pass NaN on, so two scans see everything."""
    if field.type == "bool" or not len(values) or _surely_in_range(field, values):
        return
    floor, ceiling = -np.inf if field.ge is None else field.ge, np.inf if field.le is None else field.le
    low, high = float(values.min()), float(values.max())
    if np.isfinite(low) and np.isfinite(high) and low >= floor and high <= ceiling:
        return
    good = np.isfinite(values) & (values >= floor) & (values <= ceiling)
    if not good.all():
        raise RequestError(f"must be {field.rule}", loc=place(int(np.argmin(good))), code="value")


def _surely_in_range(field: Field, values: NDArray[Any]) -> bool:
    """One scan instead of two: read as unsigned integers, floats >= 0 keep their order, negative ones, infinity and
    NaN come after all of them, so the greatest integer decides. (-0.0 does too: the slow path lets it pass.)
    """
    if field.ge != 0 or field.le is None or values.dtype not in (np.float32, np.float64):
        return False
    integer = np.uint32 if values.dtype == np.float32 else np.uint64
    return bool(values.view(integer).max() <= values.dtype.type(field.le).view(integer))


def _derive(arrays: dict[str, NDArray[Any] | Ragged], where: Where) -> None:
    entropies, mask = arrays.get("token_entropies"), arrays.get("token_mask")
    if isinstance(entropies, Ragged) and isinstance(mask, Ragged):
        sent = mask.lengths > 0
        if (bad := sent & (mask.lengths != entropies.lengths)).any():
            i = int(np.argmax(bad))
            raise RequestError(
                f"{mask.lengths[i]} entries for {entropies.lengths[i]} token entropies",
                loc=(*where(i), "token_mask"),
                code="length",
            )
        mask = _full_mask(mask, entropies.lengths)
    elif isinstance(mask, Ragged):
        raise RequestError("token_mask needs token_entropies", loc=("groups",), code="conflict")
    if not isinstance(entropies, Ragged):
        return
    means, counts = segment_means(
        entropies.values, entropies.lengths, mask_T=mask.values if isinstance(mask, Ragged) else None
    )
    sent = entropies.lengths > 0
    stated = arrays.get("mean_entropy")
    if isinstance(stated, np.ndarray) and (bad := sent & ~np.isnan(stated)).any():
        raise RequestError(
            "give mean_entropy or token_entropies, not both", loc=where(int(np.argmax(bad))), code="conflict"
        )
    length = arrays.get("num_tokens")
    if isinstance(length, np.ndarray) and (bad := sent & ~np.isnan(length) & (length != counts)).any():
        i = int(np.argmax(bad))
        raise RequestError(f"is not the {counts[i]} token entropies", loc=(*where(i), "num_tokens"), code="length")
    arrays["mean_entropy"] = np.where(sent, means, stated if isinstance(stated, np.ndarray) else np.nan)
    arrays["num_tokens"] = np.where(sent, counts, length if isinstance(length, np.ndarray) else np.nan)


def _full_mask(mask: Ragged, lengths: Ints) -> Ragged:
    """A rollout that sent no mask generated all of its tokens."""
    if (mask.lengths == lengths).all():
        return mask
    values = np.ones(int(lengths.sum()), np.bool_)
    values[np.repeat(mask.lengths > 0, lengths)] = mask.values
    return Ragged(values, lengths)


# --- answers ---------------------------------------------------------------------------------------------------------


def _silent(arrays: Columns, rollouts: int) -> Bools:
    """No generated token, hence no answer."""
    count = arrays.get("num_tokens")
    return count == 0 if isinstance(count, np.ndarray) else np.zeros(rollouts, bool)


Mode = Literal["clean", "ttrl_official"]


def read_answers(
    rollouts: Sequence[JSON],
    silent: Sequence[bool],
    *,
    kind: Kind = "math",
    options: Sequence[str] | None = None,
    mode: Annotated[
        Mode,
        Param(
            "clean, or ttrl_official: extraction and vote by strings as in the published TTRL runs, for comparison",
            source="official code",
        ),
    ] = "clean",
    truncated: Annotated[
        Literal["boxed", "as_is", "invalid"],
        Param(
            "a rollout with finish_reason=length votes by a closed box or a given answer; by anything extracted "
            "(always so with mode=ttrl_official); never",
            source="ours",
        ),
    ] = "boxed",
    fallback: Annotated[
        bool, Param("also take the last number or letter of a text that announces no answer; flagged guessed_answer")
    ] = False,
    open_think: Annotated[bool, Param("also read a text whose <think> block is not closed")] = False,
) -> list[Extraction]:
    """The raw answer of each rollout and where it stood: as given, or extracted from its text.

    A rollout that generated no token has no answer.
    """

    def read(rollout: JSON, quiet: bool) -> Extraction:
        cut = rollout.get("finish_reason") == "length"
        if quiet or (cut and truncated == "invalid"):
            return NO_ANSWER
        if "answer" in rollout:
            return Extraction(rollout["answer"], "given")
        text = rollout.get("text")
        if not text:
            return NO_ANSWER
        if mode == "ttrl_official":
            return Extraction(official_answer(text, kind=kind) or None, "phrase")
        closed_only = cut and truncated == "boxed"
        return extract(
            text, kind=kind, options=options, closed_only=closed_only, fallback=fallback, open_think=open_think
        )

    return [read(r, quiet) for r, quiet in zip(rollouts, silent, strict=True)]


NO_ANSWER: Final = Extraction(None, "none")
# Keyword parameters of both functions that a group, not a request, sets.
_PER_GROUP: Final = frozenset({"kind", "options"})
READING: Final = frozenset(s.name for s in parameters(read_answers, skip=_PER_GROUP))
ANSWER_SPECS: Final = tuple(s for f in (read_answers, classify) for s in parameters(f, skip=_PER_GROUP))


def _classify(
    groups: Sequence[JSON], silent_R: Bools, options: Sequence[tuple[str, ...] | None], params: Mapping[str, Any]
) -> tuple[list[Classes], Bools]:
    """The classes of each group, and which groups have an answer that was guessed."""
    reading = {k: v for k, v in params.items() if k in READING}
    rules = {k: v for k, v in params.items() if k not in READING}
    strings = reading.get("mode") == "ttrl_official"
    classes, guessed, at = [], [], 0
    for group, letters in zip(groups, options, strict=True):
        rollouts, kind = group["rollouts"], kind_of(group)
        silent = silent_R[at : at + len(rollouts)].tolist()
        at += len(rollouts)
        found = read_answers(rollouts, silent, kind=kind, options=letters, **reading)
        raws = [e.answer for e in found]
        if strings:
            classes.append(classify([official_key(r, kind=kind) if r else None for r in raws], kind="exact"))
        else:
            classes.append(classify(raws, kind=kind, options=letters, **rules))
        guessed.append(any(e.source == "fallback" for e in found))
    return classes, np.array(guessed, bool)


def _flat_index(classes: Sequence[Classes]) -> Ints:
    start, parts = 0, [np.zeros(0, np.int64)]
    for c in classes:
        index = np.array(c.index, np.int64)
        parts.append(np.where(index >= 0, index + start, -1))
        start += len(c.answers)
    return np.concatenate(parts)
