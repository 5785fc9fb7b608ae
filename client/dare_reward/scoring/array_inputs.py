"""Rollouts as columns, and the array inputs of a request, from rollouts and from tensors, as checked arrays.

Columns are checked as columns: one pass over a set of types or an array, and only a failure looks for its place. What
follows from tokens, means, sums and a digest of the path, is all of them that a client sends.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from collections.abc import Set as AbstractSet
from contextlib import suppress
from dataclasses import dataclass
from itertools import chain
from operator import itemgetter
from types import MappingProxyType
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from ..answers.rollouts import spoken
from ..errors import RequestError, counted, unknown_name
from ..groups import Ragged
from ..inputs import FIELDS, ROLLOUT_FIELDS, Field
from ..segments import Ints, offsets, segment_means, segment_sums

Columns = Mapping[str, "NDArray[Any] | Ragged"]
Arrays = dict[str, Any]  # the same, to which is added
Spans = Callable[[], Sequence["tuple[int, int] | None"]]
Where = Callable[[int], tuple[str | int, ...]]
JSON = Mapping[str, Any]
PER_TOKEN: Final = tuple(sorted(f.name for f in FIELDS.values() if f.per_token and f.name != "token_mask"))
# Tokens behind the answer that count with it. The one that ends an answer says whether it is whole: without it the gain
# of natural samples falls by a third to a half (research/docs/real-model.md).
CLOSING: Final = 1
AGREES: Final = 1e-6  # relative: float32 tokens beside the mean that was taken in float64 agree
PIECE = 1 << 14  # entries that become an array in one go, while other threads wait
LIST_TYPES: Mapping[str, set[type]] = MappingProxyType({"bool": {bool}, "int": {int}, "float": {int, float}})
ARRAY_KINDS: Final[Mapping[str, str]] = MappingProxyType({"bool": "b", "int": "iu", "float": "fiu"})  # of a dtype
DTYPES: Final[Mapping[str, type]] = MappingProxyType({"bool": np.bool_, "int": np.int64, "float": np.float64})
SCALARS: Mapping[str, set[type]] = MappingProxyType({k: {*types, type(None)} for k, types in LIST_TYPES.items()})
DEFAULTS = {"trained": True}  # of an input without which a rollout is as if it had this one


@dataclass(frozen=True, slots=True, eq=False)
class Table:
    """Rollouts as columns: for each input that any of them has, its value in each; None, or the default, without one.

    whole    the inputs that all of them have
    unknown  some of them has a key that is no input
    """

    size: int
    columns: dict[str, list[Any]]
    whole: frozenset[str]
    unknown: bool = False

    @classmethod
    def of(cls, rollouts: Sequence[JSON]) -> Table:
        keys = frozenset(rollouts[0] if rollouts else ())
        if keys <= ROLLOUT_FIELDS.keys() and set(map(len, rollouts)) <= {len(keys)}:
            with suppress(KeyError):  # all rollouts have the same keys, as a rule
                return cls(len(rollouts), {key: [*map(itemgetter(key), rollouts)] for key in keys}, keys)
        keys = frozenset().union(*rollouts)
        known = keys & ROLLOUT_FIELDS.keys()
        columns = {key: [r.get(key, DEFAULTS.get(key)) for r in rollouts] for key in known}
        whole = frozenset(key for key in known if all(key in r for r in rollouts))
        return cls(len(rollouts), columns, whole, unknown=len(known) < len(keys))


def read_columns(table: Table, given: Columns, where: Where, spans: Spans | None = None) -> Arrays:
    """Every array input, checked; what follows from per-token inputs (means, sums, token counts) is added.

    `given` came beside the JSON; `where` is the path of a rollout by its number; `spans` finds each rollout's answer in
    its text, for those who send the tokens' places there.
    """
    present = table.columns.keys() & FIELDS.keys()
    if both := present & given.keys():
        raise RequestError(f"{min(both)} is given as a tensor and in a rollout", loc=("groups",), code="conflict")
    arrays: Arrays = {}
    for name, column in given.items():
        if name not in FIELDS:
            raise RequestError(unknown_name("tensor", name, [*FIELDS, "lengths"]), code="tensor")
        arrays[name] = _check_tensor(FIELDS[name], column, table.size, where)
    for name in sorted(present):
        field = FIELDS[name]
        build = _scalar if field.shape == "scalar" else _ragged
        arrays[name] = build(field, table.columns[name], where)
    tokens = {name: column for name, column in arrays.items() if name in PER_TOKEN}
    _derive(arrays, tokens, where)
    if spans is not None and "token_offsets" in arrays:
        arrays["answer_tokens"] = _found_tokens(arrays, spans(), where)
    if "answer_tokens" in arrays:
        _put_answers(arrays, tokens, where)
    return arrays


def check_types(field: Field, column: Sequence[Any], types: AbstractSet[type], where: Where) -> None:
    """RequestError for the first entry of another type."""
    if not set(map(type, column)) <= types:
        i = next(i for i, x in enumerate(column) if type(x) not in types)
        raise RequestError(
            f"must be {field.rule}{' or null' * field.nullable}", loc=(*where(i), field.name), code="type"
        )


# --- from rollouts ---------------------------------------------------------------------------------------------------


def _scalar(field: Field, column: Sequence[Any], where: Where) -> NDArray[Any]:
    """A number of each rollout, NaN where it is missing."""
    types = set(map(type, column))
    if not types <= SCALARS[field.type]:
        # NumPy's scalars too, so that a mean straight from an array is welcome in process.
        base = np.integer if field.type == "int" else (np.integer, np.floating)
        check_types(field, column, SCALARS[field.type] | {t for t in types if issubclass(t, base)}, where)
    try:
        values = np.array(column, np.float64)  # None becomes NaN
    except OverflowError:
        values = np.array([np.nan if x is None else max(-1e308, min(x, 1e308)) for x in column], np.float64)
    known = values
    if type(None) in types:
        known = np.where([x is None for x in column], max(field.ge or 0.0, 0.0), values)
    _check_range(field, known, where)
    return values


def _ragged(field: Field, column: Sequence[Any], where: Where) -> Ragged:
    """Lists, and of a vector the rows that are there: one of a few rollouts must not be filled up for all of them."""
    vector = field.shape == "vector"
    for i, x in enumerate(column):
        if x is not None and (isinstance(x, str | bytes) or not isinstance(x, Sequence | np.ndarray)):
            raise _not_a_list(field, (*where(i), field.name))
    there = [(i, x) for i, x in enumerate(column) if x is not None and (vector or len(x))]
    parts = [_array(field, x, (*where(i), field.name)) for i, x in there]
    if vector:
        parts = [part[None] for part in parts]
    if len(widths := {part.shape[1:] for part in parts}) > 1:
        words = f"rows of {min(widths)[0]} and of {max(widths)[0]} numbers: send the same number everywhere"
        raise RequestError(f"{field.name} has {words}", code="shape")
    none: NDArray[Any] = np.zeros(0 if field.shape in {"tokens", "list"} else (0, 0), DTYPES[field.type])
    lengths = np.zeros(len(column), np.int64)
    lengths[[i for i, _ in there]] = [*map(len, parts)]
    out = Ragged(np.concatenate(parts) if parts else none, lengths)
    _check_range(field, out, where)
    return out


def _array(field: Field, entries: Sequence[Any] | NDArray[Any], loc: tuple[str | int, ...]) -> NDArray[Any]:
    """A list of numbers, of booleans, or of rows of k numbers each."""
    matrix, values = field.shape == "matrix", None
    if isinstance(entries, np.ndarray):
        values = entries if entries.dtype.kind in ARRAY_KINDS[field.type] else None
    elif not matrix:
        allowed = LIST_TYPES[field.type]
        if not set(map(type, entries)) <= allowed:
            i = next(i for i, x in enumerate(entries) if type(x) not in allowed)
            raise RequestError(f"must be {field.rule}", loc=(*loc, i), code="type")
        values = _filled(field, entries)
    elif set(map(type, entries)) <= {list, tuple, np.ndarray}:
        _check_widths([*map(len, entries)], loc)
        if set(map(type, chain.from_iterable(entries))) <= {int, float, np.float32, np.float64}:
            values = _filled(field, entries)
    if values is None or values.ndim != 1 + matrix or not values.shape[-1]:
        raise _not_a_list(field, loc)
    return values


def _check_widths(widths: Sequence[int], loc: tuple[str | int, ...]) -> None:
    """RequestError that names the first of the narrowest rows, or of the widest, if they have not all the same k."""
    if len(set(widths)) > 1:
        usual = Counter(widths).most_common(1)[0][0]
        odd = next(k for k in (min(widths), max(widths)) if k != usual)
        told = f"token {widths.index(odd)} has {counted(odd, 'candidate')}, most have {usual}"
        raise RequestError(f"{told}: every token needs the same number", loc=loc, code="shape")


def _filled(field: Field, entries: Sequence[Any]) -> NDArray[Any] | None:
    """The array of a list; nothing where an integer is too long for one."""
    dtype = DTYPES[field.type]
    try:
        if len(entries) <= PIECE:
            return np.array(entries, dtype)
        pieces = (entries[i : i + PIECE] for i in range(0, len(entries), PIECE))
        return np.concatenate([np.array(piece, dtype) for piece in pieces])
    except OverflowError:
        return None


def _not_a_list(field: Field, loc: tuple[str | int, ...]) -> RequestError:
    return RequestError(f"must be a list: {field.rule} per {field.unit}", loc=loc, code="type")


# --- from tensors ----------------------------------------------------------------------------------------------------


def _check_tensor(field: Field, column: NDArray[Any] | Ragged, rollouts: int, where: Where) -> NDArray[Any] | Ragged:
    values = column.values if isinstance(column, Ragged) else column
    if isinstance(column, Ragged) != field.ragged or values.ndim != 1 + (field.shape in {"matrix", "vector"}):
        raise RequestError(f"{field.name} is one value per {field.unit}", code="shape")
    if len(values) and not values.size:
        raise RequestError(f"{field.name} has rows without a number", code="shape")
    if (found := len(column.lengths if isinstance(column, Ragged) else column)) != rollouts:
        raise RequestError(f"{field.name} has {found} entries for {rollouts} rollouts", loc=("groups",), code="length")
    if not isinstance(column, Ragged) and field.shape == "scalar":
        with np.errstate(invalid="ignore"):  # a NaN may signal; the check of the range is what refuses it
            column = column.astype(np.float64)
    _check_range(field, column, where)
    return column


def _check_range(field: Field, column: NDArray[Any] | Ragged, where: Where) -> None:
    """Finite and in range; `min` and `max` pass NaN on, so two scans see everything.

    From 0 to a bound one scan does: read as unsigned integers, floats >= 0 keep their order, negative ones, infinity
    and NaN come after all of them, so the greatest integer decides. (-0.0 does too: the two scans let it pass.)
    """
    values = column.values if isinstance(column, Ragged) else column
    if field.type == "bool" or not values.size:
        return
    if field.ge == 0 and field.le is not None and values.dtype in (np.float32, np.float64):
        integer = np.uint32 if values.dtype == np.float32 else np.uint64
        if values.view(integer).max() <= values.dtype.type(field.le).view(integer):
            return
    floor, ceiling = field.bounds
    low, high = float(values.min()), float(values.max())
    if np.isfinite(low) and np.isfinite(high) and low >= floor and high <= ceiling:
        return
    good = np.isfinite(values) & (values >= floor) & (values <= ceiling)
    if not good.all():
        row, *inner = map(int, np.unravel_index(np.argmin(good), values.shape))
        if isinstance(column, Ragged):
            starts, entry = offsets(column.lengths), row
            row = int(np.searchsorted(starts, entry, side="right")) - 1
            if field.ragged:  # a vector has one row
                inner = [entry - int(starts[row]), *inner]
        raise RequestError(f"must be {field.rule}", loc=(*where(row), field.name, *inner), code="value")


# --- what follows from tokens ----------------------------------------------------------------------------------------


def _refuse(bad_R: NDArray[Any], name: str, where: Where, code: str, words: str, *numbers_R: NDArray[Any]) -> None:
    """RequestError for the first of the rollouts that are marked, whose numbers stand in the words."""
    if bad_R.any():
        i = int(np.argmax(bad_R))
        raise RequestError(words.format(*[n[i] for n in numbers_R]), loc=(*where(i), name), code=code)


def _derive(arrays: Arrays, tokens: Mapping[str, Ragged], where: Where) -> None:
    """Token counts, and the mean or sum that per-token inputs give; those of a rollout are equally long."""
    mask = arrays.get("token_mask")
    if not tokens:
        if mask is not None:
            raise RequestError(
                "token_mask needs token_entropies or another input per token", loc=("groups",), code="conflict"
            )
        return
    lengths = np.maximum.reduce([c.lengths for c in tokens.values()])
    for name, column in (tokens if mask is None else {**tokens, "token_mask": mask}).items():
        bad_R = (column.lengths > 0) & (column.lengths != lengths)
        _refuse(bad_R, name, where, "length", "{} entries for {} tokens", column.lengths, lengths)
    counts = lengths
    if mask is not None:
        mask = arrays["token_mask"] = full_mask(mask, lengths)
        counts = segment_sums(mask.values, lengths).astype(np.int64)
    for name, column in tokens.items():
        if (gives := FIELDS[name].gives) is not None:
            mask_T = None if mask is None else mask.at_tokens_of(column)
            of_segments = segment_means if gives[1] == "mean" else segment_sums
            values_R = of_segments(column.values, column.lengths, mask_T=mask_T)
            _put(arrays, gives[0], values_R, column.lengths > 0, where, source=name)
    _put(arrays, "num_tokens", counts, lengths > 0, where)


def _put(arrays: Arrays, target: str, values_R: Any, sent_R: Any, where: Where, *, source: str = "") -> None:
    """The number that follows from per-token inputs, of the rollouts that sent these; what was stated must agree.

    source   the inputs that it follows from; their count without one
    """
    stated_R = arrays.get(target, np.nan)
    if target in arrays:
        near, code, words = 0.0, "length", "is not the {} tokens that were sent"
        if source:
            near, code = AGREES, "conflict"
            words = f"differs by more than {near:g} of its size from what {source} gives: correct one or leave it out"
        far_R = ~np.isclose(stated_R, values_R, rtol=near, atol=near * near)
        _refuse(sent_R & ~np.isnan(stated_R) & far_R, target, where, code, words, values_R)
    arrays[target] = np.where(sent_R, values_R, stated_R)


def _found_tokens(arrays: Mapping[str, Any], spans: Sequence[tuple[int, int] | None], where: Where) -> Ragged:
    """[first, last) of the tokens that share a character with the answer, where nobody said which they are."""
    places, named = arrays["token_offsets"], arrays.get("answer_tokens")
    if places.values.shape[1:] not in {(2,), (0,)}:
        _refuse(places.lengths > 0, "token_offsets", where, "shape", "must be [start, end) for each token")
    known = [()] * len(spans) if named is None else np.split(named.values, offsets(named.lengths)[1:-1])
    starts, rows = offsets(places.lengths), []
    for r, span in enumerate(spans):
        row = [int(k) for k in known[r]]
        if not row and span is not None and places.lengths[r]:
            low, high = places.values[starts[r] : starts[r + 1]].T
            inside = np.flatnonzero((low < span[1]) & (high > span[0]) & (low < high))
            row = [int(inside[0]), int(inside[-1]) + 1] if len(inside) else []
        rows.append(row)
    return Ragged(np.array([*chain.from_iterable(rows)], np.int64), np.array([*map(len, rows)], np.int64))


def _put_answers(arrays: Arrays, tokens: Mapping[str, Ragged], where: Where) -> None:
    """What follows from the tokens of the answers and those that end them."""
    inside = _inside(arrays["answer_tokens"], [column.lengths for column in tokens.values()], where)
    if "token_mask" in arrays:
        inside.values[~arrays["token_mask"].values] = False
    for name, column in tokens.items():
        field = FIELDS[name]
        if field.answer is None or field.gives is None:
            continue
        chosen_T = inside.at_tokens_of(column)
        count_R = segment_sums(chosen_T, column.lengths).astype(np.int64)
        found_R = segment_sums(column.values[chosen_T], count_R)
        if field.gives[1] == "mean":
            found_R /= np.maximum(count_R, 1)
        _put(arrays, field.answer, found_R, count_R > 0, where, source=f"{name} with answer_tokens")


def _inside(named: Ragged, sent: Sequence[Ints], where: Where) -> Ragged:
    """Which tokens are of their rollout's answer, or end it; of a rollout without one, none."""
    lengths: Ints = np.maximum.reduce([np.zeros(len(named.lengths), np.int64), *sent])
    has_R, place = named.lengths == 2, ("answer_tokens", where, "span")
    _refuse((named.lengths != 0) & ~has_R, *place, "must be [start, end) of the answer, or null")
    start_R, end_R = np.zeros((2, len(has_R)), np.int64)
    start_R[has_R], end_R[has_R] = named.values.reshape(-1, 2).T
    words = "[{}, {}) holds no token: leave it out where the text has no answer"
    _refuse(has_R & (start_R >= end_R), *place, words, start_R, end_R)
    words = "ends at token {}, and {} were sent: count from the first generated token, and send token_entropies or "
    _refuse(end_R > lengths, *place, words + "token_logprobs", end_R, lengths)
    begin_R = offsets(lengths)[:-1]
    edges = np.zeros(int(lengths.sum()) + 1, np.int64)
    np.add.at(edges, begin_R + start_R, 1)
    np.add.at(edges, begin_R + np.where(has_R, np.minimum(end_R + CLOSING, lengths), 0), -1)
    return Ragged(np.cumsum(edges[:-1]) > 0, lengths)


