"""One line of a run log: what it holds, and how it is made of a request's groups and their reply."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from types import MappingProxyType
from typing import Any, Final

import numpy as np

from ..answers import Kind
from ..answers.classes import Labels, grades
from ..answers.labels import read_labels
from ..answers.rollouts import kind_of, option_tuple
from ..errors import RequestError, unknown_name
from ..groups import Groups, Ragged
from ..inputs import FIELDS
from ..numbers import NOTHING, Columns, columns_of
from ..reply import GroupReply, Reply, group_json
from ..scoring.array_inputs import Table, read_columns
from ..scoring.score import ScoredGroups
from ..segments import Bools, Floats, Ints, offsets

JSON = Mapping[str, Any]
VERSION: Final = 1


@dataclass(frozen=True, slots=True)
class LineField:
    """One key of a line. `of`: whether the value is of the group or has one entry per rollout; `holds`: of which type.

    Both are what `dare_reward.runs.shape` checks. Any value may be null.
    """

    name: str
    of: str
    meaning: str
    holds: str = "text"


# Every line has these keys, null where there is nothing to say; those after `error` are left out instead.
LINE: Final = (
    LineField("v", "line", "version of this table: 1", "integer"),
    LineField("time", "group", "when it was scored, UTC in ISO 8601 with milliseconds"),
    LineField("run", "group", "the request's `run`"),
    LineField("step", "group",
        "the request's `step`; on OpenRLHF's URL route the number of the step as it was seen", "integer"),
    LineField("kind", "group", "how answers compare: math, choice, text, exact or literal"),
    LineField("label", "group", "the right answer, where one was sent", "any"),
    LineField("trained", "rollout", "false: it only votes", "flag"),
    LineField("correct", "rollout", "it is right, where a label or `correct` was sent", "flag"),
    LineField("mean_entropies", "rollout", "mean token entropy in nats", "number"),
    LineField("num_tokens", "rollout", "number of generated tokens", "integer"),
    LineField("seconds", "group", "what its request took: scoring, or from the client's call to the reply", "number"),
    LineField("group_id", "group", "the group's id, which a later step may use again"),
    LineField("method", "group", "what scored it; null with an `error`"),
    LineField("config_id", "group", "what scored it, with every parameter: equal ids are equal rules"),
    LineField("rewards", "rollout", "the reward; null as a whole if the method gives advantages", "number"),
    LineField("keep", "rollout", "false: its answer was pruned", "flag"),
    LineField("valid", "rollout", "false: it has no answer", "flag"),
    LineField("answers", "rollout", "the answer, in the spelling that stands for its class; null: none"),
    LineField("answer_spans", "rollout", "[start, end) of the answer in the text, where asked for", "integers"),
    LineField("advantages", "rollout", "the advantage, where asked for; null for a rollout that only votes", "number"),
    LineField("select", "group", "rollouts to train on, where a selection was asked for", "integers"),
    LineField("drop", "group", "why the group carries nothing"),
    LineField("pseudo_label", "group", "the kept answer with the greatest reward"),
    LineField("entropy_source", "group", "exact, topk, logprob; none: entropies did not enter the rewards"),
    LineField("support", "group", "the distinct answers with their votes and numbers", "support"),
    LineField("second_rewards", "group",
        "those of the second group's rollouts, from methods on paired groups", "numbers"),
    LineField("second_advantages", "group", "likewise", "numbers"),
    LineField("token_mask", "group", "always null: masks are not kept", "any"),
    LineField("flags", "group", "what is unusual about it", "texts"),
    LineField("diagnostics", "group",
        "its numbers; `shadow` in it says what other methods would have said", "diagnostics"),
    LineField("error", "group", "code and message of a group that could not be scored", "error"),
    LineField("truncated", "rollout",
        "the length limit cut it off (`finish_reason`: length), if that was sent for any", "flag"),
    LineField("named", "group", "false: the request gave it no id, and `group_id` is its place there", "flag"),
    LineField("inputs", "rollout",
        "further numbers of rollouts by their names in a request, if any were sent", "inputs"),
    LineField("temperature", "group", "temperature that its rollouts were sampled at, if that was sent", "number"),
    LineField("top_p", "group", "likewise top-p", "number"),
    LineField("logprobs_mode", "group", "which distribution its log-probabilities are of, if that was sent"),
    LineField("prompt", "group", "the prompt, if asked for and sent", "any"),
    LineField("texts", "rollout", "the text, if asked for and sent"),
    LineField("token_entropies", "rollout",
        "entropy of each generated token in nats, if asked for and sent", "numbers"),
)  # fmt: skip
SAMPLING: Final = ("temperature", "top_p", "logprobs_mode")
ASKED: Final = ("prompt", "texts", "token_entropies")
# Inputs that have keys of their own.
OWN: Final = MappingProxyType({"mean_entropy": "mean_entropies", "num_tokens": "num_tokens"})
COLUMNS: Final = ("trained", "correct", *OWN.values())
EXTRA: Final = tuple(f.name for f in FIELDS.values() if f.shape == "scalar" and f.name not in OWN)
DECIMALS: Final = 4  # of a token's entropy
HEAD: Final = (
    *("group_id", "method", "config_id", "valid", "answers", "pseudo_label", "entropy_source", "support", "flags"),
    *("diagnostics", "error"),
)


def asked_for(text: str) -> frozenset[str]:
    """The optional keys that `text` names, separated by blanks or commas; `all` is every one of them."""
    names = frozenset(text.replace(",", " ").split())
    if names == {"all"}:
        return frozenset(ASKED)
    if unknown := names - set(ASKED):
        message = unknown_name("part of a run log", min(unknown), [*ASKED, "all"], listed=True)
        raise RequestError(message, code="parameter")
    return names


@dataclass(frozen=True, slots=True, eq=False)
class RunRecord:
    """What is written of one request, as columns over its rollouts; of token arrays only what was asked for.

    replies     its groups' replies
    correct_R   1 right, 0 wrong, NaN unknown
    options     those of each group, where it is still to be graded: the answers of `replies` against `labels`
    texts       how it was sampled; prompt and texts, if asked for: a value for each group
    tokens      entropies of the generated tokens, if asked for
    truncated_R the length limit cut it off; None where nobody said how rollouts ended
    named       whether each group came with an id; None where all did
    encoded     the replies as JSON objects, where they have been written already, without token masks
    judged      the columns of `Columns` that scoring made, where this process scored
    """

    run: str | None
    step: int | None
    seconds: float
    replies: Sequence[GroupReply]
    sizes: Sequence[int]
    kinds: Sequence[Kind]
    labels: Sequence[Labels | None]
    correct_R: Floats
    trained_R: Bools
    columns: Mapping[str, Floats]
    texts: Mapping[str, Sequence[Any]]
    tokens: Ragged | None
    truncated_R: Sequence[bool] | None = None
    named: Sequence[bool] | None = None
    encoded: Sequence[bytes] | None = None
    options: Sequence[Sequence[str] | None] | None = None
    judged: Mapping[str, Any] | None = None

    def graded(self) -> RunRecord:
        """With what its labels say of rollouts that nobody has called right or wrong."""
        if not self.options:
            return self
        known = np.split(self.correct_R, np.cumsum(self.sizes)[:-1])
        groups = zip(known, self.replies, self.labels, self.kinds, self.options, strict=True)
        return replace(self, correct_R=np.concatenate([_right(*group) for group in groups]), options=None)

    def only(self, p: int) -> RunRecord:
        """One group, which keeps nothing of the others in memory, and no texts."""
        begin = sum(self.sizes[:p])
        own_R, own_P = slice(begin, begin + self.sizes[p]), slice(p, p + 1)
        return replace(
            self,
            replies=self.replies[own_P],
            sizes=self.sizes[own_P],
            kinds=self.kinds[own_P],
            labels=self.labels[own_P],
            correct_R=self.correct_R[own_R].copy(),
            trained_R=self.trained_R[own_R].copy(),
            columns={name: column[own_R].copy() for name, column in self.columns.items()},
            texts=NOTHING,
            tokens=None,
            truncated_R=self.truncated_R and self.truncated_R[own_R],
            named=self.named and self.named[own_P],
            encoded=None,
            options=self.options and self.options[own_P],
            judged=None,
        )

    def heads(self, time: float) -> list[dict[str, Any]]:
        """Of each line what is no column over rollouts, but `valid` and `support` as the reply has them."""
        shared = {"time": _stamp(time), "run": self.run, "step": self.step}
        named = self.named or [True] * len(self.sizes)
        rows = zip(self.replies, self.kinds, named, strict=True)
        return [
            {**shared, "kind": kind, "named": is_named, **{name: getattr(reply, name) for name in HEAD}}
            for reply, kind, is_named in rows
        ]

    def numbers(self) -> Columns:
        """The columns of the groups that were scored, which `columns_of` makes of their lines."""
        if self.judged is None:
            return columns_of([line for line in objects(self, 0.0) if line["error"] is None])
        on_P, sizes_P = np.array([r.error is None for r in self.replies], bool), np.array(self.sizes, np.int64)
        replies, on_R, sizes_P = [r for r in self.replies if r.error is None], np.repeat(on_P, sizes_P), sizes_P[on_P]
        nothing = np.full(len(on_R), np.nan)
        return Columns(
            sizes_P=sizes_P,
            group_R=np.repeat(np.arange(len(sizes_P)), sizes_P),
            **{name: column[on_R] for name, column in self.judged.items()},
            trained_R=self.trained_R[on_R],
            entropy_R=self.columns.get("mean_entropy", nothing)[on_R],
            num_tokens_R=self.columns.get("num_tokens", nothing)[on_R],
            truncated_R=np.array(nothing if self.truncated_R is None else self.truncated_R, np.float64)[on_R],
            correct_R=self.correct_R[on_R],
            distinct_P=np.array([len(r.support or ()) for r in replies], np.float64),
            dropped_P=np.array([r.drop is not None for r in replies], np.float64),
            diagnostics_P=[r.diagnostics or NOTHING for r in replies],
        )

    @property
    def weight(self) -> int:
        """About as many bytes as it holds while it waits."""
        texts = sum(len(t or "") for group in self.texts.get("texts", ()) for t in group or ())
        prompts = sum(len(t or "") for t in self.texts.get("prompt", ()))
        tokens = 0 if self.tokens is None else self.tokens.values.nbytes
        answers = sum(len(s.answer) * s.count for reply in self.replies for s in reply.support or ())
        encoded = sum(map(len, self.encoded or ()))
        return 512 * sum(self.sizes) + texts + prompts + tokens + answers + encoded


def of_scored(
    scored: ScoredGroups,
    groups: Sequence[JSON],
    *,
    asked: frozenset[str] = frozenset(),
    run: str | None = None,
    step: int | None = None,
    encoded: Sequence[bytes] | None = None,
) -> RunRecord:
    """Of groups that were scored in this process; `groups` are those of the request, for its texts."""
    prepared, arrays = scored.prepared, scored.prepared.groups
    if any(g.token_mask is not None for g in scored.reply.groups):
        encoded = None
    return RunRecord(
        run=run,
        step=step,
        seconds=scored.seconds,
        replies=scored.reply.groups,
        sizes=arrays.sizes_P.tolist(),
        kinds=prepared.kinds,
        labels=prepared.labels,
        correct_R=scored.correct_R,
        trained_R=arrays.trains_R,
        columns=_columns(arrays.columns),
        texts=_texts(groups, asked),
        tokens=_tokens(arrays.sizes_P, arrays.columns, asked),
        truncated_R=_truncated(prepared.ends),
        named=_named(groups),
        encoded=encoded,
        judged=scored.outcomes(),
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
    """Of groups that a service scored: the answers are those of its reply. They are graded where lines are made."""
    sizes = [len(g["rollouts"]) for g in groups]
    rollouts = [{k: r[k] for k in r.keys() & READ} for g in groups for r in g["rollouts"]]
    arrays = read_columns(Table.of(rollouts), {}, lambda i: ("rollouts", i))
    flags = [r.get("correct") for g in groups for r in g["rollouts"]]
    return RunRecord(
        run=run,
        step=step,
        seconds=seconds,
        replies=reply.groups,
        sizes=sizes,
        kinds=[kind_of(g) for g in groups],
        labels=[g.get("label") for g in groups],
        correct_R=np.array([np.nan if right is None else float(right) for right in flags]),
        trained_R=np.array([r.get("trained", True) for g in groups for r in g["rollouts"]], bool),
        columns=_columns(arrays),
        texts=_texts(groups, asked),
        tokens=_tokens(np.array(sizes, np.int64), arrays, asked),
        truncated_R=_truncated([r.get("finish_reason") for g in groups for r in g["rollouts"]]),
        named=_named(groups),
        options=[option_tuple(g) for g in groups],
    )


READ: Final = OWN.keys() | set(EXTRA) | {"answer_tokens"} | {f.name for f in FIELDS.values() if f.per_token and f.sent}


def _right(
    flags_R: Floats, reply: GroupReply, label: Labels | None, kind: Kind, options: Sequence[str] | None
) -> Floats:
    """1 right, 0 wrong, NaN unknown: what was told of the rollout, else its answer against the group's label."""
    if label is None or reply.answers is None or not np.isnan(flags_R).any():
        return flags_R
    if not (accepted := read_labels(label, kind=kind, options=options)):
        return flags_R
    every = [s.answer for s in reply.support or ()]
    right = dict(zip(every, grades(every, accepted, kind=kind, options=options), strict=True))
    graded = np.array([float(a is not None and bool(right.get(a, False))) for a in reply.answers])
    return np.where(np.isnan(flags_R), graded, flags_R)


