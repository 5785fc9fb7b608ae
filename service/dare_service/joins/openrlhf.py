"""OpenRLHF's remote reward model for whom nothing is installed: one rollout a post, or a whole step; votes only.

    {"query": [str], "prompts": [str], "labels": [any]}
    {"rewards": [float], "scores": [float], "extra_logs": {key: [float]}}

The reply's lists are as long as `query`, always floats, always of the same keys. Other keys of the body are ignored,
with one line in the log: the body is OpenRLHF's to extend. What the reply means is said in `dare_reward.openrlhf`.
"""

from __future__ import annotations

import asyncio
import json
import logging
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from functools import partial
from hashlib import blake2b
from typing import Any, Final

from fastapi import Request, Response
from pydantic_core import to_json

from dare_reward.errors import RequestError
from dare_reward.membership import FormedGroup, Member, gather
from dare_reward.methods import find, scale_unseen
from dare_reward.openrlhf import NOTHING, SCALE, Label, RolloutOutcome, evaluation, keys_of, late, neutral, outcomes
from dare_reward.openrlhf.url import INSTALL, RunSettings
from dare_reward.reply import GroupReply
from dare_reward.scoring.request import Effort
from dare_reward.scoring.score import LABEL_CONFLICT, score

from ..body import INLINE_BYTES, Watch, Workers, address, query_string, recorded, unless_gone
from ..json_body import check_json, read_json
from ..log import Runs, logger
from ..metrics import Metrics
from ..problems import EXCHANGE, RefusalError
from ..run_recorder import RunRecorder
from ..settings import Settings
from .join import Held, Join, JoiningGroup
from .response import response_of
from .url_options import run_of, size_of_group

OFF: Final = (
    "this service joins no single rollouts (DARE_JOIN=off, or it is run by another server than `dare-reward serve`): "
    "groups spread over several processes never fill. Post whole groups, or single rollouts to a service of one process"
)
KEYS: Final = frozenset({"query", "prompts", "labels"})
ONE_ROLLOUT: Final = 256 << 10  # what is longer is read in the threads of whole steps
LABEL: Final = json.JSONEncoder(sort_keys=True)


@dataclass(frozen=True, slots=True)
class PostedRollout:
    """One rollout of a body, ready to be scored.

    prompt    a digest: what siblings share. Never a label
    content   a digest, equal for a retry
    entry     as in `POST /reward`; `asked` is the prompt, for a run log that wants it
    """

    prompt: str
    content: bytes
    label: Label
    entry: Mapping[str, Any]
    found: bool
    asked: str | None


@dataclass(frozen=True, slots=True)
class Question:
    """A body that was read, or a group that was joined: how to score, what, and whether run log and page are told."""

    run: RunSettings
    name: str
    rollouts: Sequence[PostedRollout]
    recorded: bool


