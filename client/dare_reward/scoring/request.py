"""From groups in the JSON shape of the HTTP body to the arrays that an estimator sees.

Columns are checked as columns: one pass over a set of types or an array, and only a failure looks for its place.
"""

from __future__ import annotations

import sys
from bisect import bisect_right
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain, compress, pairwise
from types import MappingProxyType
from typing import Any, Final

import numpy as np

from ..answers import (
    Classes,
    Kind,
    classify,
    official_key,
)
from ..answers.classes import classes_of
from ..answers.effort import Effort
from ..answers.rollouts import READING, given_answers, kind_of, option_tuple, read_answers, why_none
from ..answers.rules import Rules
from ..errors import LimitError, RequestError
from ..groups import Groups, Ragged, View
from ..inputs import ANSWERED_FIELDS, GROUP_FIELDS, ROLLOUT_FIELDS, Field, unknown_field
from ..segments import Bools, Floats, Ints, offsets
from .array_inputs import Columns, Where, check_types, read_columns

__all__ = [
    "LIMITS",
    "UNLIMITED",
    "VIEWS",
    "Columns",
    "Limits",
    "Prepared",
    "check_shape",
    "of_arrays",
    "prepare",
    "read_numbers",
]

JSON = Mapping[str, Any]

# Inputs of whole groups: second groups; what estimators see otherwise; what is checked by its declaration alone.
VIEWS: Final = tuple(f.name for f in GROUP_FIELDS.values() if f.type == "rollouts" and not f.required)
SEEN: Final = tuple(f for f in GROUP_FIELDS.values() if f.seen and f.type != "rollouts")
CHECKED: Final = tuple(
    f
    for kind in ("choice", "float", "int", "object", "options", "rollouts", "text")
    for f in GROUP_FIELDS.values()
    if f.type == kind and f.nullable
)
NONE_UNREAD: Final[Mapping[str, int]] = MappingProxyType({})
ROLLOUT_KEYS: Final = frozenset(ROLLOUT_FIELDS)  # compared with each rollout's keys
# Inputs of rollouts that are no columns of numbers, and what they may be.
CONTENTS: Final[Mapping[str, set[type]]] = MappingProxyType(
    {
        f.name: {{"text": str, "bool": bool, "object": dict}[f.type]} | ({type(None)} if f.nullable else set())
        for f in ROLLOUT_FIELDS.values()
        if not f.is_array
    }
)


@dataclass(frozen=True, slots=True)
class Limits:
    """What one request may hold; more is a LimitError."""

    groups: int = 1024
    rollouts: int = 1024
    text: int = 256 << 10
    steps: int = sys.maxsize  # of reading its answers
    total: int = sys.maxsize  # rollouts of all groups together

    def check_groups(self, groups: int) -> None:
        """LimitError for a request of too many groups."""
        if groups > self.groups:
            raise LimitError(
                f"{groups} groups; at most {self.groups} in one request (DARE_MAX_GROUPS): split it",
                loc=("groups",),
                code="groups",
            )

    def check_rollouts(self, rollouts: int, loc: Sequence[str | int]) -> None:
        """LimitError for a group of too many rollouts."""
        if rollouts > self.rollouts:
            raise LimitError(
                f"{rollouts} rollouts; at most {self.rollouts} in one group (DARE_MAX_ROLLOUTS)",
                loc=loc,
                code="rollouts",
            )

    def check_text(self, length: int, loc: Sequence[str | int]) -> None:
        """LimitError for a text, an answer, a label, a reference or a prompt that is too long."""
        if length > self.text:
            raise LimitError(
                f"{length} characters; at most {self.text} (DARE_MAX_TEXT): shorten it", loc=loc, code="text"
            )

    def check_total(self, rollouts: int, loc: Sequence[str | int]) -> None:
        """LimitError for a request of too many rollouts."""
        if rollouts > self.total:
            raise LimitError(
                f"{rollouts} rollouts; at most {self.total} in one request (DARE_MAX_REQUEST_ROLLOUTS): "
                "split it by group",
                loc=loc,
                code="total",
            )


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
    apart_P: Bools
    unread: tuple[Mapping[str, int], ...]  # rollouts without an answer, by the reasons of `WHY_NONE`

    def take(self, where_P: Bools) -> Prepared:
        """Some of the groups, in their order."""
        groups = self.groups
        return Prepared(
            groups=groups.take(where_P),
            group_ids=tuple(compress(self.group_ids, where_P)),
            keys_A=tuple(compress(self.keys_A, where_P[groups.group_A])),
            sources=tuple(compress(self.sources, where_P)),
            kinds=tuple(compress(self.kinds, where_P)),
            options=tuple(compress(self.options, where_P)),
            labels=tuple(compress(self.labels, where_P)),
            correct_R=tuple(compress(self.correct_R, where_P[groups.group_R])),
            guessed_P=self.guessed_P[where_P],
            apart_P=self.apart_P[where_P],
            unread=tuple(compress(self.unread, where_P)),
        )


