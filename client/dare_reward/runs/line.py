"""One line of a run log: what it holds, and how it is made of a request's groups and their reply."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

import numpy as np

from .._scoring.array_inputs import read_columns
from .._scoring.request import Prepared, kind_of, option_tuple
from .._segments import Floats, Ints, offsets
from ..answers.classes import grades
from ..errors import RequestError, unknown_name
from ..groups import Groups, Ragged
from ..inputs import FIELDS
from ..reply import GroupReply, Reply

__all__ = ["ASKED", "LINE", "VERSION", "LineField", "RunRecord", "asked_for", "lines", "of_groups", "of_prepared"]

JSON = Mapping[str, Any]
VERSION: Final = 1


@dataclass(frozen=True, slots=True)
class LineField:
    """One key of a line. `of`: whether the value is of the group or has one entry per rollout."""

    name: str
    of: str
    meaning: str


# Every line has these keys, null where there is nothing to say; keys after `seconds` are left out instead.
LINE: Final = (
    LineField("v", "line", "version of this table: 1"),
    LineField("time", "group", "when it was scored, UTC in ISO 8601 with milliseconds"),
    LineField("run", "group", "the request's `run`"),
    LineField("step", "group", "the request's `step`; on OpenRLHF's URL route the number of the step as it was seen"),
    LineField("group_id", "group", "the group's id; not unique in a run"),
    LineField("kind", "group", "how answers compare: math, choice, text or exact"),
    LineField("method", "group", "what scored it; null with an `error`"),
    LineField("config_id", "group", "what scored it, with every parameter: equal ids are equal rules"),
    LineField("label", "group", "the right answer, where one was sent"),
    LineField("pseudo_label", "group", "the kept answer with the greatest reward"),
    LineField("answers", "rollout", "the answer, in the spelling that stands for its class; null: none"),
    LineField("rewards", "rollout", "the reward; null as a whole if the method gives advantages"),
    LineField("advantages", "rollout", "the advantage, where asked for; null for a rollout that only votes"),
    LineField("keep", "rollout", "false: its answer was pruned"),
    LineField("valid", "rollout", "false: it has no answer"),
    LineField("trained", "rollout", "false: it only votes"),
    LineField("correct", "rollout", "it is right, where a label or `correct` was sent"),
    LineField("mean_entropies", "rollout", "mean token entropy in nats"),
    LineField("num_tokens", "rollout", "number of generated tokens"),
    LineField("select", "group", "rollouts to train on, where a selection was asked for"),
    LineField("drop", "group", "why the group carries nothing"),
    LineField("entropy_source", "group", "exact, topk, logprob; none: entropies did not enter the rewards"),
    LineField("support", "group", "the distinct answers with their votes and numbers, as in the reply"),
    LineField("flags", "group", "as in the reply"),
    LineField("diagnostics", "group", "as in the reply; `shadow` in it says what other methods would have said"),
    LineField("error", "group", "code and message of a group that could not be scored"),
    LineField("seconds", "group", "what scoring took, for all groups of its request"),
    LineField("inputs", "rollout", "further numbers of rollouts by their names in a request, if any were sent"),
    LineField("prompt", "group", "the prompt, if asked for and sent"),
    LineField("texts", "rollout", "the text, if asked for and sent"),
    LineField("token_entropies", "rollout", "entropy of each generated token in nats, if asked for and sent"),
)
ASKED: Final = ("prompt", "texts", "token_entropies")
SAID: Final = (
    "method", "config_id", "pseudo_label", "answers", "rewards", "advantages", "keep", "valid", "select", "drop",
    "entropy_source", "flags", "diagnostics",
)  # fmt: skip
SUPPORT: Final = ("answer", "key", "count", "uncertainty", "p_hat", "p", "bonus", "reward", "kept")
OWN: Final = frozenset({"mean_entropy", "num_tokens"})  # inputs that have keys of their own
EXTRA: Final = tuple(f.name for f in FIELDS.values() if f.shape == "scalar" and f.name not in OWN)
DECIMALS: Final = 4  # of a token's entropy


def asked_for(text: str) -> frozenset[str]:
    """The optional keys that `text` names, separated by blanks or commas; `all` is every one of them."""
    names = frozenset(text.replace(",", " ").split())
    if names == {"all"}:
        return frozenset(ASKED)
    if unknown := names - set(ASKED):
        raise RequestError(f"{unknown_name('part of a run log', min(unknown), [*ASKED, 'all'])}", code="parameter")
    return names


@dataclass(frozen=True, slots=True, eq=False)
class RunRecord:
    """What is written of one request, as columns over its rollouts; of token arrays only what was asked for.

    correct_R   1 right, 0 wrong, NaN unknown
    asked       the optional keys by name: a value for each group
    """

    run: str | None
    step: int | None
    seconds: float
    replies: Sequence[GroupReply]
    sizes: Sequence[int]
    kinds: Sequence[str]
    labels: Sequence[str | None]
    correct_R: Floats
    trained_R: Sequence[bool]
    columns: Mapping[str, Floats]
    asked: Mapping[str, Sequence[Any]]

    @property
    def weight(self) -> int:
        """About as many bytes as it holds while it waits."""
        texts = sum(len(t or "") for group in self.asked.get("texts", ()) for t in group or ())
        prompts = sum(len(t or "") for t in self.asked.get("prompt", ()))
        tokens = sum(a.nbytes for group in self.asked.get("token_entropies", ()) for a in group or ())
        return 512 * sum(self.sizes) + texts + prompts + tokens


def of_prepared(
    prepared: Prepared,
    correct_R: Floats,
    reply: Reply,
    groups: Sequence[JSON],
    *,
    asked: frozenset[str] = frozenset(),
    run: str | None = None,
    step: int | None = None,
    seconds: float = 0.0,
) -> RunRecord:
    """Of groups that were scored in this process; `groups` are those of the request, for its texts."""
    arrays = prepared.groups
    optional = _texts(groups, asked)
    if "token_entropies" in asked and arrays.has("token_entropies").any():
        optional["token_entropies"] = _tokens(arrays)
    return RunRecord(
        run=run,
        step=step,
        seconds=seconds,
        replies=reply.groups,
        sizes=arrays.sizes_P.tolist(),
        kinds=prepared.kinds,
        labels=prepared.labels,
        correct_R=correct_R,
        trained_R=arrays.trains_R.tolist(),
        columns=_columns(arrays.columns),
        asked=optional,
    )


def of_groups(
    groups: Sequence[JSON],
    reply: Reply,
    *,
    asked: frozenset[str] = frozenset(),
    run: str | None = None,
    step: int | None = None,
    seconds: float = 0.0,
) -> RunRecord:
    """Of groups that a service scored: the answers are those of its reply."""
    sizes = [len(g["rollouts"]) for g in groups]
    rollouts = [{k: r[k] for k in r.keys() & READ} for g in groups for r in g["rollouts"]]
    arrays = read_columns(rollouts, {}, lambda i: ("rollouts", i))
    optional = _texts(groups, asked)
    if "token_entropies" in asked and isinstance(arrays.get("token_entropies"), Ragged):
        nobody = np.full(len(rollouts), -1, np.int64)
        optional["token_entropies"] = _tokens(
            Groups(np.array(sizes, np.int64), nobody, np.zeros(len(sizes), np.int64), (), arrays)
        )
    rights = [_right(g, r) for g, r in zip(groups, reply.groups, strict=True)]
    return RunRecord(
        run=run,
        step=step,
        seconds=seconds,
        replies=reply.groups,
        sizes=sizes,
        kinds=[kind_of(g) for g in groups],
        labels=[g.get("label") for g in groups],
        correct_R=np.concatenate(rights) if rights else np.zeros(0),
        trained_R=[bool(r.get("trained", True)) for g in groups for r in g["rollouts"]],
        columns=_columns(arrays),
        asked=optional,
    )


READ: Final = OWN | set(EXTRA) | {f.name for f in FIELDS.values() if f.per_token}


def _right(group: JSON, reply: GroupReply) -> Floats:
    """1 right, 0 wrong, NaN unknown: the rollout's `correct`, else its answer against the group's label."""
    told = np.array([np.nan if r.get("correct") is None else float(r["correct"]) for r in group["rollouts"]])
    label, answers = group.get("label"), reply.answers
    if label is None or answers is None or not np.isnan(told).any():
        return told
    every = [s.answer for s in reply.support or ()]
    same = grades(every, label, kind=kind_of(group), options=option_tuple(group))
    right = dict(zip(every, same, strict=True))
    graded = np.array([float(a is not None and bool(right.get(a, False))) for a in answers])
    return np.where(np.isnan(told), graded, told)


def _texts(groups: Sequence[JSON], asked: frozenset[str]) -> dict[str, Sequence[Any]]:
    out: dict[str, Sequence[Any]] = {}
    if "prompt" in asked:
        out["prompt"] = [g.get("prompt") for g in groups]
    if "texts" in asked:
        texts = [[r.get("text") for r in g["rollouts"]] for g in groups]
        out["texts"] = [own if any(t is not None for t in own) else None for own in texts]
    return out


def _tokens(arrays: Groups) -> list[list[Any]]:
    """The entropies of each rollout's generated tokens, rounded."""
    kept = arrays.generated("token_entropies")
    ends = offsets(kept.lengths)
    flat = np.round(kept.values.astype(np.float64), DECIMALS)
    rows = [flat[ends[i] : ends[i + 1]] for i in range(len(kept.lengths))]
    starts = offsets(arrays.sizes_P)
    return [rows[starts[p] : starts[p + 1]] for p in range(len(arrays.sizes_P))]