class OpenRLHF:
    """The route's state: the groups that form."""

    def __init__(
        self, settings: Settings, *, metrics: Metrics, workers: Workers, runs: Runs, recorder: RunRecorder
    ) -> None:
        self._settings, self._metrics, self._workers = settings, metrics, workers
        self._runs, self._recorder = runs, recorder
        hold, deadline, memory = settings.join_hold, settings.join_deadline, settings.join_memory
        self.join = Join(self._score, hold=hold, deadline=deadline, memory=memory)
        metrics.join_waiting.set_function(lambda: self.join.waiting)
        metrics.join_open.set_function(lambda: len(self.join.open))
        metrics.join_bytes.set_function(lambda: self.join.bytes)

    async def read(self, request: Request, body: bytearray) -> Question:
        """The rollouts of a body, of which nothing is kept. One short rollout is read at once, all else in a thread."""

        def work(watch: Watch) -> tuple[list[PostedRollout], list[str]]:
            rows, unknown = short or _rows(body, self._settings)
            found = []
            for i, row in enumerate(rows):
                watch()
                found.append(self._rollout(asked, i, *row))
            return found, unknown

        with self._log_refusals(request) as host:
            asked = run_of(query_string(request), self._settings)
            short = _rows(body, self._settings) if len(body) <= INLINE_BYTES else None
            if short is not None and len(short[0]) == 1:
                rollouts, unknown = [self._rollout(asked, 0, *short[0][0])], short[1]
            else:
                workers = self._workers.joins if len(body) <= ONE_ROLLOUT else self._workers.groups
                rollouts, unknown = await unless_gone(workers, work, request)
        name = asked.run or host
        self._notice(name, asked, rollouts, unknown)
        request.scope["state"]["notes"].update(run=name, rollouts=len(rollouts))
        return Question(asked, name, rollouts, recorded(request))

    async def answer(self, request: Request, question: Question) -> Response:
        """The reply, when it is known."""

        def work(watch: Watch) -> bytes:
            return _dump(question.run, self._outcomes(question, Effort(self._settings.limits.steps, watch)))

        with self._log_refusals(request):
            if len(question.rollouts) == 1 and question.rollouts[0].label.split == "train":
                content = await self._joined(request, question, question.rollouts[0])
            else:
                content = await unless_gone(self._workers.groups, work, request)
        return Response(content, media_type="application/json")

    @contextmanager
    def _log_refusals(self, request: Request) -> Iterator[str]:
        """The client logs no more of a refusal than its reason phrase, which a proxy may drop. Yields who it is."""
        host = f"@{request.client.host if request.client else ''}"
        try:
            yield host
        except RequestError as error:
            self._runs.say(host, f"refused {error.code}", str(error))
            raise

    # --- reading -----------------------------------------------------------------------------------------------------

    def _rollout(self, asked: RunSettings, i: int, query: str, prompt: str, value: Any) -> PostedRollout:
        limits, logged = self._settings.limits, self._recorder.asked
        limits.check("text", len(prompt), ("prompts", i))
        with suppress(RecursionError):  # a label as deep as that means nothing
            limits.check("text", len(value if isinstance(value, str) else LABEL.encode(value)), ("labels", i))
        label = asked.rules.label(value, policy=asked.label_policy)
        text, found = response_of(query, prompt, self._settings.max_text)  # the answer stands at the end
        entry = {"answer": asked.rules.read({"text": text, "prompt": prompt}, label)}
        entry |= {"text": text} if "texts" in logged else {}
        name, content = (blake2b(t.encode("utf-8", "surrogatepass"), digest_size=16) for t in (prompt, query))
        kept = prompt if "prompt" in logged else None
        return PostedRollout(name.hexdigest(), content.digest(), label, entry, found, kept)

    def _notice(self, name: str, asked: RunSettings, rollouts: Sequence[PostedRollout], unknown: Sequence[str]) -> None:
        """What the log says once in a run: a run does not end of it, and the reply has no place for it."""
        say = partial(self._runs.say, name)
        if unknown:
            say("unknown_keys", "keys of the body that this version does not know were ignored", keys=list(unknown))
        if problems := [r.label.problem for r in rollouts if r.label.problem]:
            self._metrics.ignored_labels.inc(len(problems))
            say("label_ignored", f"a label means nothing, and its rollouts train without one: {problems[0]}")
        if not all(r.found for r in rollouts):
            say("prompt_not_found", "a query does not hold its prompt; its last turn was read instead")
        method = find(asked.method)
        if words := scale_unseen(method, consumer="OpenRLHF", remedy=SCALE):
            say("centre_only", words)
        if "mean_entropy" in method.requires:
            why = f"without entropies {asked.method} goes by vote shares (missing_entropy=frequency)"
            say("entropy_source=none", why)

    # --- one rollout -------------------------------------------------------------------------------------------------

    def connection(self, request: Request) -> Any:
        """What tells of its end, to a rollout that comes alone; RefusalError 503 where none is joined."""
        if (found := request.scope.get("extensions", {}).get(EXCHANGE)) is None or self._settings.join == "off":
            raise RefusalError(503, OFF, code="workers")
        return found

    async def _joined(self, request: Request, question: Question, rollout: PostedRollout) -> bytes:
        """The reply to a rollout that comes alone, when its siblings are there."""
        client = self.connection(request)
        size = size_of_group(question.run, self._settings, partial(address, request))
        request.scope["state"]["notes"]["joined"] = True
        kept = (rollout.entry["answer"], rollout.entry.get("text"), rollout.asked, rollout.label.answer)
        weight = sum(len(str(said)) for said in kept)
        key, content = (question.run.said, rollout.prompt), rollout.content
        try:
            return await self.join.reply(key, size, content, question, weight=weight, client=client)
        except Held as held:  # with the likeliest reason
            why = f"{held}; come back. Unless generation is that slow, group_size is not --rollout.n_samples_per_prompt"
            self._runs.warn(question.name, "group_unfilled", why)
            raise RefusalError(503, why, code="held", headers={"Retry-After": "1"}) from None

    async def _score(self, group: JoiningGroup) -> tuple[list[bytes], bytes]:
        """A reply for each member of a group that closed, and what comes too late."""
        posted: list[Question] = [member.rollout for member in group.members]
        count, now, name = len(posted), asyncio.get_running_loop().time(), posted[0].name
        end = "full" if count == group.size else "partial" if 2 * count > group.size else "neutral"
        waits = [now - member.came for member in group.members]
        if group.repeated:
            why = (
                f"a prompt filled two groups of group_size={group.size} in one step: two jobs have the same run= and "
                "get each other's votes; or group_size is less than --rollout.n_samples_per_prompt; or the data holds "
                "the prompt twice"
            )
            self._runs.warn(name, "prompt_repeated", why)
        self._metrics.join_groups.labels(end).inc()
        rollouts = [question.rollouts[0] for question in posted]
        question = replace(posted[0], rollouts=rollouts, recorded=all(q.recorded for q in posted) and end != "neutral")

        def work() -> tuple[list[bytes], bytes]:
            found = self._outcomes(question, Effort(), {"repeated": float(group.repeated), "wait_seconds": waits})
            return [_dump(question.run, [o]) for o in found], _dump(question.run, [late(found)])

        begun = time.perf_counter()
        replies = await asyncio.get_running_loop().run_in_executor(self._workers.joins, work)
        level = logging.INFO if end == "full" else logging.WARNING
        if logger.isEnabledFor(level):  # one line for the group, instead of one for each rollout
            said = {"run": name, "rollouts": count, "group_size": group.size, "end": end}
            said |= {"waited_s": round(max(waits), 3), "ms": round(1e3 * (time.perf_counter() - begun), 3)}
            logger.log(level, "group", extra={"fields": said})
        return replies

    # --- scoring -----------------------------------------------------------------------------------------------------

    def _outcomes(self, question: Question, effort: Effort, known: Mapping[str, Any] = NOTHING) -> list[RolloutOutcome]:
        """What each rollout gets: accuracy in an evaluation, else its share of a group, whose members are those with
        the same prompt, wherever they stand. A group that is refused gets equal rewards: no run ends over it. `known`
        is what the join knows for the log.
        """
        asked, rollouts, limits = question.run, question.rollouts, self._settings.limits
        out, members = dict[int, RolloutOutcome](), []
        for i, rollout in enumerate(rollouts):
            if rollout.label.split == "eval":
                out[i] = evaluation(asked.rules, rollout.entry, rollout.label, route="url", shadow=asked.shadow)
                effort.check(("query", i))
            else:
                said = asked.rules.group(rollout.label)
                members.append(Member(i, None, rollout.prompt, size=asked.group_size, content=rollout.content, **said))
        agreed = []
        for group in gather(members, rules=asked.rules.comparing, after_each=partial(effort.check, ("labels",))):
            if group.label_conflict:
                self._runs.warn(question.name, "label_conflict", LABEL_CONFLICT.message)
            if group.refusal is None:
                agreed.append(group)
            else:
                why = f"{group.refusal.message}; until then the group's rewards are equal"
                self._runs.warn(question.name, group.refusal.code, why)
                out |= _rewarded(asked, group, None, known)
        for at in range(0, len(agreed), limits.groups):
            part = agreed[at : at + limits.groups]
            bodies = [_body(group, [rollouts[i] for i in group.items], place) for place, group in enumerate(part, at)]
            scored = score(bodies, asked.params, method=asked.method, limits=limits, shadow=asked.shadow, effort=effort)
            self._metrics.observe_groups(scored.reply)
            if question.recorded:
                self._recorder.record(scored, bodies, run=question.name, step=None)
            for group, reply in zip(part, scored.reply.groups, strict=True):
                out |= _rewarded(asked, group, reply, known)
        return [out[i] for i in range(len(rollouts))]