def prepare(
    groups: Sequence[JSON],
    *,
    columns: Columns = MappingProxyType({}),
    params: Mapping[str, Any] = MappingProxyType({}),
    limits: Limits = LIMITS,
    effort: Effort | None = None,
) -> Prepared:
    """Check and convert.

    `effort` is asked after each group whether to go on.
    `columns` are arrays over all rollouts that came beside the JSON (the frame's tensors); `params` are values of
    `ANSWER_SPECS`.
    """
    rollouts = check_shape(groups, limits=limits)
    present = frozenset().union(*rollouts)
    effort = effort or Effort(limits.steps)
    sizes_P = np.array([len(g["rollouts"]) for g in groups], np.int64)
    where = _locator(sizes_P)
    arrays = read_columns(rollouts, columns, where)
    options = tuple(_options(g, p) for p, g in enumerate(groups))
    silent_R = _silent(arrays, len(rollouts))
    if "sum_logprob" in arrays:
        arrays["path"] = _paths(rollouts, arrays.get("token_ids"), sizes_P)
    classes, guessed_P, unread = _classify(groups, silent_R, options, params, effort)
    return Prepared(
        groups=Groups(
            sizes_P,
            _flat_index(classes),
            np.array([len(c.answers) for c in classes], np.int64),
            tuple(chain.from_iterable(c.answers for c in classes)),
            arrays,
            np.array(_column(rollouts, present, "trained", True), bool),
            {
                name: _view(groups, name, silent_R, options, params, effort=effort)
                for name in VIEWS
                if any(g.get(name) for g in groups)
            },
            {f.name: _column_P(f, groups) for f in SEEN if any(g.get(f.name) is not None for g in groups)},
        ),
        group_ids=tuple(g.get("group_id", str(p)) for p, g in enumerate(groups)),
        keys_A=tuple(chain.from_iterable(c.kinds for c in classes)),
        sources=tuple(g.get("entropy_source") or "exact" for g in groups),
        kinds=tuple(map(kind_of, groups)),
        options=options,
        labels=tuple(g.get("label") for g in groups),
        correct_R=tuple(_column(rollouts, present, "correct", None)),
        guessed_P=guessed_P,
        apart_P=np.array([bool(c.apart) for c in classes], bool),
        unread=unread,
    )


def _column(rollouts: Sequence[JSON], present: Collection[str], key: str, default: Any) -> list[Any]:
    """What each rollout has under a key; `present` are the keys that any has."""
    return [r.get(key, default) for r in rollouts] if key in present else [default] * len(rollouts)


def read_numbers(group: JSON, names: Collection[str], *, limits: Limits = LIMITS) -> list[dict[str, float]]:
    """A group is checked, and of each rollout those of its numbers that are there: what costs no look at its answer."""
    rollouts = check_shape([group], limits=limits)
    arrays = read_columns(rollouts, {}, _locator(np.array([len(rollouts)])))
    columns = {name: found for name in names if isinstance(found := arrays.get(name), np.ndarray)}
    return [{n: float(c[i]) for n, c in columns.items() if not np.isnan(c[i])} for i in range(len(rollouts))]


