"""From groups in the JSON shape of the HTTP body to the arrays that an estimator sees.

Columns are checked as columns: one pass over a set of types or an array, and only a failure looks for its place.
"""

from __future__ import annotations

import sys
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import accumulate, chain, pairwise
from types import MappingProxyType
from typing import Any, Final, TypeVar

import numpy as np

from ..answers import Classes, Kind, Span
from ..answers.algebra.numbers import work
from ..answers.classes import Labels, classes_of, listed
from ..answers.rollouts import (
    READING,
    Readings,
    number_text,
    option_tuple,
    read_answers,
    read_spans,
    spoken,
    text_of,
    why_none,
)
from ..answers.rules import Rules
from ..errors import LimitError, RequestError
from ..groups import Groups, Ragged, View
from ..inputs import ACCEPTED, ANSWERED_FIELDS, GROUP_FIELDS, ROLLOUT_FIELDS, Field, unknown_field
from ..segments import Bools, Floats, Ints, offsets
from .array_inputs import Columns, Table, Where, check_types, read_columns

JSON = Mapping[str, Any]
T = TypeVar("T")

# Inputs of whole groups: second groups; what estimators see otherwise; what is checked by its declaration alone.
VIEWS: Final = tuple(f.name for f in GROUP_FIELDS.values() if f.type == "rollouts" and not f.required)
SEEN: Final = tuple(f for f in GROUP_FIELDS.values() if f.seen and f.type != "rollouts")
CHECKED: Final = tuple(sorted((f for f in GROUP_FIELDS.values() if f.nullable), key=lambda f: f.type))
OF_REQUEST: Final = frozenset({"run", "step", "seed", "shadow", "method", "params"})  # often looked for in a group
NONE_UNREAD: Final[Mapping[str, int]] = MappingProxyType({})
KINDS: Final = {"text": (str, np.str_), "bool": (bool, np.bool_), "object": (dict,)}
# Inputs of rollouts that are no columns of numbers, and what they may be.
CONTENTS: Final[Mapping[str, set[type]]] = MappingProxyType(
    {
        f.name: {*KINDS[f.type], type(None)} if f.nullable else {*KINDS[f.type]}
        for f in ROLLOUT_FIELDS.values()
        if not f.is_array
    }
)


@dataclass(frozen=True, slots=True)
class Limits:
    """What one request may hold; more is a LimitError. `twice`: ids of groups may come again, as in a file."""

    groups: int = 1024
    rollouts: int = 1024
    text: int = 256 << 10
    steps: int = sys.maxsize  # of reading its answers
    total: int = sys.maxsize  # rollouts of all groups together
    twice: bool = False

    def check(self, name: str, count: int, loc: Sequence[str | int]) -> None:
        """LimitError for more than the limit of that name."""
        if count > (most := getattr(self, name)):
            what, rule = LIMITED[name]
            raise LimitError(f"{count} {what}; at most {most} {rule}", loc=loc, code=name)


# What each limit counts, and where it is set or what to do.
LIMITED: Final[Mapping[str, tuple[str, str]]] = {
    "groups": ("groups", "in one request (DARE_MAX_GROUPS): split it"),
    "rollouts": ("rollouts", "in one group (DARE_MAX_ROLLOUTS)"),
    "text": ("characters", "(DARE_MAX_TEXT): shorten it"),
    "total": ("rollouts", "in one request: split it by group"),
}


class Effort:
    """What one request has cost, in the thread that makes this: reading answers, and methods that compute much.

    A step is what `algebra` counts, about five microseconds. The count is the same on every machine and whatever the
    caches hold.

    limit   steps; more is a LimitError
    watch   called now and then; raises where nobody waits for the result any more
    """

    def __init__(self, limit: int = sys.maxsize, watch: Callable[[], None] = lambda: None) -> None:
        self._limit = limit
        self._begun = work.spent
        self.watch = watch

    def spend(self, steps: int, loc: Sequence[str | int]) -> None:
        """Before something is done for the place `loc` that takes so many steps."""
        work.spent += steps
        self.check(loc)

    def check(self, loc: Sequence[str | int]) -> None:
        """After something was done for the place `loc`."""
        self.watch()
        spent = work.spent - self._begun
        if spent > self._limit:
            raise LimitError(
                f"the request takes {spent} steps up to here; at most {self._limit} in one request: split it by group",
                loc=loc,
                code="steps",
            )


