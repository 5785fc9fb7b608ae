"""The reply of `POST /reward` as frozen objects, and as the JSON object that travels."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from types import MappingProxyType
from typing import Any, Literal, NamedTuple

import numpy as np

from ._reply_check import built, read_json
from .answers.extraction.final_answer import EMPTY
from .errors import FrameError, ReplyError
from .groups import Ragged
from .inputs import FIELDS
from .segments import offsets
from .wire import pack, unpack

JSON = Mapping[str, Any]
Output = Literal["rewards", "advantages"]
NOTHING: JSON = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Problem:
    """Why a group has no rewards."""

    code: str
    message: str


class Support(NamedTuple):
    """One distinct answer of a group. What the method does not define is None.

    Attributes:
        key: how sure the merge of its spellings is: exact, structured, fingerprint, text or opaque
        count: n(y), votes
        uncertainty: u(y), nats
        p_hat: its share of the weight (Eq. 10 of arXiv:2601.21804)
        p: its share after pruning (Eq. 14)
        bonus: b~(y) (Eq. 12), None if pruned
    """

    answer: str
    key: str
    count: int  # type: ignore[assignment]  # in place of the method of tuples
    uncertainty: float | None
    p_hat: float | None
    p: float | None
    bonus: float | None
    reward: float | None
    kept: bool


@dataclass(frozen=True, slots=True)
class GroupReply:
    """One group. With `error` set, every field but `group_id` is None.

    Attributes:
        method: what scored the group: the request's method, or gt (`labelled=gt`)
        config_id: a hash of the method and its parameters
        rewards: one per rollout; None if the method's output is advantages
        answer_spans: [start, end) of each rollout's answer in its text, in characters, if asked for; None: nowhere
        advantages: one per rollout, None for a rollout that only votes; None if none were asked for
        select: rollouts to train on, in the order of the selection; None: those that were sent as trained
        drop: why the group carries nothing: zero_variance, all_invalid, unsettled, unanimous; None if it does
        second_rewards: those of `second_group`'s rollouts, from methods on paired groups
        second_advantages: likewise
        token_mask: tokens to train on, from methods that choose; None for a rollout that sent no tokens
    """

    group_id: str
    method: str | None = None
    config_id: str | None = None
    rewards: tuple[float, ...] | None = None
    keep: tuple[bool, ...] | None = None
    valid: tuple[bool, ...] | None = None
    answers: tuple[str | None, ...] | None = None
    answer_spans: tuple[tuple[int, int] | None, ...] | None = None
    advantages: tuple[float | None, ...] | None = None
    select: tuple[int, ...] | None = None
    drop: str | None = None
    pseudo_label: str | None = None
    entropy_source: str | None = None
    support: tuple[Support, ...] | None = None
    second_rewards: tuple[float, ...] | None = None
    second_advantages: tuple[float, ...] | None = None
    token_mask: tuple[tuple[bool, ...] | None, ...] | None = None
    flags: tuple[str, ...] | None = None
    diagnostics: Mapping[str, Any] | None = None
    error: Problem | None = None

    @property
    def no_answer(self) -> Mapping[str, int]:
        """Its rollouts without an answer, by the reasons of `answers.extraction.WHY_NONE`; "" without diagnostics."""
        reasons: Mapping[str, int] = (self.diagnostics or NOTHING).get("no_answer") or NOTHING
        return reasons or {"": (self.valid or ()).count(False)}


@dataclass(frozen=True, slots=True)
class Reply:
    """What `POST /reward` and `dare_reward.estimate` return.

    Attributes:
        method: what scored the groups
        output: rewards, or advantages for a method without rewards
        config_id: a hash of the method, all parameters but the seed, and the rules of reading answers
        version: of the package that answered
        answers_version: of its rules of reading answers
        groups: one for each group, in order
        diagnostics: numbers over the request (docs/run-log.md)
        flags: what is unusual about it
        request_id: the request's X-Request-Id; None in process
    """

    method: str
    output: Output
    config_id: str
    version: str
    answers_version: str
    groups: tuple[GroupReply, ...]
    diagnostics: Mapping[str, Any] = field(default_factory=lambda: NOTHING)
    flags: tuple[str, ...] = ()
    request_id: str | None = None

    def to_json(self, *, detail: str = "full") -> dict[str, Any]:
        """The JSON object; `detail="rewards"` keeps ids, rewards (or advantages), valid and errors."""
        head = {
            "request_id": self.request_id,
            "version": self.version,
            "method": self.method,
            "output": self.output,
            "config_id": self.config_id,
        }
        if detail == "rewards":
            return {**head, "groups": [_short(g) for g in self.groups]}
        return {
            **head,
            "answers_version": self.answers_version,
            "flags": self.flags,
            "diagnostics": dict(self.diagnostics),
            "groups": [group_json(g) for g in self.groups],
        }

    def to_frame(self, *, detail: str = "full") -> bytes:
        """The frame (`dare_reward.wire`): the JSON object, with token masks as one tensor over the scored rollouts."""
        scored = [g for g in self.groups if g.valid is not None]
        bare = replace(self, groups=tuple(replace(g, token_mask=None) for g in self.groups))
        columns: dict[str, Ragged] = {}
        if detail == "full" and any(g.token_mask is not None for g in scored):
            masks = [m or () for g in scored for m in g.token_mask or ((),) * len(g.valid or ())]
            lengths = np.array([len(m) for m in masks], np.int64)
            columns["token_mask"] = Ragged(np.array([t for m in masks for t in m], np.bool_), lengths)
        return pack(bare.to_json(detail=detail), columns, content="reply")

    @classmethod
    def from_frame(cls, buffer: bytes) -> Reply:
        """The reply that such a frame holds; ReplyError if it holds none."""
        try:
            frame = unpack(buffer, content="reply")
            reply = cls.from_json(read_json(frame.request))
            mask = frame.columns.get("token_mask")
            if not isinstance(mask, Ragged):
                return reply
            if len(mask.lengths) != (count := sum(len(g.valid or ()) for g in reply.groups)):
                raise ReplyError(f"not a frame of this service: {len(mask.lengths)} token masks for {count} rollouts")
            return replace(reply, groups=_masked(reply.groups, mask))
        except (FrameError, ValueError) as error:
            raise ReplyError(f"not a frame of this service: {error}") from None

    @classmethod
    def from_json(cls, body: Any) -> Reply:
        """The reply that `body` writes; ReplyError if it is not one."""
        head = {"answers_version": "", **body} if isinstance(body, Mapping) else body  # none with detail=rewards
        reply = built(cls, head)
        for p, group in enumerate(reply.groups):
            if group.error is not None and (beside := [n for n in GROUP_FIELDS[1:-1] if getattr(group, n) is not None]):
                raise ReplyError(f"not a reply of this service: groups[{p}] has an error and {beside[0]}")
        return reply


GROUP_FIELDS = tuple(GroupReply.__slots__)
# One entry per rollout, or per rollout of `second_group`.
COLUMNS = ("rewards", "keep", "valid", "answers", "answer_spans", "advantages", "token_mask")
SECOND = ("second_rewards", "second_advantages")
# What only the short form of a reply leaves out.
FULL = frozenset(
    {"keep", "valid", "answers", "method", "config_id", "entropy_source", "support", "flags", "diagnostics"}
)


def _masked(groups: Sequence[GroupReply], mask: Ragged) -> tuple[GroupReply, ...]:
    """The scored groups with their rollouts' masks."""
    ends, flat, at, out = offsets(mask.lengths).tolist(), mask.values.tolist(), 0, []
    for group in groups:
        if group.valid is None:
            out.append(group)
            continue
        part = range(at, at + len(group.valid))
        at = part.stop
        rows = tuple(tuple(flat[ends[i] : ends[i + 1]]) if mask.lengths[i] else None for i in part)
        out.append(replace(group, token_mask=rows if any(r is not None for r in rows) else None))
    return tuple(out)