def _texts(groups: Sequence[JSON], asked: frozenset[str]) -> dict[str, Sequence[Any]]:
    out: dict[str, Sequence[Any]] = {
        name: [g.get(name) for g in groups] for name in SAMPLING if any(g.get(name) is not None for g in groups)
    }
    if "prompt" in asked:
        out["prompt"] = [g.get("prompt") for g in groups]
    if "texts" in asked:
        texts = [[r.get("text") for r in g["rollouts"]] for g in groups]
        out["texts"] = [group if any(t is not None for t in group) else None for group in texts]
    return out


def _truncated(ends: Sequence[str | None]) -> list[bool] | None:
    return None if ends.count(None) == len(ends) else [end == "length" for end in ends]


def _named(groups: Sequence[JSON]) -> list[bool] | None:
    return None if all("group_id" in g for g in groups) else ["group_id" in g for g in groups]


def _tokens(sizes_P: Ints, arrays: Mapping[str, Any], asked: frozenset[str]) -> Ragged | None:
    """Entropies of the generated tokens, if they were asked for and sent."""
    if "token_entropies" not in asked or not isinstance(arrays.get("token_entropies"), Ragged):
        return None
    columns = {name: arrays[name] for name in ("token_entropies", "token_mask") if name in arrays}
    nobody = np.full(int(sizes_P.sum()), -1, np.int64)
    groups = Groups(sizes_P, nobody, np.zeros(len(sizes_P), np.int64), (), columns)
    return groups.generated("token_entropies")


