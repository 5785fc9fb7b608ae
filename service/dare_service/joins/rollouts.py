"""`POST /v1/rollouts`: the explicit join, for any stack that scores one rollout a call.

    {"run": "exp1", "group_id": "aime-7/step-12", "group_size": 64, "index": 3,
     "rollout": {"text": "... \\boxed{204}", "mean_entropy": 0.21}}

The rollout is one of `POST /reward`; method and parameters stand in the query. (run, group_id, index) names it: the
same content again is a retry and gets the same reply, other content is 409. The reply comes when all indices have
arrived; after the hold it is 504 and names the missing ones, or 503 if there are none. The rollout keeps its place. All
members of a group have one configuration: one that differs is 409, and names what differs.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from fastapi import Request, Response
from pydantic_core import from_json, to_json

from dare_reward.answers.effort import Effort
from dare_reward.answers.rollouts import READING, read_answers
from dare_reward.errors import RequestError
from dare_reward.reply import GroupReply
from dare_reward.scoring.request import Limits, read_numbers
from dare_reward.scoring.score import score

from ..json_size import check_json
from ..problems import RefusalError
from ..request_url import query_string
from ..run_recorder import recorded
from ..settings import Settings
from ..workers import INLINE_BYTES, run
from .held_request import HeldError, waited
from .join import Scored
from .rendezvous import Arrival, Conflict, Differs, JoiningGroup
from .route import JoinRoute
from .url_options import Configuration, differences, explicit

FIELDS = ("run", "group_id", "group_size", "index", "rollout")
NAMED = 20  # missing indices in an error


@dataclass(frozen=True, slots=True)
class ReducedRollout:
    """What scoring needs of a rollout, and whether run log and page are told."""

    rollout: dict[str, Any]
    recorded: bool


class Rollouts(JoinRoute):
    """The route's state."""

    async def read(self, request: Request, body: bytes | bytearray) -> Arrival:
        """The body, checked and reduced to what scoring needs."""
        if self._refusal:
            raise RefusalError(503, self._refusal, code="workers")
        config = explicit(query_string(request), self._settings)
        work = partial(_arrival, body, config, self._settings, recorded=recorded(request))
        arrival = work() if len(body) <= INLINE_BYTES else await run(self._workers.joins, work)
        request.scope["state"]["notes"].update(run=arrival.origin, joined=True)
        return arrival

    async def answer(self, request: Request, arrival: Arrival) -> Response:
        try:
            content = await waited(self.join, arrival, request, hold=self._settings.rollouts_hold)
        except Differs as error:
            names = ", ".join(differences(error.had, error.has))
            detail = f"this request differs from an earlier one of its group in {names}"
            raise RefusalError(409, f"{detail}; all members have one configuration", code="conflict") from None
        except Conflict as error:
            advice = "every group needs a group_id of its own, for example with the step in it"
            raise RefusalError(409, f"{error}; {advice}", code="conflict") from None
        except HeldError as refusal:
            raise _incomplete(refusal, self._settings.rollouts_hold) from None
        return Response(content, media_type="application/json")

    async def _score(self, group: JoiningGroup) -> Scored[bytes]:
        return await run(self._workers.joins, partial(self._scored, group))

    def _scored(self, group: JoiningGroup) -> Scored[bytes]:
        config: Configuration = group.terms
        run_name, group_id = group.key
        waiting: list[ReducedRollout] = [slot.arrival.rollout for slot in group.slots]
        body = {**_shell(config), "group_id": group_id, "rollouts": [r.rollout for r in waiting]}
        limits = self._settings.limits
        found = score(
            [body],
            dict(config.params),
            method=config.method,
            limits=limits,
            shadow=config.shadow,
            effort=Effort(),
        )
        reply = found.reply
        self._metrics.observe_groups(reply)
        if all(r.recorded for r in waiting):
            self._recorder.scored(found, [body], run=run_name, step=None)
        return Scored([to_json(content) for content in _replies(reply.groups[0], reply.flags)])