ASKED_FIELDS = ("advantages", "select", "drop", "second_rewards", "second_advantages")


def _short(group: GroupReply) -> dict[str, Any]:
    error = None if group.error is None else asdict(group.error)
    short = {"group_id": group.group_id, "rewards": group.rewards, "valid": group.valid, "error": error}
    return short | {name: value for name in ASKED_FIELDS if (value := getattr(group, name)) is not None}


def group_json(group: GroupReply) -> dict[str, Any]:
    """The JSON object of one group."""
    out = {name: getattr(group, name) for name in GROUP_FIELDS}
    if group.support is not None:
        out["support"] = [s._asdict() for s in group.support]
    if group.error is not None:
        out["error"] = asdict(group.error)
    return out


# --- whether a reply answers what was asked ---------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Asked:
    """One request: what its reply has to repeat, and how much of it there has to be."""

    request_id: str
    method: str
    output: str | None
    advantage: bool
    group_ids: Sequence[str]
    groups: Sequence[JSON]
    labelled: bool = False


class CrossedReplyError(ReplyError):
    """The reply repeats another request's id."""


def check_fit(reply: Reply, asked: Asked) -> None:
    """ReplyError unless `reply` is the full reply to what was asked."""
    if reply.request_id != asked.request_id:
        raise CrossedReplyError(
            f"the reply is for request {str(reply.request_id)[:64]!r}, we sent {asked.request_id!r}: it belongs to "
            "somebody else, or a proxy on the way replaces the header X-Request-Id"
        )
    if reply.method != asked.method or reply.output != (asked.output or reply.output):
        raise ReplyError(f"the reply has {reply.output} of {reply.method[:64]!r}, we asked for {asked.method!r}")
    if [g.group_id for g in reply.groups] != asked.group_ids:
        raise ReplyError(f"the reply is for other groups than the {len(asked.group_ids)} that were sent")
    for group, sent in zip(reply.groups, asked.groups, strict=True):
        if group.error is None:
            if group.method not in {None, asked.method, "gt" if asked.labelled else None}:
                raise ReplyError(f"group {group.group_id!r} was scored by {str(group.method)[:64]!r}")
            _check_group(group, sent, {reply.output, *(["advantages"] if asked.advantage else [])})