def _rows(body: bytearray, settings: Settings) -> tuple[list[tuple[str, str, Any]], list[str]]:
    """Query, prompt and label of each rollout, and the keys that are ignored."""
    check_json(body, settings.max_request_memory)
    content = read_json(body)
    if not isinstance(content, dict) or "query" not in content or "prompts" not in content:
        raise RequestError("must be an object with the lists query, prompts and labels", code="type")
    queries = content["query"]
    labels = content.get("labels", [None] * len(queries) if isinstance(queries, list) else [])
    columns = {"query": queries, "prompts": content["prompts"], "labels": labels}
    for key, values in columns.items():
        if not isinstance(values, list):
            raise RequestError("must be a list", loc=(key,), code="type")
        if len(values) != len(queries):
            raise RequestError(f"{len(values)} entries for {len(queries)} queries", loc=(key,), code="length")
        for i, value in enumerate(values if key != "labels" else ()):
            if not isinstance(value, str):
                raise RequestError("must be a string", loc=(key, i), code="type")
    settings.limits.check("total", len(queries), ("query",))
    return list(zip(*columns.values(), strict=True)), sorted(key[:64] for key in content.keys() - KEYS)[:8]


def _body(group: FormedGroup[int], own: Sequence[PostedRollout], place: int) -> dict[str, Any]:
    """A group of `POST /reward`."""
    name, entries = own[0].prompt, [rollout.entry for rollout in own]
    named = {"group_id": f"{name}-{place}" if group.repeated else name, "prompt": own[0].asked}
    return {**named, **group.fields(), "rollouts": entries}