def _columns(arrays: Mapping[str, Any]) -> dict[str, Floats]:
    """The numbers that a rollout has one of."""
    return {name: arrays[name] for name in (*sorted(OWN), *EXTRA) if isinstance(arrays.get(name), np.ndarray)}


def lines(record: RunRecord, time: float) -> Iterator[dict[str, Any]]:
    """A line for each group of the record, scored at `time` (seconds since 1970)."""
    stamp = datetime.fromtimestamp(time, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    starts = offsets(np.array(record.sizes, np.int64)).tolist()
    trained = list(record.trained_R)
    for p, reply in enumerate(record.replies):
        part = slice(starts[p], starts[p + 1])
        said = {name: getattr(reply, name) for name in SAID}
        line = {
            "v": VERSION,
            "time": stamp,
            "run": record.run,
            "step": record.step,
            "group_id": reply.group_id,
            "kind": record.kinds[p],
            "label": record.labels[p],
            **said,
            "trained": trained[part],
            "correct": _bools(record.correct_R[part]),
            "mean_entropies": _numbers(record.columns.get("mean_entropy"), part),
            "num_tokens": _counts(record.columns.get("num_tokens"), part),
            "support": None if reply.support is None else [_support(s) for s in reply.support],
            "error": None if reply.error is None else {"code": reply.error.code, "message": reply.error.message},
            "seconds": round(record.seconds, 6),
            **_further(record, part),
        }
        yield line | {name: _plain(values[p]) for name, values in record.asked.items() if values[p] is not None}


def _support(row: Any) -> dict[str, Any]:
    return {name: getattr(row, name) for name in SUPPORT}


def _further(record: RunRecord, part: slice) -> dict[str, Any]:
    found = {name: _numbers(record.columns.get(name), part) for name in EXTRA if name in record.columns}
    known = {name: values for name, values in found.items() if values is not None}
    return {"inputs": known} if known else {}


def _numbers(column: Floats | None, part: slice) -> list[float | None] | None:
    """The entries of a group, None where missing; None where all are."""
    if column is None:
        return None
    own = [None if x != x else x for x in column[part].tolist()]  # noqa: PLR0124  (NaN is what differs from itself)
    return None if all(x is None for x in own) else own


def _counts(column: Floats | None, part: slice) -> list[int | None] | None:
    own = _numbers(column, part)
    return own if own is None else [None if x is None else int(x) for x in own]


def _bools(column: Floats) -> list[bool | None] | None:
    own = _numbers(column, slice(None))
    return own if own is None else [None if x is None else bool(x) for x in own]


def _plain(value: Any) -> Any:
    """Arrays of token entropies as lists; a text as it is."""
    return [x.tolist() if isinstance(x, np.ndarray) else x for x in value] if isinstance(value, list) else value
