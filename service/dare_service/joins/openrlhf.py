"""OpenRLHF's remote reward model, by URL: bodies in, groups formed, rewards out.

The body (every release; one rollout a request since 0.9.1, a whole step before):

    {"query": [str], "prompts": [str], "labels": [any]}

Beside these lists, of the same length, may stand what a plugin inside the rollout actor knows:

    "group_key":      [str]           one per call of generate_responses, new for every group; then siblings are known
                                      by it instead of by their prompt, and each carries its
    "index":          [int]           place in the group, 0 to group_size - 1; both or neither
    "mean_entropy":   [float | null]  mean token entropy of the response in nats
    "num_tokens":     [int | null]    number of generated tokens; 0: no answer
    "finish_reason":  [str | null]    "length": cut off, see the parameter `truncated`
    "entropy_source": [str]           exact (default), topk or logprob
    "entropy_mode":   [str]           temperature, raw or unknown (default)

A request may carry one of them without the others. Other keys are ignored, with one line in the log: the body is
OpenRLHF's to extend. The reply, for one rollout and for many:

    {"rewards": [float], "scores": [float], "extra_logs": {key: [float]}}

always lists as long as `query`, always floats, always the same keys. What they mean is said in `dare_reward.openrlhf`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from fastapi import Request, Response
from pydantic_core import to_json

from dare_reward.answers.classes import listed
from dare_reward.answers.effort import Effort
from dare_reward.errors import RequestError
from dare_reward.membership import FormedGroup
from dare_reward.methods import find, scale_unseen
from dare_reward.openrlhf import SCALE, Known, RolloutOutcome, late
from dare_reward.scoring.score import LABEL_CONFLICT, ScoredGroups

from ..problems import RefusalError
from ..request_url import address, query_string
from ..run_recorder import recorded
from ..workers import INLINE_BYTES, Watch, run, unless_gone
from .held_request import HeldError, waited
from .join import Scored
from .openrlhf_body import BodyRollout, OpenRLHFBody, read_body, read_members
from .openrlhf_reply import evaluate, groups_of, reply, rules_of, score_groups
from .rendezvous import Arrival, Conflict, JoiningGroup
from .route import JoinRoute
from .url_options import RUN, TRIES, Configuration, openrlhf, pasteable

ONE_ROLLOUT = 256 << 10  # what is longer is read in the threads of whole steps


@dataclass(frozen=True, slots=True)
class WaitingRollout:
    """A rollout that came alone; `phase` is the run's when it came (`run_notices.py`)."""

    config: Configuration
    run: str
    member: BodyRollout
    phase: int
    recorded: bool


@dataclass(frozen=True, slots=True)
class Question:
    """A body that was read: who asks, how to score, what, and whether run log and page are told."""

    config: Configuration
    run: str
    address: str
    members: Sequence[BodyRollout]
    recorded: bool


