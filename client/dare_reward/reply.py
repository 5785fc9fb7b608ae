"""The reply of `POST /reward` as frozen objects, and as the JSON object that travels."""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from types import MappingProxyType, NoneType
from typing import Any, Final, Literal, NamedTuple

from .answers.extraction.final_answer import EMPTY
from .errors import ReplyError

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
        """The JSON object; `detail="rewards"` keeps ids, rewards, valid, errors, and what was asked for."""
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

    @classmethod
    def from_json(cls, body: Any) -> Reply:
        """The reply that `body` writes; ReplyError if it is not one."""
        try:
            return cls(
                **{name: body[name] for name in ("method", "output", "config_id", "version")},
                answers_version=body.get("answers_version", ""),  # none with detail=rewards
                groups=tuple([_group(group) for group in body["groups"]]),
                diagnostics=body.get("diagnostics", NOTHING),
                flags=tuple(body.get("flags", ())),
                request_id=body.get("request_id"),
            )
        except (KeyError, TypeError, AttributeError, ValueError) as error:
            why = f"{type(error).__name__}: {str(error)[:200]}"
            raise ReplyError(f"not a reply of this service, or of another version ({why})") from None


def _group(body: JSON) -> GroupReply:
    """One group of a reply's JSON; lists become tuples, and keys that we do not know are left out."""
    known = {name: body[name] for name in GROUP_FIELDS if name in body}
    for name, value in known.items():
        if isinstance(value, list):
            known[name] = tuple(value)
    for name in NESTED:
        if (rows := known.get(name)) is not None:
            known[name] = tuple([None if row is None else tuple(row) for row in rows])
    if (rows := known.get("support")) is not None:
        known["support"] = tuple([Support(**{name: row[name] for name in Support._fields}) for row in rows])
    if (error := known.get("error")) is not None:
        known["error"] = Problem(error["code"], error["message"])
    return GroupReply(**known)


GROUP_FIELDS = tuple(GroupReply.__slots__)
# One entry per rollout, or per rollout of `second_group`.
COLUMNS = ("rewards", "keep", "valid", "answers", "answer_spans", "advantages", "token_mask")
SECOND = ("second_rewards", "second_advantages")
NUMBERS = frozenset({"rewards", "advantages", *SECOND})
NESTED = ("answer_spans", "token_mask")


ASKED_FIELDS = ("answer_spans", "advantages", "select", "drop", "second_rewards", "second_advantages")


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


# --- strict JSON ------------------------------------------------------------------------------------------------------

# A 64-bit integer has at most 20 characters. What is longer is no count, and float() of it may overflow.
LONGEST_INTEGER: Final = 20


def read_json(content: bytes | bytearray | str) -> Any:
    """The JSON value of `content`; ReplyError if there is none, or if a number of it is not finite."""
    try:
        text = content if isinstance(content, str) else content.decode("utf-8")
        return json.loads(text, parse_float=_float, parse_int=_int, parse_constant=_refuse)
    except RecursionError:
        raise ReplyError("the reply is nested too deeply") from None
    except ValueError as error:  # of JSON, and of UTF-8
        raise ReplyError(f"the reply is not JSON: {str(error)[:200]}") from None


def _float(text: str) -> float:
    if abs(value := float(text)) > sys.float_info.max:
        raise ValueError(f"{text[:20]} is not a finite number")
    return value


def _int(text: str) -> int:
    if len(text) > LONGEST_INTEGER:
        raise ValueError(f"an integer of {len(text)} digits")
    return int(text)


def _refuse(constant: str) -> Any:
    raise ValueError(f"{constant} is not a finite number")


# --- whether a reply answers what was asked ---------------------------------------------------------------------------


class CrossedReplyError(ReplyError):
    """The reply repeats another request's id."""


def check_fit(reply: Reply, head: JSON, groups: Sequence[JSON], *, request_id: str, output: str | None) -> None:
    """ReplyError unless `reply` is the full reply to what was asked: these groups, and what stands beside them.

    output   of the method, if it is known here
    """
    if reply.request_id != request_id:
        raise CrossedReplyError(
            f"the reply is for request {str(reply.request_id)[:64]!r}, we sent {request_id!r}: it belongs to "
            "somebody else, or a proxy on the way replaces the header X-Request-Id"
        )
    method = head["method"]
    if reply.method != method or reply.output != (output or reply.output):
        raise ReplyError(f"the reply has {reply.output} of {reply.method[:64]!r}, we asked for {method!r}")
    if [g.group_id for g in reply.groups] != [g.get("group_id", str(p)) for p, g in enumerate(groups)]:
        raise ReplyError(f"the reply is for other groups than the {len(groups)} that were sent")
    wanted = {reply.output, *(["advantages"] if "advantage" in head else [])}
    for group, sent in zip(reply.groups, groups, strict=True):
        if group.error is None:
            if group.method not in {None, method, "gt" if head.get("labelled") == "gt" else None}:
                raise ReplyError(f"group {group.group_id!r} was scored by {str(group.method)[:64]!r}")
            _check_group(group, sent, wanted)


def _check_group(group: GroupReply, sent: JSON, wanted: set[str]) -> None:
    """What a training reads is there, of as many rollouts as were sent, and consists of numbers."""
    rollouts, name_of = sent["rollouts"], f"group {group.group_id!r}"
    for name in (*COLUMNS, *SECOND):
        values = getattr(group, name)
        size = len(sent.get("second_group") or ()) if name in SECOND else len(rollouts)
        if values is None:
            if name in wanted or (name == "second_advantages" and group.second_rewards and "advantages" in wanted):
                raise ReplyError(f"{name_of}: no {name}")
        elif not isinstance(values, tuple):
            raise ReplyError(f"{name_of}: {name} is not a list")
        elif len(values) != size:
            raise ReplyError(f"{name_of}: {len(values)} {name} for {size} rollouts")
        elif name in NUMBERS and not {*map(type, values)} <= {int, float, NoneType}:
            raise ReplyError(f"{name_of}: {name} are not numbers")
    if None in (group.rewards or ()):
        raise ReplyError(f"{name_of}: no reward for a rollout")
    chosen = None if group.select is None else frozenset(group.select)
    for i, (advantage, rollout) in enumerate(zip(group.advantages or (), rollouts, strict=False)):
        if advantage is None and (rollout.get("trained", True) if chosen is None else i in chosen):
            raise ReplyError(f"{name_of}: no advantage for a rollout that is trained on")


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
