"""What a prompt's group gets: from a service, or, while that is away, from the same estimator in this process.

Before the first rollout the service tells its defaults, and both sides score a group that is made up: a version or a
configuration that differs ends the run there. After that nothing here ends a run. A service that stays away, or comes
back as another one, is replaced by the next URL, and at last by this process, under the configuration of the start.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import math
import os
import secrets
import sys
import time
from collections import deque
from collections.abc import Mapping, Sequence
from functools import partial
from itertools import cycle
from typing import Any, Final

import numpy as np

from dare_reward import AsyncClient, Client, GroupReply, Reply, __version__, estimate
from dare_reward.errors import ConfigError, DareError, ReplyError, UnavailableError
from dare_reward.methods import config_id, find, scale_unseen, write_line
from dare_reward.openrlhf import NOTHING, SCALE, Known, Label, RolloutOutcome, evaluation, neutral, outcomes
from dare_reward.openrlhf.url import ActorSettings
from dare_reward.scoring.request import Limits
from dare_reward.votes import votes_suffice

from ..vllm import plugin
from ..vllm.token_entropy import SWITCH
from .collapse import RunWatch
from .rollout_reader import ReadRollout, RolloutReader, sampled_with
from .settings import RewardUrls, job_name
from .siblings import Siblings, together

logger = logging.getLogger("dare_trainer")

Group = Any  # a dictionary, as `POST /reward` takes it
Continuation = tuple[Any, ReadRollout]  # as the engine returns it, and read
TRY: Final = 30.0  # seconds; the settings bound all tries together
RETRIES: Final = 3
BOUNDLESS: Final = Limits(rollouts=sys.maxsize, text=sys.maxsize)  # what a service refuses is scored here
UNLOGGED: Final = 1024  # groups that wait for a service to write them into its run log
UNLOGGED_BYTES: Final = 256 << 20
TOKEN_BYTES: Final = 64  # of a token's id, entropy and log-probability as Python and NumPy hold them

# Four rollouts, two answers, and every number that a method may read.
MADE_UP: Final[Group] = {
    "group_id": "handshake",
    "kind": "exact",
    "rollouts": [
        {"answer": answer, "mean_entropy": entropy, "num_tokens": 10, "sum_logprob": -2.0, "answer_logprob": -0.5}
        | {"answer_entropy": entropy, "path": str(entropy)}
        for answer, entropy in (("7", 0.2), ("7", 0.3), ("7", 0.25), ("5", 0.4))
    ],
}


# --- before the first rollout ----------------------------------------------------------------------------------------


def service_info(services: Sequence[str], patience: float) -> Mapping[str, Any]:
    """What the first of the services that answers says of itself.

    ReplyError where it is another's, UnavailableError where nobody answers. Any vLLM of the environment loads this
    package, also where the reward is another server's: such a server gets no token, and may answer whatever it likes.
    """
    until, names = time.monotonic() + patience, cycle(services)
    while True:
        try:
            with Client(next(names), token="", timeout=10) as client:
                return client.info()
        except UnavailableError:
            if time.monotonic() > until:
                raise
        time.sleep(1)


def handshake(url: str, token: str, settings: ActorSettings) -> None:
    """ConfigError where the service would score otherwise than this process, which stands in for it in an outage. As
    `service_info` where there is none; another server is then sent neither the token nor a group."""
    service_info([url], settings.start_timeout)
    with Client(url, token=token or None, timeout=TRY, retries=RETRIES, record=False) as client:
        client.wait_ready(settings.start_timeout)
        there = client.reward([MADE_UP], **settings.request)
    here = config_id(settings.method, settings.params)
    if (there.config_id, there.version) != (here, __version__):
        raise ConfigError(
            f"{url} runs dare-reward {there.version} and scores by {there.config_id[:12]}; this process is "
            f"{__version__} and would stand in for it by {here[:12]}. Install the same version on both sides"
        )
    theirs, ours = there.groups[0], estimate([MADE_UP], **settings.request).groups[0]
    if not np.allclose(theirs.rewards or [math.nan], ours.rewards or [math.nan], 1e-9, 1e-12, equal_nan=True):
        raise ConfigError(f"{url} and this process score the same group as {theirs} and {ours}")


async def switch_entropies_on(actor: Any, settings: ActorSettings) -> None:
    """The plugin of the engine's workers, which started without it; PluginError says what to set by hand."""
    by_hand = os.environ.get(SWITCH)
    if settings.entropy != "plugin" or (by_hand and plugin.mode() is None):
        return
    if not by_hand:
        try:  # OpenRLHF allows vLLM to send functions to its workers (VLLM_ALLOW_INSECURE_SERIALIZATION)
            await actor.llm.collective_rpc(plugin.switch_on, args=(settings.entropy_mode,))
        except Exception as error:
            raise plugin.PluginError(
                f"vLLM's workers could not switch entropies on ({error}): set {SWITCH}={settings.entropy_mode} in the "
                "environment of the rollout actors; or put entropy=topk (estimates) or entropy=none (votes alone) into "
                "the reward URL"
            ) from error
    plugin.turn_on(settings.entropy_mode)  # refuses another mode than by hand