def _token_rows(kept: Ragged | None) -> list[list[float]]:
    """The entropies of each rollout's generated tokens, rounded."""
    if kept is None:
        return []
    ends = offsets(kept.lengths).tolist()
    return [np.round(kept.values[a:b].astype(np.float64), DECIMALS).tolist() for a, b in itertools.pairwise(ends)]


def _columns(arrays: Mapping[str, Any]) -> dict[str, Floats]:
    """The numbers that a rollout has one of."""
    return {name: arrays[name] for name in (*sorted(OWN), *EXTRA) if isinstance(arrays.get(name), np.ndarray)}


def lines(record: RunRecord, time: float, encode: Callable[[JSON], bytes]) -> Iterator[bytes]:
    """A line for each group of the record, scored at `time` (seconds since 1970), without its line break."""
    for p, head, further in _parts(record, time):
        if record.encoded is None:
            yield encode({**head, **group_json(record.replies[p]), "token_mask": None, **further})
        else:
            yield _joined(encode(head), record.encoded[p], *([encode(further)] if further else []))


def objects(record: RunRecord, time: float) -> Iterator[dict[str, Any]]:
    """The same lines as objects."""
    for p, head, further in _parts(record, time):
        yield {**head, **group_json(record.replies[p]), "token_mask": None, **further}