def of_arrays(groups: Groups) -> Prepared:
    """Prepared arrays as if a request had brought them."""
    count = len(groups.sizes_P)
    exact: Kind = "exact"
    return Prepared(
        groups=groups,
        group_ids=tuple(map(str, range(count))),
        keys_A=("exact",) * len(groups.text_A),
        sources=("exact",) * count,
        kinds=(exact,) * count,
        options=(None,) * count,
        labels=(None,) * count,
        correct_R=(None,) * len(groups.answer_R),
        guessed_P=np.zeros(count, bool),
        apart_P=np.zeros(count, bool),
        unread=({},) * count,
    )


def _column_P(field: Field, groups: Sequence[JSON]) -> Floats:
    """An input of whole groups as estimators see it."""
    column = [g.get(field.name) for g in groups]
    if field.type == "text":
        column = [1.0 if value and value.strip() else None for value in column]
    return np.array([np.nan if value is None else value for value in column], np.float64)


# --- structure -------------------------------------------------------------------------------------------------------


def _locator(sizes_P: Ints) -> Where:
    starts = offsets(sizes_P).tolist()

    def where(i: int) -> tuple[str | int, ...]:
        p = bisect_right(starts, i) - 1
        return ("groups", p, "rollouts", int(i) - starts[p])

    return where


def check_shape(groups: Sequence[JSON], *, limits: Limits | None = None) -> list[JSON]:
    """Objects, lists, names and strings are what they must be; returns all rollouts. Numbers are checked as columns."""
    _check_groups(groups, limits or UNLIMITED)
    (limits or UNLIMITED).check_total(sum(len(g["rollouts"]) for g in groups), ("groups",))
    rollouts = list(chain.from_iterable(g["rollouts"] for g in groups))
    _check_rollouts(
        groups, rollouts, _locator(np.array([len(g["rollouts"]) for g in groups], np.int64)), limits or UNLIMITED
    )
    return rollouts


def _check_groups(groups: Any, limits: Limits) -> None:
    if isinstance(groups, str | bytes | Mapping) or not isinstance(groups, Sequence):
        raise RequestError("must be a list of groups", loc=("groups",), code="type")
    limits.check_groups(len(groups))
    seen: dict[str, int] = {}
    for p, group in enumerate(groups):
        loc = ("groups", p)
        _check_keys(group, GROUP_FIELDS, loc)
        rollouts = group.get("rollouts")
        if not isinstance(rollouts, Sequence) or isinstance(rollouts, str | bytes) or not rollouts:
            raise RequestError("must be a list of at least one rollout", loc=(*loc, "rollouts"), code="empty_group")
        limits.check_rollouts(len(rollouts), (*loc, "rollouts"))
        name = group.get("group_id", str(p))
        if not isinstance(name, str) or not 1 <= len(name) <= 256:
            raise RequestError("must be a string of 1 to 256 characters", loc=(*loc, "group_id"), code="value")
        if name in seen:
            raise RequestError(f"is the id of group {seen[name]} too", loc=(*loc, "group_id"), code="duplicate_id")
        seen[name] = p
        for field in CHECKED:
            if (value := group.get(field.name)) is not None:
                _check_input(field, value, limits, (*loc, field.name))


def _check_input(field: Field, value: Any, limits: Limits, loc: tuple[str | int, ...]) -> None:
    """An input of a whole group that is there."""
    if field.type == "rollouts":
        _check_view(value, limits, loc)
        return
    if not _fits(field, value):
        code = "value" if field.type in {"choice", "float", "int"} else "type"
        raise RequestError(f"must be {field.rule} or null", loc=loc, code=code)
    if field.type == "text":
        limits.check_text(len(value), loc)