# --- the service, or this process ------------------------------------------------------------------------------------


class GroupScorer:
    """Scores groups by the services in turn, and in process where none is there."""

    def __init__(self, urls: RewardUrls, settings: ActorSettings, run: str) -> None:
        self._settings = settings
        self._options = settings.request
        self._pinned = (config_id(settings.method, settings.params), __version__)
        self._run = run
        client = partial(AsyncClient, token=urls.token or None, timeout=min(TRY, settings.timeout), retries=RETRIES)
        self._clients = deque(
            client(url, send_tokens=settings.send == "tokens", allow_change=True) for url in urls.services
        )
        self._watch = RunWatch() if settings.on_collapse == "warn" else None
        self._unlogged: deque[tuple[Group, str, int]] = deque()  # with the key of its first post, and its size
        self._logging: asyncio.Future[None] | None = None

    async def score(self, group: Group) -> tuple[GroupReply, float]:
        """The group's reply, and 1 where this process made it, else 0. Raises where not even this process can."""
        self._clients.rotate()
        key = secrets.token_hex(16)
        for client in list(self._clients):
            try:
                async with asyncio.timeout(self._settings.timeout):
                    reply: Reply = await client.reward([group], run=self._run, key=key, **self._options)
                found = self._seen(reply, self._pinned)
            except Exception as error:  # noqa: BLE001  (a training run does not die of its rewards)
                logger.warning("%s: group %s: %r", client.url, group["group_id"], error)
                continue
            if self._unlogged and (self._logging is None or self._logging.done()):
                self._logging = asyncio.ensure_future(self._post_missed(client))
            return found, 0.0
        self._keep_for_log(group, key)
        return self._seen(estimate([group], limits=BOUNDLESS, **self._options)), 1.0

    def _keep_for_log(self, group: Group, key: str) -> None:
        kept = self._unlogged
        kept.append((group, key, _bytes_of(group)))
        while len(kept) > UNLOGGED or (len(kept) > 1 and sum(size for *_, size in kept) > UNLOGGED_BYTES):
            oldest, *_ = kept.popleft()
            logger.warning("group %s will be missing in the service's run log: too many wait", oldest["group_id"])

    async def _post_missed(self, client: AsyncClient) -> None:
        """Post the groups that were scored here, so that the service's run log has them too. Beside the training, and
        each under the key of its first post: the service may have logged it, and only its reply was lost."""
        while self._unlogged:
            group, key, size = self._unlogged.popleft()
            try:
                await client.reward([group], run=self._run, key=key, **self._options)
            except UnavailableError:
                self._unlogged.appendleft((group, key, size))
                return  # until the next post
            except Exception as error:  # noqa: BLE001
                logger.warning("group %s will be missing in the service's run log: %s", group["group_id"], error)

    def _seen(self, reply: Reply, pinned: tuple[str, str] | None = None) -> GroupReply:
        """The group, if it has been scored, and that as `pinned` says. The log says where the run collapses, if that
        was asked for; 64 groups count as a step."""
        (group,) = reply.groups
        if pinned not in {None, (reply.config_id, reply.version)}:
            raise ConfigError("the service scores by another version or configuration than at the start")
        if group.error is not None:
            raise ReplyError(f"{group.error.code}: {group.error.message}")
        try:
            if self._watch is not None:
                self._watch.see(reply)
        except Exception:
            logger.exception("the state of the run is not known")
            self._watch = None
        return group


# --- rollouts and their rewards --------------------------------------------------------------------------------------