class OpenRLHF(JoinRoute):
    """The route's state: the groups that form, and what is known of the runs."""

    async def read(self, request: Request, body: bytes | bytearray) -> Question:
        """The body as members of groups; nothing of it is kept."""
        address = request.client.host if request.client else ""
        with self._log_refusals(address):
            config = openrlhf(query_string(request), self._settings)
            run = config.run or f"@{address}"
            members, columns = await self._members(request, body, config)
            if columns.unknown:
                self._runs.say(
                    run,
                    "unknown_keys",
                    "keys of the body that this version does not know were ignored",
                    keys=columns.unknown,
                )
        if not all(m.found for m in members):
            self._runs.say(run, "prompt_not_found", "a query does not hold its prompt; its last turn was read instead")
        self._note_labels(run, members)
        request.scope["state"]["notes"].update(run=run, rollouts=len(members))
        return Question(config, run, address, members, recorded(request))

    @contextmanager
    def _log_refusals(self, address: str) -> Iterator[None]:
        """The client logs no more of a refusal than its reason phrase, which a proxy may drop."""
        try:
            yield
        except Conflict as error:
            self._runs.say(f"@{address}", "refused conflict", str(error))
            raise RefusalError(409, str(error), code="conflict") from None
        except RequestError as error:
            self._runs.say(f"@{address}", f"refused {error.code}", str(error))
            raise

    async def _members(
        self, request: Request, body: bytes | bytearray, config: Configuration
    ) -> tuple[list[BodyRollout], OpenRLHFBody]:
        """One short rollout is read at once; all else beside the loop, in the threads of what it will be."""
        settings, logged = self._settings, self._settings.logged_texts
        read = partial(read_body, body, settings.limits, settings.max_request_memory)
        how = rules_of(config), config.label_policy, settings.max_text

        def work(watch: Watch) -> tuple[list[BodyRollout], OpenRLHFBody]:
            columns = read()
            return read_members(columns, *how, watch, logged=logged), columns

        if len(body) <= INLINE_BYTES and len((short := read()).query) == 1:
            return read_members(short, *how, logged=logged), short
        workers = self._workers.joins if len(body) <= ONE_ROLLOUT else self._workers.groups
        return await unless_gone(workers, work, request.receive)

    async def answer(self, request: Request, question: Question) -> Response:
        """The reply, when it is known."""
        with self._log_refusals(question.address):
            if len(question.members) == 1 and question.members[0].label.split == "train":
                content = await self._joined(request, question, question.members[0])
            else:
                content = await self._batch(request, question)
        warning = self._runs.warning(question.run)
        return Response(content, media_type="application/json", headers={"Dare-Warning": warning} if warning else None)

    def _note_labels(self, run: str, members: Sequence[BodyRollout]) -> None:
        """Labels that mean nothing; a run does not end of them."""
        if problems := [m.label.problem for m in members if m.label.problem]:
            self._metrics.ignored_labels.inc(len(problems))
            why = f"a label means nothing, and its rollouts train without one: {problems[0]}"
            self._runs.say(run, "label_ignored", why)

    async def _batch(self, request: Request, question: Question) -> bytes:
        """A whole step, or nothing: siblings are those with one key or prompt, wherever they stand."""
        config, members, limits = question.config, question.members, self._settings.limits

        def work(watch: Watch) -> tuple[bytes, bool, list[FormedGroup[int]]]:
            effort = Effort(limits.steps, watch)
            graded = [i for i, member in enumerate(members) if member.label.split == "eval"]
            out: dict[int, RolloutOutcome] = {}
            for i in graded:
                out[i] = evaluate(config, members[i])
                effort.check(("query", i))
            places = sorted(set(range(len(members))).difference(graded))
            groups = groups_of(config, members, places, effort, size=config.group_size)
            observe = partial(self._observe, question.run, None, logged=question.recorded)
            scored, entropies = score_groups(config, members, groups, limits, observe, effort=effort)
            out.update(scored)
            twins = {(members[i].group, members[i].index, members[i].identity): i for i in scored}
            for i in set(places).difference(scored):  # a copy of another
                out[i] = out[twins[members[i].group, members[i].index, members[i].identity]]
            return to_json(reply(config, [out[i] for i in range(len(members))])), entropies, groups

        content, entropies, groups = await unless_gone(self._workers.groups, work, request.receive)
        self._note_groups(question.run, groups)
        self._note_method(question.run, config, entropies)
        return content

    def _note_groups(self, run: str, groups: Sequence[FormedGroup[int]]) -> None:
        """What members of one group disagree about, by its name."""
        for group in groups:
            if group.refusal is not None:
                why = f"{group.refusal.message}; until then the group's rewards are equal"
                self._runs.warn(run, group.refusal.code, why)
            if group.label_conflict:
                self._runs.warn(run, "label_conflict", LABEL_CONFLICT.message)

    async def _joined(self, request: Request, question: Question, member: BodyRollout) -> bytes:
        """The reply to a rollout that comes alone, when its siblings are there."""
        config, run, address = question.config, question.run, question.address
        if self._refusal:
            raise RefusalError(503, self._refusal, code="workers")
        if (size := config.group_size) is None:
            raise _no_size(request)
        if member.index is not None and member.index >= size:
            raise RequestError(f"must be below group_size, {size}", loc=("index", 0), code="value")
        if not config.distinct and member.index is None and size > 1:
            raise _shared_name(config.run)
        request.scope["state"]["notes"]["joined"] = True
        with self._runs.live(run, address) as phase:
            arrival = Arrival(
                key=(run, config.text, member.group),
                size=size,
                identity=member.identity,
                rollout=WaitingRollout(config, run, member, phase, question.recorded),
                index=member.index,
                deadline=config.deadline,
                patience=TRIES,
                origin=address,
                min_share=config.min_share,
                weight=_weight(member),
            )
            try:
                return await waited(self.join, arrival, request, hold=self._settings.join_hold)
            except HeldError as refusal:
                raise self._unfilled(run, refusal) from None

    def _unfilled(self, run: str, refusal: HeldError) -> RefusalError:
        """The refusal with the likeliest reason why the group did not fill while its rollout was held."""
        group = refusal.group
        why = (
            f"a prompt has {len(group.slots)} of group_size={group.size} rollouts after "
            f"{self._settings.join_hold:g} s: unless the generation is that slow, group_size is not "
            "--rollout.n_samples_per_prompt"
        )
        self._runs.warn(run, "group_unfilled", why)
        return RefusalError(refusal.status, f"{refusal.detail}; {why}", code=refusal.code, headers=refusal.headers)

    async def _score(self, group: JoiningGroup) -> Scored[bytes]:
        rollouts: list[WaitingRollout] = [slot.arrival.rollout for slot in group.slots]
        config, run_name, phase = rollouts[0].config, rollouts[0].run, rollouts[0].phase
        waits = [group.closed_at - slot.arrived for slot in group.slots]
        known: Known = {"wait_seconds": waits, "repeated": float(self._repeated(group, rollouts[0]))}

        if group.fate == "neutral":
            config = replace(config, on_deadline="neutral")

        def work() -> tuple[Scored[bytes], bool, list[FormedGroup[int]]]:
            early = group.reason != "full"
            given = not (early and config.on_deadline == "neutral")
            wanted = all(rollout.recorded for rollout in rollouts)
            observe = partial(self._observe, run_name, phase, logged=given and wanted)
            members = [rollout.member for rollout in rollouts]
            effort = Effort()
            groups = groups_of(config, members, range(len(members)), effort, size=None)
            placed, entropies = score_groups(
                config, members, groups, self._settings.limits, observe, effort=effort, early=early, known=known
            )
            outcomes = [placed[i] for i in range(len(members))]
            replies = [to_json(reply(config, [outcome])) for outcome in outcomes]
            return Scored(replies, to_json(reply(config, [late(outcomes)]))), entropies, groups

        scored, entropies, groups = await run(self._workers.joins, work)
        self._note_groups(run_name, groups)
        self._note_method(run_name, config, entropies)
        return scored

    def _repeated(self, group: JoiningGroup, first: WaitingRollout) -> bool:
        """Whether the group's prompt filled another one in this step.

        Two jobs with one name, duplicates in the data and asynchronous generation send the same requests, so nothing
        can be refused. Of a prompt whose group two jobs filled, each has rollouts in a later group, which say so.
        """
        again = group.reason == "full" and self._runs.filled_again(first.run, first.member.group, first.phase)
        if again:
            self._runs.warn(
                first.run,
                "prompt_repeated",
                f"a prompt filled two groups of group_size={group.size} in one step: two jobs have the same run= and "
                "get each other's votes; or group_size is less than --rollout.n_samples_per_prompt; or the data holds "
                "the prompt twice",
            )
        return again

    def _observe(
        self,
        run_name: str,
        step: int | None,
        scored: ScoredGroups,
        bodies: Sequence[Mapping[str, Any]],
        *,
        logged: bool = True,
    ) -> None:
        """`logged`: the rewards are given to the rollouts, and no request asked to be left out."""
        self._metrics.observe_groups(scored.reply)
        if logged:
            self._recorder.record(scored, bodies, run=run_name, step=step)

    def _note_method(self, run_name: str, config: Configuration, entropies: bool) -> None:
        """What the method lacks or asks of the trainer: the reply has no place for flags."""
        if words := scale_unseen(find(config.method), consumer="OpenRLHF", remedy=SCALE):
            self._runs.say(run_name, "centre_only", words)
        if not entropies:
            why = f"without entropies {config.method} goes by vote shares (missing_entropy=frequency)"
            self._runs.say(run_name, "entropy_source=none", why)

    # --- what the join tells ------------------------------------------------------------------------------------------

    def closed(self, group: JoiningGroup) -> None:
        super().closed(group)
        first: WaitingRollout = group.slots[0].arrival.rollout
        config, run = first.config, first.run
        addresses = sorted({s.arrival.origin for s in group.slots})
        if len(addresses) > 1:
            self._metrics.join_addresses.labels("group").inc()
            self._runs.say(
                run,
                "mixed_group",
                "siblings come from one actor, these did not: two jobs share a run's name",
                addresses=addresses[:8],
            )
        if group.reason != "full":
            self._metrics.join_fates.labels(group.fate).inc()
            self._runs.line(
                run,
                f"join_{group.reason}",
                f"a group closed without all of its rollouts; on_deadline={config.on_deadline}",
                group=str(first.member.group)[:16],
                arrived=len(group.slots),
                group_size=group.size,
                fate=group.fate,
            )


def _weight(member: BodyRollout) -> int:
    """Bytes that a rollout holds while it waits, beside what every rollout does."""
    texts = (member.rollout["answer"], member.rollout.get("text"), *listed(member.label.answer), member.prompt)
    return sum(len(text or "") for text in texts)


def _shared_name(run: str) -> RequestError:
    """Two jobs on one machine with the same prompts would fill each other's groups, and nothing tells them apart."""
    what = "let run= in the URL end in what differs from job to job" if run else "add &run=NAME to the URL"
    why = "else the rollouts of two jobs would fill one group"
    return RequestError(f"{what}, such as run={RUN}: {why}", loc=("query", "run"), code="missing_parameter")


def _no_size(request: Request) -> RequestError:
    paste = pasteable(address(request), query_string(request), token="token" in request.scope["state"])
    return RequestError(
        "add group_size, the value of --rollout.n_samples_per_prompt (before 0.10.2: --n_samples_per_prompt): the "
        "rollouts of a prompt come one by one, and their number is unknown. For 8 the flag is "
        f'--reward.remote_url "{paste}" (before 0.10.2: --remote_rm_url)',
        loc=("query", "group_size"),
        code="missing_parameter",
    )
