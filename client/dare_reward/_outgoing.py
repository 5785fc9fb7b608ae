"""What a client sends, and where to: groups reduced to what the method needs, in bodies that fit the limits."""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Any, Final
from urllib.parse import SplitResult, parse_qsl, urlsplit, urlunsplit

import numpy as np

from .answers.classes import listed
from .answers.extraction.frame import ASKED
from .answers.labels import is_unicode
from .answers.rollouts import READING, asked_of, mended, read_answers, spoken, text_of
from .errors import RequestError
from .estimators.method import OVER, last_tokens
from .groups import Ragged
from .inputs import ANSWERED_FIELDS, FIELDS, GROUP_FIELDS, ROLLOUT_FIELDS
from .methods import OTHER_NAMES, find
from .reply import NOTHING, read_json
from .scoring.array_inputs import Table, full_mask, path_digest, read_columns, token_sums
from .scoring.request import VIEWS, Effort, check_shape, flat_spans
from .wire import MEDIA_TYPES, pack

JSON = Mapping[str, Any]


# What travels as it is; the columns of numbers have their own ways.
COPIED, ANSWERED_COPIED = (
    tuple(f.name for f in fields.values() if f.sent and not f.is_array) for fields in (ROLLOUT_FIELDS, ANSWERED_FIELDS)
)
GROUP_COPIED: Final = tuple(f.name for f in GROUP_FIELDS.values() if f.sent and f.type != "rollouts")
SCALARS: Final = tuple(f.name for f in FIELDS.values() if f.shape == "scalar")
ARRAYS: Final = tuple(f.name for f in FIELDS.values() if f.shape != "scalar" and f.sent)
# What goes with per-token inputs wherever these travel.
BESIDE: Final = frozenset({"token_mask", "answer_tokens"})


@dataclass(frozen=True, slots=True)
class Sending:
    """Texts instead of answers; token arrays instead of means."""

    text: bool = False
    tokens: bool = False


PLAIN: Final = Sending()


@dataclass(frozen=True, slots=True)
class ServiceLimits:
    """What the service says that one request may hold, and its own parameters where a request sets none."""

    groups: int = sys.maxsize
    rollouts: int = sys.maxsize  # over the groups of a request
    json_bytes: int = sys.maxsize
    frame_bytes: int = sys.maxsize
    method: str = ""
    params: Mapping[str, Any] = field(default_factory=lambda: NOTHING)

    @classmethod
    def of(cls, settings: JSON) -> ServiceLimits:
        """Those of `GET /info`. ValueError, TypeError or KeyError if it names none."""
        groups, json_, body = (int(settings[name]) for name in ("max_groups", "max_json_bytes", "max_body_bytes"))
        rollouts = int(settings.get("max_request_rollouts", sys.maxsize))  # an older service has no such limit
        if min(groups, rollouts, json_, body) < 1:
            raise ValueError("limits that nothing fits into")
        params, method = dict(read_json(settings.get("params", "{}"))), settings.get("method", "")
        return cls(groups, rollouts, min(json_, body), body, OTHER_NAMES.get(method, method), params)

    def defaults(self, method: str) -> Mapping[str, Any]:
        """The operator's parameters of `method`."""
        return self.params if method == self.method else {}


UNLIMITED: Final = ServiceLimits()


@dataclass(frozen=True, slots=True)
class Sent:
    """One group as it was given and as it travels: JSON, its token arrays by field, its size in bytes, and why rollouts
    whose texts were read here have no answer."""

    given: JSON
    name: str  # its id, else its index; this does not travel: to a run log it would be the name of a prompt
    body: dict[str, Any]
    arrays: Mapping[str, Ragged]
    size: int
    unread: Counter[str]


@dataclass(frozen=True, slots=True)
class Part:
    """One request body and its groups."""

    content: bytes
    media_type: str
    groups: Sequence[Sent]


def split_address(url: str) -> SplitResult:
    """RequestError unless it has a scheme of HTTP and a host. Its message shows no query and no password."""
    try:
        parts = urlsplit(url)
        known = parts.scheme in {"http", "https"} and bool(parts.hostname) and (parts.port or 1) > 0
    except ValueError:  # a port that is no number
        known = False
    if not known:
        shown = str(url).partition("?")[0].rpartition("@")[2]
        raise RequestError(f"the address of a service is like http://127.0.0.1:8000, not {shown!r}", code="url")
    return parts