def _parts(record: RunRecord, time: float) -> Iterator[tuple[int, dict[str, Any], dict[str, Any]]]:
    """Of each group its place, and what stands before and behind its reply."""
    record = record.graded()
    stamp = _stamp(time)
    starts = offsets(np.array(record.sizes, np.int64)).tolist()
    tokens = _token_rows(record.tokens)
    columns: dict[str, list[Any]] = {"trained": record.trained_R.tolist(), "correct": _values(record.correct_R, bool)}
    inputs: dict[str, list[Any]] = {}
    for name, column in record.columns.items():
        if name in OWN:
            columns[OWN[name]] = _values(column, int if name == "num_tokens" else float)
        else:
            inputs[name] = _values(column, float)
    for p in range(len(record.sizes)):
        part = slice(starts[p], starts[p + 1])
        head = {
            "v": VERSION,
            "time": stamp,
            "run": record.run,
            "step": record.step,
            "kind": record.kinds[p],
            "label": record.labels[p],
            **{name: _known(columns[name][part]) if name in columns else None for name in COLUMNS},
            "seconds": round(record.seconds, 6),
        }
        further: dict[str, Any] = {}
        if record.truncated_R is not None:
            further["truncated"] = list(record.truncated_R[part])
        if record.named is not None and not record.named[p]:
            further["named"] = False
        if known := {n: values for n, column in inputs.items() if (values := _known(column[part])) is not None}:
            further["inputs"] = known
        if any(tokens[part]):
            further["token_entropies"] = tokens[part]
        yield p, head, further | {name: values[p] for name, values in record.texts.items() if values[p] is not None}


def _stamp(time: float) -> str:
    return datetime.fromtimestamp(time, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _values(column: Floats, kind: type[float | int | bool]) -> list[Any]:
    """The entries of a column; None where it has none."""
    absent = np.isnan(column)
    if not absent.any():
        return list(column.astype(kind).tolist())
    filled = np.where(absent, 0, column).astype(kind).tolist()
    return [None if gone else x for gone, x in zip(absent.tolist(), filled, strict=True)]


def _known(values: list[Any]) -> list[Any] | None:
    """A group's entries; None where all are."""
    return values if values.count(None) < len(values) else None


def _joined(*objects: bytes) -> bytes:
    """JSON objects as one."""
    return b"{" + b",".join(o[1:-1] for o in objects) + b"}"
