"""One line of a run log: a group as `POST /reward` takes it, and its reply. `dare-reward score --out` writes it too.

So every command that reads rollouts reads a run log, and what scored a group stands beside it. Texts and prompts are
there on request alone; without its text a rollout has the answer that was read in it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from itertools import islice
from typing import Any, Final

import numpy as np

from ..answers.classes import grades
from ..answers.labels import read_labels
from ..answers.rollouts import kind_of, option_tuple, spoken
from ..answers.rules import DEFAULT, Rules
from ..errors import RequestError, unknown_name
from ..inputs import FIELDS, GROUP_FIELDS, ROLLOUT_FIELDS
from ..reply import NOTHING, GroupReply, group_json
from ..scoring.array_inputs import Table, read_columns
from ..scoring.request import Effort, flat_spans, paths, prepare_file, rules_of
from ..scoring.score import ScoredGroups
from ..segments import Floats

JSON = Mapping[str, Any]
VERSION: Final = 2


# What a line holds beside the keys of a group.
LINE: Final[Mapping[str, str]] = {
    "v": f"version of this table: {VERSION}",
    "time": "when it was scored, UTC in ISO 8601 with milliseconds",
    "run": "the request's `run`",
    "step": "the request's `step`; on OpenRLHF's URL route the number of the step as it was seen",
    "seconds": "what its request took: scoring, or from the client's call to the reply",
    "reply": "the group's [reply](api.md#reply), with `method` and `config_id`, without token masks",
}
ASKED: Final = ("prompt", "texts")
# Inputs of a group and of a rollout that stand in a line whatever was asked for.
OF_GROUP: Final = frozenset(GROUP_FIELDS) - {"rollouts", "second_group", "teacher_group", "prompt", "meta"}
OF_ROLLOUT: Final = frozenset(f.name for f in ROLLOUT_FIELDS.values() if f.shape == "scalar") - {"text", "meta"}
NUMBERS: Final = tuple(f.name for f in FIELDS.values() if f.shape == "scalar")
PATH: Final = "path"
READ: Final = {*NUMBERS, "answer_tokens", "token_ids"} | {f.name for f in FIELDS.values() if f.per_token}


def asked_for(text: str) -> frozenset[str]:
    """The optional parts that `text` names, separated by blanks or commas; `all` is every one of them."""
    names = frozenset(text.replace(",", " ").split())
    if names == {"all"}:
        return frozenset(ASKED)
    if unknown := names - set(ASKED):
        message = unknown_name("part of a run log", min(unknown), [*ASKED, "all"], listed=True)
        raise RequestError(message, code="parameter")
    return names


@dataclass(frozen=True, slots=True, eq=False)
class RunRecord:
    """What is written of one request.

    groups      as they were sent, at least what a line holds of them
    replies     of these groups
    columns     numbers of rollouts: as they were sent, in arrays, or as they follow from token arrays; and which path
                of its group each has taken, where its probability is known
    answers_R   what was read of each rollout's text; empty where all were sent with answers
    correct_R   1 right, 0 wrong, NaN unknown; None: nobody has graded them yet
    encoded     the replies as JSON objects, where they have been written already, without token masks
    rules       by which answers were compared, and labels are
    """

    run: str | None
    step: int | None
    seconds: float
    groups: Sequence[JSON]
    replies: Sequence[GroupReply]
    columns: Mapping[str, Floats]
    answers_R: Sequence[str | None]
    correct_R: Floats | None = None
    asked: frozenset[str] = frozenset()
    encoded: Sequence[bytes] | None = None
    rules: Rules = DEFAULT

    @property
    def weight(self) -> int:
        """About as many bytes as it holds while it waits."""
        rollouts = [g["rollouts"] for g in self.groups]
        count = sum(map(len, rollouts))
        texts = sum([len(r.get("text") or "") for own in rollouts for r in own]) if "texts" in self.asked else 0
        prompts = sum([len(g.get("prompt") or "") for g in self.groups])
        answers = sum([len(s.answer) for reply in self.replies for s in reply.support or ()])
        return 512 * count + texts + prompts + answers + sum(map(len, self.encoded or ()))


def of_scored(
    scored: ScoredGroups,
    groups: Sequence[JSON],
    *,
    asked: frozenset[str] = frozenset(),
    run: str | None = None,
    step: int | None = None,
    encoded: Sequence[bytes] | None = None,
) -> RunRecord:
    """Of groups that were scored in this process."""
    arrays = scored.prepared.groups
    text_A, replies, keys = (*arrays.text_A, None), scored.reply.groups, scored.prepared.keys
    # Texts and arrays would wait in memory for nothing, and what all rollouts say follows from nothing else.
    light = keys and "text" not in keys and all(isinstance(c, np.ndarray) for c in arrays.columns.values())
    numbers = _numbers(arrays.columns)
    said = {name for name in keys & numbers.keys() if light and not np.isnan(numbers[name]).any()}
    return RunRecord(
        run,
        step,
        scored.seconds,
        groups if light else [_stripped(g, asked) for g in groups],
        replies,
        {name: column for name, column in numbers.items() if name not in said},
        [] if "answer" in keys else [text_A[a] for a in arrays.answer_R.tolist()],
        scored.correct_R,
        asked,
        None if any(g.token_mask is not None for g in replies) else encoded,
    )


def of_groups(
    groups: Sequence[JSON],
    replies: Sequence[GroupReply],
    *,
    asked: frozenset[str] = frozenset(),
    run: str | None = None,
    step: int | None = None,
    seconds: float = 0.0,
    params: JSON = NOTHING,
) -> RunRecord:
    """Of groups that were scored with `params`. They are graded where lines are made."""
    sizes = [len(g["rollouts"]) for g in groups]
    rollouts = [{k: r[k] for k in r.keys() & READ} for g in groups for r in g["rollouts"]]
    spans = partial(flat_spans, groups, Effort(), params)
    arrays = read_columns(Table.of(rollouts), {}, lambda i: ("rollouts", i), spans)
    if "sum_logprob" in arrays:
        said = [{PATH: r.get(PATH), "text": spoken(r.get("text"))} for g in groups for r in g["rollouts"]]
        arrays[PATH] = paths(Table.of(said), arrays.get("token_ids"), np.array(sizes, np.int64))
    kept = [_stripped(g, asked) for g in groups]
    answers = [a for group, reply in zip(groups, replies, strict=True) for a in _answers(group, reply, params)]
    return RunRecord(run, step, seconds, kept, replies, _numbers(arrays), answers, asked=asked, rules=rules_of(params))


def lines(record: RunRecord, time: float, encode: Callable[[JSON], bytes]) -> list[bytes]:
    """A line for each group of the record, scored at `time` (seconds since 1970), without its line break."""
    replies = record.encoded or [encode(_reply(reply)) for reply in record.replies]
    groups = [encode(line)[:-1] for line in _groups(record, time)]
    return [group + b',"reply":' + reply + b"}" for group, reply in zip(groups, replies, strict=True)]


def objects(record: RunRecord, time: float) -> Iterator[dict[str, Any]]:
    """The same lines as objects."""
    for p, line in enumerate(_groups(record, time)):
        yield {**line, "reply": _reply(record.replies[p])}


# What a reader needs of a line: of which types the entries of its columns are. A log may be edited, or cut.
Types = frozenset[type]
_NUMBER: Final[Types] = frozenset({int, float, type(None)})
_FLAG: Final[Types] = frozenset({bool, type(None)})
_TEXT: Final[Types] = frozenset({str, type(None)})
SENT: Final = {"mean_entropy": _NUMBER, "num_tokens": _NUMBER, "trained": _FLAG, "correct": _FLAG, "text": _TEXT}
SAID: Final = {"valid": _FLAG, "keep": _FLAG, "rewards": _NUMBER, "advantages": _NUMBER, "answers": _TEXT}
LISTS: Final = {"support": frozenset({dict}), "flags": frozenset({str})}
DECLARED: Final[Mapping[str, Types]] = {**SENT, **SAID, **LISTS}


def fault(line: Any) -> str:
    """Why the line cannot be used; empty if it can."""
    rollouts, reply = (line.get("rollouts"), line.get("reply")) if isinstance(line, dict) else (None, None)
    if not isinstance(rollouts, list) or not isinstance(reply, dict) or not {dict} >= set(map(type, rollouts)):
        return "no group with its reply"
    if line.get("v") != VERSION:
        return f"a line of version {line.get('v')!r:.20}, and this release reads version {VERSION}"
    columns = {name: [r.get(name) for r in rollouts] for name in SENT.keys() & set().union(*rollouts)}
    columns |= {name: column for name in (SAID | LISTS) if (column := reply.get(name)) is not None}
    for name, types in DECLARED.items():
        fits = isinstance(column := columns.get(name, []), list) and types.issuperset(map(type, column))
        if not fits or (name in columns and name not in LISTS and len(column) != len(rollouts)):
            return f"{name} is not what it is declared to be"
    own = reply.get("diagnostics")
    objects = {"diagnostics": reply, "error": reply, "shadow": own, "no_answer": own}
    for name, place in objects.items():
        if not isinstance((place or {}).get(name) or {}, dict):
            return f"{name} is not what it is declared to be"
    votes = {(type(s.get("answer")), type(s.get("count"))) for s in reply.get("support") or ()}
    return "" if votes <= {(str, int)} else "support is not what it is declared to be"


def line(group: JSON, reply: GroupReply, params: JSON, *, asked: frozenset[str] = frozenset()) -> dict[str, Any]:
    """The line of one group of a file, and its reply; `run`, `step` and `time` are those that the file names."""
    meta = group.get("meta") or {}
    run, step = meta.get("run"), meta.get("step")
    (made,) = objects(of_groups([group], [reply], asked=asked, run=run, step=step, params=params), 0.0)
    return {**made, "time": meta.get("log_time")}


def _groups(record: RunRecord, time: float) -> list[dict[str, Any]]:
    """Each line without its reply."""
    stamp = datetime.fromtimestamp(time, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    head = {"v": VERSION, "time": stamp, "run": record.run, "step": record.step, "seconds": round(record.seconds, 6)}
    columns = {name: _values(name, column) for name, column in record.columns.items()}
    if record.correct_R is not None:
        columns["correct"] = _values("correct", record.correct_R)
    else:
        said = iter(record.answers_R)
        columns["correct"] = [right for group in record.groups for right in _graded(group, said, record.rules)]
    columns = {name: column for name, column in columns.items() if column.count(None) < len(column)}
    out, end = [], 0
    for group in record.groups:
        kept = _stripped(group, record.asked)
        begin, end = end, end + len(kept["rollouts"])
        own = {name: column[begin:end] for name, column in columns.items()}
        out.append({**head, **kept, "rollouts": _filled(kept["rollouts"], own, record.answers_R[begin:end])})
    return out


def _filled(
    rollouts: Sequence[JSON], columns: Mapping[str, Sequence[Any]], answers: Sequence[str | None]
) -> list[dict[str, Any]]:
    """The rollouts with what they do not say: numbers, whether they are right, the answers of their texts."""
    filled = [dict(r) for r in rollouts]
    for name, column in columns.items():
        for rollout, value in zip(filled, column, strict=True):
            if value is not None and rollout.get(name) is None:
                rollout[name] = value
    for rollout, answer in zip(filled, answers, strict=False):
        if "text" not in rollout:
            rollout.setdefault("answer", answer)
    return filled


def _stripped(group: JSON, asked: frozenset[str]) -> dict[str, Any]:
    """What a line holds of a group; its rollouts are the sent ones where a line holds all of them."""
    names = OF_ROLLOUT | {"text"} if "texts" in asked else OF_ROLLOUT
    kept, rollouts = {k: v for k, v in group.items() if k in OF_GROUP}, group["rollouts"]
    if "prompt" in asked and group.get("prompt") is not None:
        kept["prompt"] = group["prompt"]
    if frozenset().union(*rollouts) - names:
        rollouts = [{k: v for k, v in r.items() if k in names} for r in rollouts]
    if "texts" in asked:
        rollouts = [r if isinstance(r.get("text", ""), str) else {**r, "text": spoken(r["text"])} for r in rollouts]
    return {**kept, "rollouts": rollouts}


def _reply(reply: GroupReply) -> dict[str, Any]:
    return {**group_json(reply), "token_mask": None}


def _answers(group: JSON, reply: GroupReply, params: JSON) -> Sequence[str | None]:
    """What was read of each rollout, also where the group was not scored."""
    if reply.answers is not None:
        return reply.answers
    read = prepare_file([group], params).groups
    return [(*read.text_A, None)[a] for a in read.answer_R.tolist()]


def _graded(group: JSON, said: Iterator[str | None], rules: Rules) -> Sequence[bool | None]:
    """Whether each rollout is right; it takes the answers of the group from those of all."""
    kind, options, answers = kind_of(group), option_tuple(group), [*islice(said, len(group["rollouts"]))]
    label = None if group.get("label_conflict") else group.get("label")
    if label is None or not (accepted := read_labels(label, kind=kind, options=options)):
        return [None] * len(answers)
    every = dict.fromkeys(answers)
    right = dict(zip(every, grades(every, accepted, kind=kind, options=options, rules=rules), strict=True))
    return [right[a] for a in answers]


def _numbers(arrays: Mapping[str, Any]) -> dict[str, Floats]:
    """The numbers that a rollout has one of, and its path."""
    return {name: arrays[name] for name in (*NUMBERS, PATH) if isinstance(arrays.get(name), np.ndarray)}


def _values(name: str, column: Floats) -> list[Any]:
    """The entries of a column as JSON has them; None where it has none."""
    if name == PATH:
        return [None if np.isnan(x) else f"#{x:.0f}" for x in column.tolist()]
    kind = bool if name == "correct" else int if FIELDS[name].type == "int" else float
    absent = np.isnan(column)
    values = np.where(absent, 0, column).astype(kind)
    return list((np.where(absent, np.array(None), values) if absent.any() else values).tolist())