def service_address(url: str) -> tuple[str, str | None]:
    """The service's base address, and the token in its query: addresses of its route and of OpenRLHF's flag work too.

    RequestError for anything else in the query.
    """
    parts = split_address(url)
    try:
        query = dict(parse_qsl(parts.query, keep_blank_values=True, strict_parsing=bool(parts.query)))
    except ValueError:
        query = {parts.query: ""}
    token = query.pop("token", None)
    if query:
        raise RequestError(
            f"the address has {min(query)[:64]!r} in its query. Pass settings as arguments, not in the address",
            code="url",
        )
    path = parts.path.rstrip("/")
    route = next((r for r in ("/v1/reward", "/get_reward", "/reward") if path.endswith(r)), "")
    return urlunsplit((parts.scheme, parts.netloc, path.removesuffix(route), "", "")), token


def parts(
    groups: Sequence[JSON], head: JSON, sending: Sending = PLAIN, limits: ServiceLimits = UNLIMITED
) -> Iterator[Part]:
    """The request bodies for `groups`, in order. A single group over a limit travels alone and is refused there."""
    check_shape(groups)
    inputs = _inputs(head)
    wanted = _wanted(inputs, sending)
    # Answers that are read here are read by the service's own parameters too.
    reading = {k: v for k, v in {**limits.defaults(head["method"]), **head["params"]}.items() if k in READING}
    ready = [_slim(g, p, sending, wanted, reading) for p, g in enumerate(groups)]
    if inputs is None or "path" in inputs:
        for group in ready:
            _put_paths(group.body["rollouts"], group.given["rollouts"])
    limit = limits.frame_bytes if any(g.arrays for g in ready) else limits.json_bytes
    run: list[Sent] = []
    total = rollouts = 0
    for group in ready:
        more = len(group.given["rollouts"])
        full = len(run) == limits.groups or rollouts + more > limits.rollouts or total + group.size > 0.9 * limit
        if run and full:
            yield _part(run, head)
            run, total, rollouts = [], 0, 0
        run.append(group)
        total += group.size
        rollouts += more
    if run or not ready:
        yield _part(run, head)


def plain(params: Mapping[str, Any]) -> dict[str, Any]:
    """Parameters with NumPy's numbers as Python's."""
    return {name: value.item() if isinstance(value, np.generic) else value for name, value in params.items()}


def _inputs(head: JSON) -> frozenset[str] | None:
    """Every input that a request's methods may look at; None if this version does not know one of them."""
    tokens = {"token_entropies"} if last_tokens(head["params"].get(OVER.name)) else frozenset[str]()
    try:
        names = [head["method"], *head.get("shadow", ())]
        return frozenset(tokens).union(*(find(name).inputs for name in names))
    except RequestError:
        return None


def _wanted(inputs: frozenset[str] | None, sending: Sending) -> tuple[str, ...]:
    """The array inputs that travel. A method that this version does not know gets all."""
    if inputs is None:
        return ARRAYS
    names = [name for name in ARRAYS if sending.tokens or name in inputs]
    tokens = any(FIELDS[name].per_token for name in names)
    return tuple(name for name in ARRAYS if name in names or (tokens and name in BESIDE))


def _slim(group: JSON, index: int, sending: Sending, wanted: Sequence[str], reading: Mapping[str, Any]) -> Sent:
    rollouts = group["rollouts"]
    out: list[dict[str, Any]] = [{k: r[k] for k in COPIED if r.get(k) is not None} for r in rollouts]
    columns = read_columns(
        Table.of(rollouts),
        {},
        lambda i: ("groups", index, "rollouts", i),
        lambda: flat_spans([group], Effort(sys.maxsize), reading),
    )
    for i, (target, rollout) in enumerate(zip(out, rollouts, strict=True)):
        target.update({k: rollout[k] for k in SCALARS if rollout.get(k) is not None})
        target.update(token_sums(rollout, i, columns, wanted))
    count = columns.get("num_tokens")
    silent_R = np.zeros(len(rollouts), bool) if count is None else count == 0
    unread = _put_answers(out, group, sending, reading, silent_R.tolist())
    arrays = _with_tokens({name: column for name in wanted if isinstance(column := columns.get(name), Ragged)})
    body = {k: group[k] for k in GROUP_COPIED if group.get(k) is not None}
    accepted = listed(body.get("label"))
    if not all(map(is_unicode, accepted)):
        body["label"] = [*filter(is_unicode, accepted)] or None
    if group.get("prompt") is not None and any("text" in rollout for rollout in out):  # texts are read by it
        body["prompt"] = mended(group["prompt"][-ASKED:])
    body["rollouts"] = out
    for view in VIEWS:
        if group.get(view) is not None:
            body[view] = [{k: r[k] for k in ANSWERED_COPIED if r.get(k) is not None} for r in group[view]]
            _put_answers(body[view], {**group, "rollouts": group[view]}, sending, reading, [False] * len(group[view]))
    # Eight bytes an element, and 300 for the frame's bookkeeping, bound what the arrays add.
    size = len(json.dumps(body, default=_plain)) + sum(8 * a.values.size for a in arrays.values()) + 300
    return Sent(group, group.get("group_id", str(index)), body, arrays, size, unread)


