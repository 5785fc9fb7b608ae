"""A grouped request, from its body's bytes to the reply's: what `POST /reward` runs on a thread."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from functools import partial
from typing import Any

import orjson

from dare_reward import Reply
from dare_reward.answers import ANSWERS_VERSION
from dare_reward.errors import RequestError, unknown_name
from dare_reward.methods import find, specs, with_defaults
from dare_reward.options import BODY
from dare_reward.scoring.request import Effort
from dare_reward.scoring.score import score
from dare_reward.scoring.update import AS_THEY_ARE, Update
from dare_reward.wire import unpack

from .body import Form
from .json_body import check_frame, check_json, read_json
from .run_recorder import RunRecorder
from .settings import Settings

URL_KEYS = ("detail", "token", *BODY)
# What a body holds beside the settings of a run, and the one of these that is no single value.
KINDS: Mapping[str, tuple[Any, str]] = {
    "groups": (list, "a list"),
    "shadow": (list, "a list"),
    "params": (dict, "an object"),
    "meta": (dict, "an object"),
    "answers_version": (str | None, "a string or null"),
}
REQUEST_KEYS = frozenset({*BODY, *KINDS})


@dataclass(frozen=True, slots=True)
class ScoredRequest:
    content: bytes
    reply: Reply
    decode_ms: float
    estimate_ms: float
    notes: Mapping[str, Any]


@dataclass(frozen=True, slots=True, eq=False)
class ReceivedRequest:
    """A request as it came: body and its form, and the URL's query.

    recorded   run log and page are told of it
    key        what a repetition of the request has too
    """

    body: bytearray
    form: Form
    query: Mapping[str, str]
    request_id: str
    recorded: bool = True
    key: str = ""


def score_request(
    settings: Settings, recorder: RunRecorder, call: ReceivedRequest, watch: Callable[[], None]
) -> ScoredRequest:
    """The reply's bytes: all in one go, so that only the requests in work are held decoded."""
    begun = time.perf_counter()
    content, columns = _read_body(settings, call, watch)
    (place, asked), limits = _configuration(settings, content, call.query), settings.limits
    decoded = time.perf_counter()
    found = score(content["groups"], columns=columns, limits=limits, effort=Effort(limits.steps, watch), **asked)
    reply, detail = found.reply, call.query.get("detail", "full")
    content_of = reply.to_json(detail=detail) | {"request_id": call.request_id}
    if content.get("answers_version") not in {None, ANSWERS_VERSION} and "flags" in content_of:
        content_of["flags"] = (*reply.flags, "answers_version")
    encoded = list(map(_dump, content_of["groups"]))  # one by one: other threads run between two of them
    out = _dump(content_of | {"groups": list(map(orjson.Fragment, encoded))})
    notes: dict[str, Any] = {k: v for k, v in place.items() if v is not None}
    notes |= {"groups": len(reply.groups), "rollouts": reply.diagnostics["rollouts"], "reward_method": asked["method"]}
    if call.recorded:
        kept = encoded if detail == "full" else None
        recorder.record(found, content["groups"], **place, encoded=kept, key=call.key)
    return ScoredRequest(out, reply, 1e3 * (decoded - begun), 1e3 * (time.perf_counter() - decoded), notes)


def _read_body(
    settings: Settings, call: ReceivedRequest, watch: Callable[[], None]
) -> tuple[dict[str, Any], Mapping[str, Any]]:
    """The request that a body holds, and the tensors that came with it."""
    columns: Mapping[str, Any] = {}
    text: bytes | bytearray = call.body
    budget = settings.max_request_memory
    if call.form.name == "frame":
        check_frame(call.body, budget)
        frame = unpack(call.body)
        text, columns = frame.request, frame.columns
    check_json(text, budget)
    watch()
    return read_request(text), columns


def read_request(text: bytes | bytearray | memoryview) -> dict[str, Any]:
    """The request that a body holds, or an error that says what to send."""
    content = read_json(text)
    if not isinstance(content, dict):
        raise RequestError("the body must be an object", code="type")
    if "groups" not in content:
        raise RequestError(f"the body has no groups. {_meant(content.keys())}", loc=("groups",), code="missing")
    for name, value in content.items():
        if name not in REQUEST_KEYS:
            known = ", ".join(sorted(REQUEST_KEYS))
            raise RequestError(f"unknown field {name[:64]!r}. Known: {known}", code="unknown_field")
        if name in KINDS and not isinstance(value, KINDS[name][0]):
            raise RequestError(f"must be {KINDS[name][1]}", loc=(name,), code="type")
        if name in BODY:
            content[name] = BODY[name].check(value)
    return content


def _meant(keys: AbstractSet[str]) -> str:
    """What to send in the place of a body with these keys, which some other service would take."""
    if {"prompt", "response"} <= keys:
        return (
            "This is what slime's --rm-type remote_rm posts: one rollout, and a reward is a group's. Use "
            "--custom-rm-path dare_reward.stacks.slime.reward with --group-rm, see docs/stacks/slime.md"
        )
    if keys & {"completions", "responses", "texts"}:
        return 'Send each prompt as a group: {"groups": [{"prompt": "...", "rollouts": [{"text": COMPLETION}, ...]}]}'
    return 'Send {"groups": [{"rollouts": [{"answer": "4", "mean_entropy": 0.2}, ...]}]}, see docs/api.md'


# NaN and infinity are written as null; what is a mapping and no dictionary, as an object.
_dump = partial(orjson.dumps, default=dict, option=orjson.OPT_SERIALIZE_NUMPY)


def _configuration(
    settings: Settings, content: Mapping[str, Any], query: Mapping[str, str]
) -> tuple[Mapping[str, Any], Mapping[str, Any]]:
    """The request's run and step; and how `score` is asked: by what the URL says, else the body, else the server."""
    named = {name: content[name] for name in BODY if name in content}
    if query:
        named |= {name: spec.parse(query[name], loc=("query",)) for name, spec in BODY.items() if name in query}
    place = {name: named.pop(name, None) for name in ("run", "step")}
    asked: dict[str, Any] = {name: named.pop(name) for name in ("shadow", "seed", "labelled") if name in named}
    method = named.pop("method", settings.method)
    own = method == settings.method or find(method) is find(settings.method)
    params = dict(content.get("params", {}))
    if own and settings.default_params:
        params = with_defaults(settings.default_params, params, asked.get("seed"))
    written = {name: text for name, text in query.items() if name not in URL_KEYS}
    known = {s.name: s for s in specs(find(method), shadow=asked.get("shadow", ()))} if written else {}
    for name, text in written.items():
        if name not in known:
            message = unknown_name("parameter of the URL", name, [*URL_KEYS, *known], listed=True)
            raise RequestError(message, loc=("query",), code="unknown_parameter")
        params[name] = known[name].parse(text, loc=("query",))
    update = Update.of(named) if named else AS_THEY_ARE
    return place, {**asked, "method": method, "params": params, "update": update}