LIMITS = Limits()
UNLIMITED = Limits(sys.maxsize, sys.maxsize, sys.maxsize)
OF_FILE = replace(UNLIMITED, twice=True)


@dataclass(frozen=True, slots=True, eq=False)
class Prepared:
    """A request's groups as arrays, with what the reply repeats and what only diagnostics may see (labels, correct)."""

    groups: Groups
    group_ids: tuple[str, ...]
    keys_A: tuple[str, ...]
    sources: tuple[str, ...]
    kinds: tuple[Kind, ...]
    options: tuple[tuple[str, ...] | None, ...]
    labels: tuple[Labels | None, ...]
    correct_R: Floats  # as it was sent: 1 right, 0 wrong, NaN unknown
    guessed_P: Bools
    apart_P: Bools
    conflict_P: Bools  # its rollouts' labels contradict each other
    partial_P: Bools  # some of its rollouts did not come
    neutral_P: Bools  # half of them or more did not come
    rules: Rules  # by which answers compare, with each other and with labels
    unread: tuple[Mapping[str, int], ...]  # rollouts without an answer, by the reasons of `WHY_NONE`
    keys: frozenset[str]  # what each rollout has and none more; empty where they differ

    def labelled_P(self, correct_R: Floats) -> Bools:
        """The groups that a label rewards where it may: each rollout with an answer is known to be right or wrong, or
        their labels contradict each other, which is refused."""
        groups = self.groups
        known_P = groups.sum_rollouts(groups.valid_R & np.isnan(correct_R)) == 0
        out: Bools = (known_P & (groups.sum_rollouts(~np.isnan(correct_R)) > 0)) | self.conflict_P
        return out


def prepare(
    groups: Sequence[JSON],
    *,
    columns: Columns = MappingProxyType({}),
    params: Mapping[str, Any] = MappingProxyType({}),
    limits: Limits = LIMITS,
    effort: Effort | None = None,
    readings: Readings | None = None,
) -> Prepared:
    """Check and convert.

    `effort` is asked after each group whether to go on; `readings` holds what other calls have read, if there are any.
    `columns` are arrays over all rollouts that came beside the JSON (the frame's tensors); `params` are values of
    `ANSWER_SPECS`.
    """
    table, where = check_shape(groups, limits=limits)
    effort = effort or Effort(limits.steps)
    sizes_P = np.array([len(g["rollouts"]) for g in groups], np.int64)
    arrays = read_columns(table, columns, where, lambda: flat_spans(groups, effort, params))
    options = tuple(
        [
            _at(("groups", p, "options"), option_tuple, g) if g.get("kind") == "choice" else None
            for p, g in enumerate(groups)
        ]
    )
    count = arrays.get("num_tokens")
    silent_R = count == 0 if isinstance(count, np.ndarray) else np.zeros(table.size, bool)  # no token: no answer
    if "sum_logprob" in arrays and ("token_ids" in arrays or table.columns.keys() & {"path", "text"}):
        arrays["path"] = paths(table, arrays.get("token_ids"), sizes_P)
    keys = frozenset().union(*groups)
    seconds = [name for name in VIEWS if name in keys and any(g.get(name) for g in groups)]
    if readings is None and seconds:
        readings = Readings()  # a view holds the group's own texts once more
    reading = _Reading(reading_of(params), rules_of(params), options, effort, readings, {})
    classes, guessed, unread = zip(*reading.classes(groups, table, silent_R), strict=True) if groups else ((), (), ())
    trained, correct = table.columns.get("trained"), table.columns.get("correct")
    inputs = [f for f in SEEN if f.name in keys and any(g.get(f.name) is not None for g in groups)]
    planned_P = np.array([g.get("group_size") or len(g["rollouts"]) for g in groups], np.int64)
    neutral_P = 2 * sizes_P <= planned_P
    conflict_P = np.array([g.get("label_conflict") or False for g in groups], bool)
    return Prepared(
        groups=Groups(
            sizes_P,
            *_arrays(classes, sizes_P),
            columns=arrays,
            trained_R=None if trained is None else np.array(trained, bool),
            views={name: _view(groups, name, silent_R, reading) for name in seconds},
            columns_P={f.name: _column_P(f, groups) for f in inputs},
        ),
        group_ids=tuple([g.get("group_id", str(p)) for p, g in enumerate(groups)]),
        keys_A=tuple([key.kind for each in classes for key in each.keys]),
        sources=tuple([g.get("entropy_source") or "exact" for g in groups]),
        kinds=tuple([g.get("kind") or "math" for g in groups]),
        options=options,
        labels=tuple([None if g.get("label_conflict") else g.get("label") for g in groups]),
        correct_R=np.full(table.size, np.nan) if correct is None else np.array(correct, np.float64),
        guessed_P=np.array(guessed, bool),
        apart_P=np.array([bool(each.apart) for each in classes], bool),
        conflict_P=conflict_P,
        partial_P=(sizes_P < planned_P) & ~neutral_P,
        neutral_P=neutral_P,
        rules=reading.rules,
        unread=unread,
        keys=table.whole if len(table.whole) == len(table.columns) else frozenset(),
    )