def full_mask(mask: Ragged, lengths: Ints) -> Ragged:
    """A rollout that sent no mask generated all of its tokens."""
    if (mask.lengths == lengths).all():
        return mask
    values = np.ones(int(lengths.sum()), np.bool_)
    values[np.repeat(mask.lengths > 0, lengths)] = mask.values
    return Ragged(values, lengths)


# --- what a client sends of tokens -----------------------------------------------------------------------------------

TOKENS: Final = frozenset(PER_TOKEN) | {"token_mask", "token_ids", "answer_tokens"}


def without_tokens(rollout: JSON) -> dict[str, Any]:
    """A rollout of `POST /reward` with numbers and a path in place of its tokens."""
    columns = read_columns(Table.of([rollout]), {}, lambda i: ("rollouts", i))
    out = {k: v for k, v in rollout.items() if k not in TOKENS} | token_sums(rollout, 0, columns)
    path = path_digest(rollout)
    return out | ({"path": path} if path and "sum_logprob" in out else {})


def token_sums(rollout: JSON, i: int, columns: Columns, travelling: Collection[str] = ()) -> dict[str, Any]:
    """The numbers that follow from the rollout's per-token inputs, without those of inputs that travel themselves.

    `i` is its place in `columns`. An empty list is an input that is missing.
    """
    out: dict[str, Any] = {}
    for name in PER_TOKEN:
        column = columns.get(name) if name in rollout and name not in travelling else None
        if not isinstance(column, Ragged) or not column.lengths[i]:
            continue
        field = FIELDS[name]
        for target in filter(None, (field.gives and field.gives[0], field.answer)):
            scalar = columns.get(target)
            if isinstance(scalar, np.ndarray) and (target != field.answer or not np.isnan(scalar[i])):
                out[target] = None if np.isnan(scalar[i]) else float(scalar[i])
        out["num_tokens"] = int(columns["num_tokens"][i])  # type: ignore[index]
    return out


def path_digest(rollout: JSON) -> str | None:
    """What tells the path of its tokens from others: a digest of its token ids, else of its text."""
    ids: Sequence[int] | None = rollout.get("token_ids")
    if ids is not None and len(ids):
        made = np.asarray(ids, np.int64).tobytes()
    else:
        made = (spoken(rollout.get("text")) or "").encode("utf-8", "replace")
    return hashlib.blake2b(made, digest_size=8).hexdigest() if made else None