class GroupReward:
    """What the rollouts of one executor are rewarded with, and which of their tokens train."""

    settings: ActorSettings
    reader: RolloutReader
    _scorer: GroupScorer

    def __init__(self, urls: Sequence[str]) -> None:
        self._reward_urls = urls
        self.siblings: Siblings[ExecutorCall, RolloutOutcome] = Siblings(self.score)
        self._begun: asyncio.Future[bool] | None = None
        self._said: set[str] = set()
        self._votes_add_up = False

    async def begin(self, actor: Any) -> bool:
        """Settle once, before the first rollout, what the run does; False where another's reward model answers, which
        this executor leaves alone.

        ConfigError or PluginError where the URL, the service and this process do not go together: the run ends there.
        """
        if self._begun is None:
            self._begun = asyncio.ensure_future(self._begin(actor))
        return await asyncio.shield(self._begun)

    async def _begin(self, actor: Any) -> bool:
        urls = RewardUrls.of(self._reward_urls)
        try:
            info = await asyncio.to_thread(service_info, urls.services, urls.patience)
        except DareError as error:
            logger.warning("OpenRLHF posts as without this package: %s", error)
            return False
        self.settings = settings = urls.settings(info)
        for url in urls.services:
            await asyncio.to_thread(handshake, url, urls.token, settings)
        await switch_entropies_on(actor, settings)
        run = settings.run or job_name()
        self.reader = RolloutReader(settings)
        self._scorer = GroupScorer(urls, settings, run)
        logger.warning(
            "rewards of run %s: %s, entropy=%s", run, write_line(settings.method, settings.params), settings.entropy
        )
        if words := scale_unseen(find(settings.method), consumer="OpenRLHF", remedy=SCALE):
            logger.warning("%s", words)
        return True

    def label(self, value: Any) -> Label:
        """What OpenRLHF's label says. One that means nothing is none, which the log says once."""
        label = self.settings.rules.label(value, policy=self.settings.label_policy)
        if label.problem:
            self._say_once("a label means nothing, and its rollouts train without one: %s", label.problem)
        return label

    def votes_each(self, members: int, label: Label) -> int:
        """How many continuations each of a group's members generates.

        ConfigError where they do not add up in the first group. In a later one, as of an evaluation whose labels do not
        say so, the run goes on with fewer votes.
        """
        if label.split == "eval":
            return 1
        votes = self.settings.votes_per_prompt or members
        if votes % members:
            words = f"votes_per_prompt={votes} is not a multiple of the {members} rollouts that train"
            if not self._votes_add_up:
                raise ConfigError(words)
            self._say_once("%s: is this an evaluation whose labels lack split=eval?", words)
        self._votes_add_up = True
        if votes == 1:
            self._say_once(
                "a prompt has one rollout, and a vote of one is no vote: raise n_samples_per_prompt, or put "
                "votes_per_prompt=16 into the reward URL"
            )
        return 1 if self.settings.waves else max(1, votes // members)

    def actions(self, ranges: Any, outcome: RolloutOutcome, rollout: ReadRollout) -> Any:
        """The tokens that train: of a masked rollout its last one alone; with train_on=reasoning not the answer's."""
        (start, end), *_ = ranges
        if outcome.masked and end > start:
            return [(end - 1, end)]
        if self.settings.train_on != "reasoning" or rollout.answer is None:
            return ranges
        first, last = (start + at for at in rollout.answer)
        return [part for part in ((start, min(first, end)), (min(last, end), end)) if part[0] < part[1]] or ranges

    async def score(self, members: Sequence[ExecutorCall]) -> list[RolloutOutcome]:
        """One outcome per member. Whatever fails here costs a reward, never the run."""
        try:
            label = members[0].label
            if any(member.label != label for member in members):
                self._say_once("one prompt came with several labels; its rollouts train without one")
                label = Label()
            return await self._scored(members, label)
        except Exception:
            logger.exception("a group of %d could not be scored; its rewards are equal", len(members))
            return self.neutral(members)

    def neutral(self, members: Sequence[ExecutorCall]) -> list[RolloutOutcome]:
        """Equal rewards, which move nothing."""
        votes = sum(len(m.rollouts) for m in members)
        known = {"reward_fallback": 2.0}
        return neutral(len(members), votes=votes, route="actor", shadow=self.settings.shadow, known=known)

    async def _scored(self, members: Sequence[ExecutorCall], label: Label) -> list[RolloutOutcome]:
        settings, trained = self.settings, [m.rollouts[0] for m in members]
        if label.split == "eval":
            accuracy = partial(evaluation, settings.rules, label=label, route="actor", shadow=settings.shadow)
            return [accuracy({**r.entry, "prompt": members[0].prompt}, entropy=r.entropy) for r in trained]
        votes = trained + [r for m in members for r in m.rollouts[1:]]
        spent = await self._add_votes(members, label, votes)
        began = time.perf_counter()
        reply, here = await self._scorer.score(self._group(members, label, votes))
        known: Known = {
            **spent,
            "reward_fallback": here,
            "reward_wait_ms": 1e3 * (time.perf_counter() - began),
            "no_span": [float(r.lost) for r in trained],
        }
        # The setting; else the method's parameter of the same name.
        pruned = settings.pruned if settings.pruned != "zero" else settings.params.get("pruned", "zero")
        return outcomes(
            reply, route="actor", entropies=[r.entropy for r in votes], trained=range(len(trained)),
            pruned=pruned, shadow=settings.shadow, known=known,
        )  # fmt: skip

    async def _add_votes(self, members: Sequence[ExecutorCall], label: Label, votes: list[ReadRollout]) -> Known:
        """Add votes in waves, only while those so far do not suffice (docs/stopping.md), and return what the log says
        of those that were not asked for.

        The decision is made in this process: no request, so nothing on the way to the service can change how many
        votes a group has. Whatever fails here costs generation, never a label: the group then gets all of its votes.
        """
        waves, asked, method, params = self.settings.waves, len(votes), self.settings.method, self.settings.params
        while waves is not None and (more := waves.votes - asked) > 0:
            group = self._group(members, label, votes)
            try:
                wanted = await asyncio.to_thread(votes_suffice, group, params, method=method, waves=waves)
            except Exception:
                logger.exception("group %s: how many votes it needs cannot be told; it gets all", group["group_id"])
            else:
                if not wanted.more:
                    return {"votes_saved": float(more), "settle_risk": wanted.risk}
                more = min(wanted.more, more)
            found = await together([members[(asked + i) % len(members)].one for i in range(more)])
            votes += [vote for _, vote in found]
            asked += more
        return NOTHING

    def _group(self, members: Sequence[ExecutorCall], label: Label, votes: Sequence[ReadRollout]) -> Group:
        """The group as `POST /reward` takes it, named after its prompt, so that the report knows a prompt again."""
        of, settings = members[0], self.settings
        asked = of.prompt if of.images is None else repr((of.prompt, of.images))
        name = hashlib.blake2b(asked.encode("utf-8", "replace"), digest_size=6).hexdigest()
        group: Group = {"group_id": name, "prompt": of.prompt, **of.sampling}
        group |= {k: v for k, v in settings.rules.group(label).items() if v is not None}
        if settings.entropy == "plugin":
            group |= {"entropy_source": "exact", "entropy_mode": settings.entropy_mode}
        elif settings.entropy == "topk":
            processed = of.sampling.get("logprobs_mode") == "processed_logprobs"
            group |= {"entropy_source": "topk", "entropy_mode": "unknown" if processed else "raw"}
        group["rollouts"] = [{**r.entry, "trained": i < len(members)} for i, r in enumerate(votes)]
        return group

    def _say_once(self, words: str, *values: object) -> None:
        if words not in self._said:
            self._said.add(words)
            logger.warning(words, *values)


class ExecutorCall:
    """One call of OpenRLHF's executor, by its arguments; made before that call waits for anything.

    rollouts   the first of them trains, the others vote
    """

    label = Label()
    rollouts: Sequence[ReadRollout] = ()
    outcome: RolloutOutcome | None = None

    def __init__(self, reward: GroupReward, arguments: Mapping[str, Any]) -> None:
        self.reward, self.arguments, self.engine = reward, dict(arguments), arguments["llm_engine"]
        self.prompt, self.images = arguments["prompt"], arguments.get("images")
        self.group, self.place = reward.siblings.enter(arguments["sampling_params"], self.prompt)

    def __getattr__(self, name: str) -> Any:
        """OpenRLHF's executor takes it for the engine."""
        return getattr(self.engine, name)

    async def generate(self, ids: Any, sampling_params: Any, **more: Any) -> Any:
        """The continuation that trains, for OpenRLHF's executor; those that only vote are generated beside it."""
        self.label = self.reward.label(self.arguments["label"])
        self.sampling = sampled_with(sampling_params, self.engine)
        self.request = ids, self.reward.reader.asked(sampling_params), more  # the parameters are this call's own

        async def all_of_them() -> list[Continuation]:
            votes = self.reward.votes_each(self.group.members, self.label)
            return await together([self.one] * votes, needed=1)

        found = await self.group.run(all_of_them)
        self.rollouts = [rollout for _, rollout in found]
        return found[0][0]

    async def one(self) -> Continuation:
        """One more continuation of the prompt."""
        (ids, params, more), tokenizer = self.request, self.arguments["hf_tokenizer"]
        output = await self.engine.generate(list(ids), params, **more)
        return output, self.reward.reader.read(output.outputs[0], self.prompt, self.label, tokenizer, self.engine)

    async def rewarded(self) -> RolloutOutcome:
        """What the rollout that trains gets, once its siblings are there; neutral where one of them failed."""
        found = await self.reward.siblings.result(self.group, self.place, self)
        self.outcome = found or self.reward.neutral([self])[0]
        return self.outcome


def _bytes_of(group: Group) -> int:
    """About what it takes in memory."""
    texts: int = sum(len(rollout.get("text") or "") for rollout in group["rollouts"])
    tokens: int = sum(r["num_tokens"] for r in group["rollouts"] if "token_ids" in r or "token_entropies" in r)
    return len(str(group["prompt"])) + texts + TOKEN_BYTES * tokens + 1000 * len(group["rollouts"])