def _fits(field: Field, value: Any) -> bool:
    """The value has the type that is declared, and is in its range."""
    match field.type:
        case "choice":
            return value in field.choices
        case "text":
            return isinstance(value, str)
        case "object":
            return isinstance(value, Mapping)
        case "options":
            return type(value) is int or (isinstance(value, list | tuple) and set(map(type, value)) <= {str})
        case _:
            return _is_number(field, value)


def _is_number(field: Field, value: Any) -> bool:
    whole = isinstance(value, int | np.integer) and not isinstance(value, bool)
    if not whole and (field.type == "int" or not isinstance(value, float | np.floating)):
        return False
    low, high = -np.inf if field.ge is None else field.ge, np.inf if field.le is None else field.le
    return bool(low <= value <= high) and bool(abs(value) < np.inf)


def _check_view(rollouts: Any, limits: Limits, loc: tuple[str | int, ...]) -> None:
    """A second group: a list of rollouts of which only the answers count."""
    if not isinstance(rollouts, Sequence) or isinstance(rollouts, str | bytes) or not rollouts:
        raise RequestError("must be a list of at least one rollout, or null", loc=loc, code="empty_group")
    limits.check_rollouts(len(rollouts), loc)
    for i, rollout in enumerate(rollouts):
        _check_keys(rollout, ANSWERED_FIELDS, (*loc, i))
    _check_contents(rollouts, frozenset().union(*rollouts), limits, lambda i: (*loc, i))


def _check_contents(rollouts: Sequence[JSON], present: Collection[str], limits: Limits, where: Where) -> None:
    """What is no column of numbers, of the keys that some rollout has."""
    for key, types in CONTENTS.items():
        if key not in present:
            continue
        field = ROLLOUT_FIELDS[key]
        column = [r.get(key, None if field.nullable else True) for r in rollouts]
        if field.type == "object":
            column = [{} if isinstance(x, Mapping) else x for x in column]
        check_types(column, types, f"{field.rule}{' or null' * field.nullable}", key, where)
        if field.type == "text" and max(map(len, filter(None, column)), default=0) > limits.text:
            long = next(i for i, x in enumerate(column) if x is not None and len(x) > limits.text)
            limits.check_text(len(column[long] or ""), (*where(long), key))


def _check_keys(value: Any, known: Collection[str], loc: tuple[str | int, ...]) -> None:
    if not isinstance(value, Mapping):
        raise RequestError("must be an object", loc=loc, code="type")
    unknown = next((key for key in value if key not in known), None)
    if unknown is not None:
        said = unknown_field(str(unknown), known)
        end = "" if said.endswith("?") else "."
        raise RequestError(f"{said}{end} Put your own data into meta.", loc=loc, code="unknown_field")


def _check_rollouts(groups: Sequence[JSON], rollouts: Sequence[Any], where: Where, limits: Limits) -> None:
    plain = set(map(type, rollouts)) == {dict}
    present = frozenset().union(*rollouts) if plain else ROLLOUT_KEYS
    if not (plain and present <= ROLLOUT_KEYS):
        for i, rollout in enumerate(rollouts):
            if not isinstance(rollout, Mapping) or not rollout.keys() <= ROLLOUT_KEYS:
                _check_keys(rollout, ROLLOUT_FIELDS, where(i))
    _check_contents(rollouts, present, limits, where)
    if "id" not in present:
        return
    for p, group in enumerate(groups):
        ids = [r.get("id") for r in group["rollouts"]]
        named = [x for x in ids if x is not None]
        if len(set(named)) < len(named):
            j = next(j for j, x in enumerate(ids) if x is not None and x in ids[:j])
            raise RequestError(
                "is the id of another rollout too", loc=("groups", p, "rollouts", j, "id"), code="duplicate_id"
            )


def _options(group: JSON, p: int) -> tuple[str, ...] | None:
    try:
        return option_tuple(group)
    except RequestError as error:
        raise RequestError(error.message, loc=("groups", p, "options"), code=error.code) from None