def _check_group(group: GroupReply, sent: JSON, wanted: set[str]) -> None:
    second = {"second_advantages"} if group.second_rewards is not None and "advantages" in wanted else set()
    for name in sorted(wanted | FULL | second):
        if getattr(group, name) is None:
            raise ReplyError(f"group {group.group_id!r}: no {name}")
    rollouts = sent["rollouts"]
    for name in (*COLUMNS, *SECOND):
        values = getattr(group, name)
        size = len(sent.get("second_group") or ()) if name in SECOND else len(rollouts)
        if values is not None and len(values) != size:
            raise ReplyError(f"group {group.group_id!r}: {len(values)} {name} for {size} rollouts")
    if group.rewards is not None and "rewards" not in wanted:
        raise ReplyError(f"group {group.group_id!r}: rewards of a method that returns advantages")
    _check_rows(group, rollouts)


def _check_rows(group: GroupReply, rollouts: Sequence[JSON]) -> None:
    """What the length of a column does not show: which of its entries may be null, and how long a mask is."""
    chosen = None if group.select is None else frozenset(group.select)
    if chosen is not None and (len(chosen) < len(group.select or ()) or max(chosen, default=-1) >= len(rollouts)):
        raise ReplyError(f"group {group.group_id!r}: select is not a list of different rollouts")
    for i, (advantage, rollout) in enumerate(zip(group.advantages or (), rollouts, strict=False)):
        if advantage is None and (rollout.get("trained", True) if chosen is None else i in chosen):
            raise ReplyError(f"group {group.group_id!r}: no advantage for a rollout that is trained on")
    for mask, rollout in zip(group.token_mask or (), rollouts, strict=False):
        if mask is not None and len(mask) != (tokens := _tokens(rollout)):
            raise ReplyError(f"group {group.group_id!r}: a token mask of {len(mask)} for {tokens} tokens")


def _tokens(rollout: JSON) -> int:
    """How many tokens a rollout was sent with."""
    columns = (rollout.get(f.name) for f in FIELDS.values() if f.per_token)
    return max((len(c) for c in columns if c is not None), default=0)


def with_reasons(group: GroupReply, unread: Counter[str]) -> GroupReply:
    """The reply of a service that saw no text of rollouts without an answer: `unread` counts why they have none.

    To the service their answers were empty, so its diagnostics count them there.
    """
    counts = (group.diagnostics or {}).get("no_answer")
    if not counts or not unread:
        return group
    seen = Counter(counts)
    seen[EMPTY] -= unread.total()
    reasons = {why: count for why, count in sorted((seen + unread).items()) if count > 0}
    return replace(group, diagnostics={**(group.diagnostics or {}), "no_answer": reasons})