def prepare_file(
    groups: Iterable[JSON], params: Mapping[str, Any] = MappingProxyType({}), *, readings: Readings | None = None
) -> Prepared:
    """`prepare` of a file's groups."""
    return prepare([*groups], params=params, limits=OF_FILE, readings=readings)


def rules_of(params: Mapping[str, Any]) -> Rules:
    """By which answers compare, of the parameters of a request."""
    return Rules(**{k: v for k, v in params.items() if k in Rules._fields})


def reading_of(params: Mapping[str, Any]) -> dict[str, Any]:
    """By which answers are read from texts, of the same."""
    return {k: v for k, v in params.items() if k in READING}


def fault_of(
    group: JSON, readings: Readings | None = None, params: Mapping[str, Any] = MappingProxyType({})
) -> RequestError | None:
    """What is wrong with a group, if anything is; the arguments are those of `prepare`."""
    try:
        prepare_file([group], params, readings=readings)
    except RequestError as error:
        return error
    return None


def flat_spans(groups: Sequence[JSON], effort: Effort, params: Mapping[str, Any]) -> list[Span | None]:
    """Each rollout's answer in its text, as [start, end) of characters."""
    silent_R = np.zeros(sum(len(g["rollouts"]) for g in groups), bool)  # without tokens there are none to find
    return list(
        chain.from_iterable(read_spans(groups, silent_R, partial(effort.check, ("groups",)), reading_of(params)))
    )


def _column_P(field: Field, groups: Sequence[JSON]) -> Floats:
    """An input of whole groups as estimators see it."""
    column = [g.get(field.name) for g in groups]
    if field.type == "text":
        column = [1.0 if value and value.strip() else None for value in column]
    return np.array([np.nan if value is None else value for value in column], np.float64)


# --- structure -------------------------------------------------------------------------------------------------------