def _rewarded(
    asked: RunSettings, group: FormedGroup[int], reply: GroupReply | None, known: Mapping[str, Any]
) -> dict[int, RolloutOutcome]:
    """The outcome of each of a group's rollouts, by its place; equal rewards without a reply, and where a method is
    made of labels that are not there: a label never ends a run."""
    known = {name: [v[i] for i in group.items] if isinstance(v, Sequence) else v for name, v in known.items()}
    known |= {"repeated": 1.0} if group.repeated else {}
    error, count = None if reply is None else reply.error, len(group.items)
    unlabelled = error is not None and error.code in {"label_conflict", "missing_input"}
    if reply is None or (unlabelled and "label" in find(asked.method).requires):
        found = neutral(count, votes=count, route="url", shadow=asked.shadow, known=known)
    elif error is not None:
        hint = f"; {INSTALL}, with entropies" if error.code == "missing_entropy" else ""
        raise RequestError(error.message + hint, loc=("query",), code=error.code)
    else:
        pruned = asked.params.get("pruned", "zero")
        found = outcomes(reply, route="url", pruned=pruned, shadow=asked.shadow, known=known)
    return dict(zip(group.items, found, strict=True))


def _dump(asked: RunSettings, found: Sequence[RolloutOutcome]) -> bytes:
    out: dict[str, Any] = {"rewards": [o.reward for o in found], "scores": [o.score for o in found]}
    if asked.extra_logs == "on":
        names = found[0].logs if found else keys_of("url", asked.shadow)
        out["extra_logs"] = {name: [o.logs[name] for o in found] for name in names}
    return to_json(out)