def _with_tokens(arrays: Mapping[str, Ragged]) -> dict[str, Ragged]:
    """The arrays that travel: what goes beside tokens only for rollouts of which tokens travel too."""
    tokens = [column.lengths > 0 for name, column in arrays.items() if FIELDS[name].per_token and name not in BESIDE]
    if not tokens:
        return {name: column for name, column in arrays.items() if name not in BESIDE}
    sent_R = np.logical_or.reduce(tokens)
    return {name: column.only(sent_R) if name in BESIDE else column for name, column in arrays.items()}


def _put_answers(
    out: Sequence[dict[str, Any]], group: JSON, sending: Sending, reading: Mapping[str, Any], silent: Sequence[bool]
) -> Counter[str]:
    """Answers extracted here, with the reasons of rollouts that have none, as `silent` ones, without a token; texts
    where asked for, or where the service has to see how an answer was found."""
    rollouts = group["rollouts"]
    if sending.text or reading.get("unmarked") == "number":
        for target, rollout in zip(out, rollouts, strict=True):
            target.update({k: text_of(spoken(rollout[k])) for k in ("answer", "text") if k in rollout})
        return Counter()
    raws = read_answers(rollouts, silent, **asked_of(group), **reading)
    for target, extraction in zip(out, raws, strict=True):
        target["answer"] = extraction.answer
    return Counter(extraction.reason for extraction in raws if extraction.answer is None)


def _put_paths(out: Sequence[dict[str, Any]], rollouts: Sequence[JSON]) -> None:
    """What tells a path from others, for rollouts that have a probability: tokens and texts stay here."""
    for target, rollout in zip(out, rollouts, strict=True):
        has = rollout.get("sum_logprob") is not None or rollout.get("token_logprobs") is not None
        if has and not target.get("path") and (path := path_digest(rollout)):
            target["path"] = path


def _part(run: Sequence[Sent], head: JSON) -> Part:
    bodies = [g.body for g in run]
    request = {**head, "groups": bodies}
    columns: dict[str, Any] = {name: _joined(name, run) for name in sorted({name for g in run for name in g.arrays})}
    if not columns:
        content = json.dumps(request, separators=(",", ":"), default=_plain).encode()
        return Part(content, "application/json", run)
    request = json.loads(json.dumps(request, default=_plain))
    for name in [name for name in columns if not FIELDS[name].ragged]:
        rows = columns[name]
        columns[name] = rows.values
        if not rows.lengths.all():  # a tensor has no gaps
            values = iter(columns.pop(name).tolist())
            for rollout, has in zip(chain(*(g["rollouts"] for g in request["groups"])), rows.lengths, strict=True):
                rollout |= {name: next(values)} if has else {}  # noqa: PLW2901
    if "token_mask" in columns:
        tokens = [c.lengths for name, c in columns.items() if FIELDS[name].per_token and name != "token_mask"]
        columns["token_mask"] = full_mask(columns["token_mask"], np.maximum.reduce(tokens))
    return Part(pack(request, columns), MEDIA_TYPES[0], run)


def _joined(name: str, run: Sequence[Sent]) -> Ragged:
    """An input of all groups, in a type that travels: float32 stays, other numbers are float64."""
    none = [np.zeros(len(g.body["rollouts"]), np.int64) for g in run]
    lengths = [g.arrays[name].lengths if name in g.arrays else zero for g, zero in zip(run, none, strict=True)]
    parts = [g.arrays[name].values for g in run if name in g.arrays]
    parts = [part for part in parts if len(part)] or parts[:1]
    if len(widths := {p.shape[1:] for p in parts}) > 1:  # they are equally wide within a group already
        message = f"{name} has rows of {min(widths)[0]} and of {max(widths)[0]}: all rows of a request are equally long"
        raise RequestError(message, loc=("groups",), code="shape")
    values = np.concatenate(parts)
    kind = {"bool": np.bool_, "int": np.int64}.get(FIELDS[name].type, np.float64)
    return Ragged(values if values.dtype == np.float32 else values.astype(kind, copy=False), np.concatenate(lengths))


def _plain(value: Any) -> Any:
    """NumPy's numbers as Python's."""
    if isinstance(value, np.generic | np.ndarray):
        return value.tolist()
    raise RequestError(f"{type(value).__name__} is not JSON", code="type")