def check_shape(groups: Sequence[JSON], *, limits: Limits = UNLIMITED) -> tuple[Table, Where]:
    """Objects, lists, names and strings are what they must be; returns all rollouts, and where each of them stands.

    Numbers are checked as columns.
    """
    _check_groups(groups, limits)
    sizes = [len(g["rollouts"]) for g in groups]
    limits.check("total", sum(sizes), ("groups",))
    starts = [0, *accumulate(sizes)]

    def where(i: int) -> tuple[str | int, ...]:
        p = bisect_right(starts, i) - 1
        return ("groups", p, "rollouts", int(i) - starts[p])

    rollouts = list(chain.from_iterable([g["rollouts"] for g in groups]))
    table = Table.of(rollouts) if set(map(type, rollouts)) <= {dict} else None
    if table is None or table.unknown:
        for i, rollout in enumerate(rollouts):
            _check_keys(rollout, ROLLOUT_FIELDS, where(i))
        table = Table.of(rollouts)
    _check_contents(table, limits, where)
    if ids := table.columns.get("id"):
        _check_ids(ids, starts)
    return table, where


def _check_groups(groups: Any, limits: Limits) -> None:
    if isinstance(groups, str | bytes | Mapping) or not isinstance(groups, Sequence):
        raise RequestError("must be a list of groups", loc=("groups",), code="type")
    limits.check("groups", len(groups), ("groups",))
    seen: dict[str, int] = {}
    for p, group in enumerate(groups):
        loc = ("groups", p)
        _check_keys(group, GROUP_FIELDS, loc)
        rollouts = group.get("rollouts")
        _check_some(rollouts, limits, (*loc, "rollouts"))
        name = group.get("group_id", str(p))
        if not (isinstance(name, str) and 1 <= len(name) <= 256):
            raise RequestError(f"must be {GROUP_FIELDS['group_id'].rule}", loc=(*loc, "group_id"), code="value")
        if name in seen and not limits.twice:
            raise RequestError(f"is the id of group {seen[name]} too", loc=(*loc, "group_id"), code="duplicate_id")
        seen[name] = p
        _check_inputs(group, limits, loc)
        if (planned := group.get("group_size")) is not None and planned < len(rollouts):
            message = f"{len(rollouts)} rollouts of a group of {planned}: one group has one size"
            raise RequestError(message, loc=(*loc, "group_size"), code="size_conflict")


def _check_some(rollouts: Any, limits: Limits, loc: Sequence[str | int], *, also: str = "") -> None:
    """A list of at least one, and of no more than the limit. `also`: what may stand in its place."""
    if not isinstance(rollouts, Sequence) or isinstance(rollouts, str | bytes) or not rollouts:
        raise RequestError(f"must be a list of at least one rollout{also}", loc=loc, code="empty_group")
    limits.check("rollouts", len(rollouts), loc)


def _check_inputs(group: JSON, limits: Limits, loc: tuple[str | int, ...]) -> None:
    """The inputs of a whole group that are there."""
    for field in CHECKED:
        if (value := group.get(field.name)) is None:
            continue
        place = (*loc, field.name)
        if field.type == "rollouts":
            _check_view(value, limits, place)
        elif not _fits(field, value):
            code = "value" if field.type in {"choice", "float", "int"} else "type"
            raise RequestError(f"must be {field.rule} or null", loc=place, code=code)
        elif field.type in {"text", "texts"}:
            limits.check("text", sum(map(len, listed(value))), place)


def _fits(field: Field, value: Any) -> bool:
    """The value has the type that is declared, and is in its range."""
    match field.type:
        case "int" | "float":
            low, high = field.bounds
            return _is_number(value, whole=field.type == "int") and bool(low <= value <= high)
        case "choice":
            return isinstance(value, str) and value in field.choices
        case "text":
            return isinstance(value, str)
        case "texts":
            several = isinstance(value, list | tuple) and 1 <= len(value) <= ACCEPTED
            return isinstance(value, str) or (several and set(map(type, value)) <= {str})
        case "object":
            return isinstance(value, Mapping)
        case "bool":
            return isinstance(value, bool)
        case _:  # options
            return type(value) is int or (isinstance(value, list | tuple) and set(map(type, value)) <= {str})