def _paths(rollouts: Sequence[JSON], ids: Any, sizes_P: Ints) -> Floats:
    """The place of each rollout's path among the different ones of its group; NaN where nothing tells it. Shape [R]."""
    ends = offsets(ids.lengths).tolist() if isinstance(ids, Ragged) else None
    out = np.full(len(rollouts), np.nan)
    starts = offsets(sizes_P).tolist()
    for low, high in pairwise(starts):
        places: dict[str | bytes, int] = {}
        for i in range(low, high):
            path = rollouts[i].get("path")
            if path is None and ends is not None and ends[i] < ends[i + 1]:
                path = ids.values[ends[i] : ends[i + 1]].tobytes()
            path = path or rollouts[i].get("text")
            if path:
                out[i] = places.setdefault(path, len(places))
    return out


# --- answers ---------------------------------------------------------------------------------------------------------


def _silent(arrays: Columns, rollouts: int) -> Bools:
    """No generated token, hence no answer."""
    count = arrays.get("num_tokens")
    return count == 0 if isinstance(count, np.ndarray) else np.zeros(rollouts, bool)


def _classify(
    groups: Sequence[JSON],
    silent_R: Bools,
    options: Sequence[tuple[str, ...] | None],
    params: Mapping[str, Any],
    effort: Effort,
) -> tuple[list[Classes], Bools, tuple[Mapping[str, int], ...]]:
    """The classes of each group, which groups have an answer that was guessed, and why rollouts have none."""
    reading = {k: v for k, v in params.items() if k in READING}
    rules = Rules(**{k: v for k, v in params.items() if k not in READING})
    strings = reading.get("mode") == "ttrl_official"
    classes, guessed, unread, at = [], [], [], 0
    for p, (group, letters) in enumerate(zip(groups, options, strict=True)):
        rollouts, kind = group["rollouts"], kind_of(group)
        silent = silent_R[at : at + len(rollouts)].tolist()
        at += len(rollouts)
        given = given_answers(rollouts, silent, **reading)
        found = [] if given is not None else read_answers(rollouts, silent, kind=kind, options=letters, **reading)
        raws = [e.answer for e in found] if given is None else given
        if strings:
            classes.append(classify([official_key(r, kind=kind) if r else None for r in raws], kind="exact"))
        else:
            asked = partial(effort.check, ("groups", p))
            classes.append(classes_of(raws, kind, letters, rules, after_each=asked))
        guessed.append(any(e.source == "fallback" for e in found))
        index = classes[-1].index
        if min(index) >= 0:
            unread.append(NONE_UNREAD)
        else:
            reasons = [e.reason for e in found] if given is None else map(why_none, given)
            unread.append(Counter(reason for reason, k in zip(reasons, index, strict=True) if k < 0))
    return classes, np.array(guessed, bool), tuple(unread)


def _view(
    groups: Sequence[JSON],
    name: str,
    silent_R: Bools,
    options: Sequence[tuple[str, ...] | None],
    params: Mapping[str, Any],
    *,
    effort: Effort,
) -> View:
    """Each group pooled with its second one; the answers of both are compared with each other."""
    sizes = [(len(g["rollouts"]), len(g.get(name) or ())) for g in groups]
    pooled = [{**g, "rollouts": [*g["rollouts"], *(g.get(name) or ())]} for g in groups]
    own_R = np.array([own for m, n in sizes for own in [True] * m + [False] * n], bool)
    silent = np.zeros(len(own_R), bool)
    silent[own_R] = silent_R
    classes, *_ = _classify(pooled, silent, options, params, effort)
    flat = Groups(
        np.array([m + n for m, n in sizes], np.int64),
        _flat_index(classes),
        np.array([len(c.answers) for c in classes], np.int64),
        tuple(chain.from_iterable(c.answers for c in classes)),
    )
    return View(flat, own_R)


def _flat_index(classes: Sequence[Classes]) -> Ints:
    start, parts = 0, [np.zeros(0, np.int64)]
    for c in classes:
        index = np.array(c.index, np.int64)
        parts.append(np.where(index >= 0, index + start, -1))
        start += len(c.answers)
    return np.concatenate(parts)