def _arrival(body: bytes | bytearray, config: Configuration, settings: Settings, *, recorded: bool) -> Arrival:
    limits = settings.limits
    check_json(body, settings.max_request_memory)
    content = _content(body)
    size, index = content["group_size"], content["index"]
    if not 1 <= size <= limits.rollouts:
        raise RequestError(f"must be 1 to {limits.rollouts} (DARE_MAX_ROLLOUTS)", loc=("group_size",), code="value")
    if not 0 <= index < size:
        raise RequestError(f"must be 0 to group_size - 1, {size - 1}", loc=("index",), code="value")
    identity = hashlib.blake2b(repr(content["rollout"]).encode("utf-8", "surrogatepass"), digest_size=16).digest()
    rollout = _reduced(content["rollout"], config, limits)
    if "texts" in settings.logged_texts and isinstance(text := content["rollout"].get("text"), str):
        rollout["text"] = text  # the answer is given beside it, and wins
    return Arrival(
        key=(content["run"], content["group_id"]),
        size=size,
        identity=identity,
        rollout=ReducedRollout(rollout, recorded),
        index=index,
        origin=content["run"],
        terms=config,
        weight=len(rollout["answer"] or "") + len(rollout.get("text", "")),
    )


def _content(body: bytes | bytearray) -> dict[str, Any]:
    try:
        content = from_json(body, allow_inf_nan=False)
    except ValueError as error:
        raise RefusalError(400, f"not JSON: {error}", code="json") from None
    if not isinstance(content, dict):
        raise RequestError("must be an object", code="type")
    if unknown := content.keys() - set(FIELDS):
        raise RequestError(f"unknown field {min(unknown)[:64]!r}. Known: {', '.join(FIELDS)}", code="unknown_field")
    if missing := [name for name in FIELDS if name not in content]:
        raise RequestError(f"missing: {', '.join(missing)}", code="missing")
    for name in ("run", "group_id"):
        if not isinstance(content[name], str) or not 1 <= len(content[name]) <= 256:
            raise RequestError("must be a string of 1 to 256 characters", loc=(name,), code="type")
    for name in ("group_size", "index"):
        if type(content[name]) is not int:
            raise RequestError("must be an integer", loc=(name,), code="type")
    return content


def _reduced(rollout: Any, config: Configuration, limits: Limits) -> dict[str, Any]:
    """Answer, mean entropy and number of tokens; texts and token arrays are not kept while siblings are awaited."""
    try:
        shell = {**_shell(config), "rollouts": [rollout]}
        (numbers,) = read_numbers(shell, ("mean_entropy", "num_tokens"), limits=limits)
    except RequestError as error:
        loc = error.loc[4:] if error.loc[:1] == ("groups",) else error.loc
        raise type(error)(error.message, loc=("rollout", *loc), code=error.code) from None
    if "num_tokens" in numbers:
        numbers["num_tokens"] = int(numbers["num_tokens"])
    reading = {k: v for k, v in config.params if k in READING}
    silent = numbers.get("num_tokens") == 0
    (answer,) = read_answers([rollout], [silent], kind=config.kind, options=config.options, **reading)
    return {"answer": answer.answer, **numbers}


def _shell(config: Configuration) -> dict[str, Any]:
    options = None if config.options is None else list(config.options)
    return {
        "kind": config.kind,
        "options": options,
        "entropy_source": config.entropy_source,
        "entropy_mode": config.entropy_mode,
    }


def _replies(group: GroupReply, of_request: Sequence[str]) -> list[dict[str, Any]]:
    if group.error is not None:
        raise RequestError(group.error.message, loc=("group",), code=group.error.code)
    columns: Mapping[str, Sequence[Any]] = {
        "reward": group.rewards or (),
        "valid": group.valid or (),
        "keep": group.keep or (),
        "answer": group.answers or (),
    }
    rows = zip(*columns.values(), strict=True)
    told = group.diagnostics or {}
    shared = {"flags": [*(group.flags or ()), *of_request], **({"shadow": told["shadow"]} if "shadow" in told else {})}
    return [{**dict(zip(columns, row, strict=True)), **shared} for row in rows]


def _incomplete(refusal: HeldError, hold: float) -> RefusalError:
    missing = refusal.group.missing
    if not missing:
        return refusal
    names = ", ".join(map(str, missing[:NAMED])) + (", ..." if len(missing) > NAMED else "")
    return RefusalError(
        504,
        f"{len(missing)} of {refusal.group.size} rollouts have not arrived within {hold:g} s, indices {names}; "
        "this one keeps its place, post it again",
        code="incomplete",
    )