def _is_number(value: Any, *, whole: bool = False) -> bool:
    """A finite number, NumPy's too."""
    kinds = (int, np.integer) if whole else (int, float, np.integer, np.floating)
    return isinstance(value, kinds) and not isinstance(value, bool) and bool(-np.inf < value < np.inf)


def _check_view(rollouts: Any, limits: Limits, loc: tuple[str | int, ...]) -> None:
    """A second group: a list of rollouts of which only the answers count."""
    _check_some(rollouts, limits, loc, also=", or null")
    for i, rollout in enumerate(rollouts):
        _check_keys(rollout, ANSWERED_FIELDS, (*loc, i))
    _check_contents(Table.of(rollouts), limits, lambda i: (*loc, i))


def _check_contents(table: Table, limits: Limits, where: Where) -> None:
    """What is no column of numbers."""
    for key, types in CONTENTS.items():
        if (column := table.columns.get(key)) is None:
            continue
        field = ROLLOUT_FIELDS[key]
        if not (found := set(map(type, column))) <= types:
            if field.type == "object":
                column = [{} if isinstance(x, Mapping) else x for x in column]
            elif key == "answer":
                column = table.columns[key] = [_at((*where(i), key), _written, x) for i, x in enumerate(column)]
            elif key == "text" and {list, tuple} & found:
                column = table.columns[key] = [_at((*where(i), key), spoken, x) for i, x in enumerate(column)]
            check_types(field, column, types, where)
        if key == "answer" and not all(map(str.isascii, filter(None, column))):
            column = table.columns[key] = [*map(text_of, column)]
        said = column if found == {str} else filter(None, column)
        if field.type == "text" and max(map(len, said), default=0) > limits.text:
            long = next(i for i, x in enumerate(column) if x is not None and len(x) > limits.text)
            limits.check("text", len(column[long]), (*where(long), key))


def _written(answer: Any) -> Any:
    """A number as its text, anything else as it is."""
    try:
        return number_text(answer) if _is_number(answer) else answer
    except ValueError:
        message = "an integer of thousands of digits, which Python does not write: send its text"
        raise RequestError(message, code="value") from None


def _at(loc: Sequence[str | int], read: Callable[[Any], T], value: Any) -> T:
    """What is read of the value. A RequestError says where it stands."""
    try:
        return read(value)
    except RequestError as error:
        raise RequestError(error.message, loc=loc, code=error.code) from None


def _check_keys(value: Any, known: Collection[str], loc: tuple[str | int, ...]) -> None:
    if not isinstance(value, Mapping):
        raise RequestError("must be an object", loc=loc, code="type")
    unknown = next((key for key in value if key not in known), None)
    if unknown is not None:
        if unknown in OF_REQUEST:
            message = f"{unknown} belongs to the request, beside `groups`, and not to a group or a rollout"
            raise RequestError(message, loc=loc, code="unknown_field")
        said = unknown_field(str(unknown), known)
        end = "" if said.endswith("?") else "."
        raise RequestError(f"{said}{end} Put your own data into meta.", loc=loc, code="unknown_field")


def _check_ids(ids: Sequence[str | None], starts: Sequence[int]) -> None:
    for p, (low, high) in enumerate(pairwise(starts)):
        seen: set[str] = set()
        for j, name in enumerate(ids[low:high]):
            if name in seen:
                loc = ("groups", p, "rollouts", j, "id")
                raise RequestError("is the id of another rollout too", loc=loc, code="duplicate_id")
            if name is not None:
                seen.add(name)


def paths(table: Table, ids: Any, sizes_P: Ints) -> Floats:
    """The place of each rollout's path among the different ones of its group; NaN where nothing tells it. Shape [R]."""
    ends = offsets(ids.lengths).tolist() if isinstance(ids, Ragged) else None
    nothing = [None] * table.size
    named, texts = table.columns.get("path", nothing), table.columns.get("text", nothing)
    out = np.full(table.size, np.nan)
    for low, high in pairwise(offsets(sizes_P).tolist()):
        places: dict[str | bytes, int] = {}
        for i in range(low, high):
            path = named[i]
            if not path and ends is not None and ends[i] < ends[i + 1]:
                path = ids.values[ends[i] : ends[i + 1]].tobytes()
            path = path or texts[i]
            if path:
                out[i] = places.setdefault(path, len(places))
    return out


# --- answers ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, eq=False)
class _Reading:
    """How the answers of a request are read and compared; each distinct one is read once."""

    params: Mapping[str, Any]
    rules: Rules
    options: Sequence[tuple[str, ...] | None]
    effort: Effort
    texts: Readings | None
    known: dict[Any, dict[str, Any]]  # keys by kind and options

    def classes(
        self, groups: Sequence[JSON], table: Table, silent_R: Bools
    ) -> list[tuple[Classes, bool, Mapping[str, int]]]:
        """Of each group: the classes of its answers, whether one was guessed, and why rollouts have none."""
        out, silent = [], silent_R.tolist()
        given: list[str | None] = []  # what all rollouts bring, where they do
        if "answer" in table.whole and self.params.get("truncated") != "invalid":
            given = table.columns["answer"]
            if True in silent:
                given = [None if quiet else answer for answer, quiet in zip(given, silent, strict=True)]
        end = 0
        for p, group in enumerate(groups):
            begin, end = end, end + len(group["rollouts"])
            kind: Kind = group.get("kind") or "math"
            letters, texts, raws = self.options[p], None, given[begin:end]
            if not given:
                quiet = silent[begin:end]
                texts = read_answers(
                    group["rollouts"],
                    quiet,
                    kind=kind,
                    options=letters,
                    prompt=group.get("prompt"),
                    readings=self.texts,
                    **self.params,
                )
                raws = [e.answer for e in texts]
            known = self.known.setdefault((kind, letters), {})
            asked = partial(self.effort.check, ("groups", p))
            classes = classes_of(raws, kind, letters, self.rules, known=known, after_each=asked)
            unread = NONE_UNREAD
            if -1 in classes.index:
                reasons = map(why_none, raws) if texts is None else [e.reason for e in texts]
                unread = Counter(why for why, k in zip(reasons, classes.index, strict=True) if k < 0)
            out.append((classes, texts is not None and any(e.source == "fallback" for e in texts), unread))
        return out


def _arrays(classes: Sequence[Classes], sizes_P: Ints) -> tuple[Ints, Ints, tuple[str, ...]]:
    """What `Groups` has of the answers of each group: answer_R, support_P and text_A."""
    support_P = np.array([len(c.answers) for c in classes], np.int64)
    index_R = np.fromiter(chain.from_iterable([c.index for c in classes]), np.int64)
    answer_R = np.where(index_R >= 0, index_R + np.repeat(offsets(support_P)[:-1], sizes_P), -1)
    return answer_R, support_P, tuple(chain.from_iterable([c.answers for c in classes]))


def _view(groups: Sequence[JSON], name: str, silent_R: Bools, reading: _Reading) -> View:
    """Each group pooled with its second one; the answers of both are compared with each other."""
    pooled = [{**g, "rollouts": [*g["rollouts"], *(g.get(name) or ())]} for g in groups]
    sizes_P = np.array([len(g["rollouts"]) for g in pooled], np.int64)
    own_R = np.array([i < len(g["rollouts"]) for g, n in zip(groups, sizes_P, strict=True) for i in range(n)], bool)
    silent = np.zeros(len(own_R), bool)
    silent[own_R] = silent_R
    table = Table.of([*chain.from_iterable(g["rollouts"] for g in pooled)])
    if "answer" in table.columns:
        columns = {**table.columns, "answer": [*map(text_of, table.columns["answer"])]}
        table = replace(table, columns=columns)
    classes = [found for found, *_ in reading.classes(pooled, table, silent)]
    return View(Groups(sizes_P, *_arrays(classes, sizes_P)), own_R)
