"""What the adapters share: where and how to score, one entropy source per group, and what happens without a reply.

Everything that configures an adapter fits into one URL, because some stacks hand a reward function nothing else:

    http://127.0.0.1:8000?method=dare&alpha=0.1&fallback=local
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, Final, Literal, cast
from urllib.parse import parse_qsl, urlsplit, urlunsplit
from weakref import WeakKeyDictionary

import numpy as np

from .._outgoing import split_address
from ..errors import (
    ConfigError,
    DareError,
    ReplyError,
    RequestError,
    UnavailableError,
    misspelt_variables,
    unknown_name,
)
from ..inputs import Group
from ..methods import find, require_every_rollout, require_scale, require_steps, scale_unseen, specs
from ..runs.line import asked_for
from ..scoring.update import Update, update_specs
from .collapse import ON_COLLAPSE, RunWatch, watch_of
from .report import logger, numbers, say_once, watch_answers

if TYPE_CHECKING:
    from ..client import AsyncClient, Client
    from ..reply import Reply
    from ..stopping import GroupSettled, Waves

__all__ = [
    "Rewards",
    "Scorer",
    "Wanted",
    "certain",
    "content_of",
    "from_environment",
    "group",
    "groups_by",
    "logger",
    "numbers",
    "say_once",
    "silenced",
    "spread",
    "with_estimate",
]

JSON = Mapping[str, Any]
Rewards = list[list[float | None]]
OPTIONS: Final[Mapping[str, Any]] = {
    "timeout": float, "retries": int, "fallback": str, "token": str, "run_log": str, "run_log_texts": str,
}  # fmt: skip
EQUAL: Final = (None, "zero_variance", "all_invalid")  # to carry on, or to have no advantage anyway
ON_ERROR: Final = ("raise", "abstain", "zero")
TRAIN_ON: Final = ("all", "reasoning")


@dataclass(frozen=True, slots=True)
class Scorer:
    """Where and how to score: picklable, hashable; a connection belongs to a process (and an event loop), not to it.

    on_error    when the service stays away and no fallback is allowed: raise; abstain (None); zero
    update      what is asked beside rewards: advantage, selection and the like (`dare_reward.scoring.update`)
    train_on    all: every generated token; reasoning: not the final answer's (`dare_reward.stacks.answer_masks`)
    run         name of the run, in the service's log and in a run log
    on_collapse   off; warn: say in the log where the run collapses; stop: also end the training where it
                collapses, as the stack ends it (`dare_reward.stacks.collapse`)
    """

    url: str
    method: str
    params: tuple[tuple[str, Any], ...]
    options: tuple[tuple[str, Any], ...]
    on_error: Literal["raise", "abstain", "zero"]
    update: tuple[tuple[str, Any], ...] = ()
    train_on: Literal["all", "reasoning"] = "all"
    run: str | None = None
    on_collapse: Literal["off", "warn", "stop"] = "off"

    @classmethod
    def of(cls, url: str, **settings: Any) -> Scorer:
        """`url` with settings in its query, or as keywords (these win): method, the method's parameters, run,
        on_error, on_collapse, train_on, and the client's timeout, retries, fallback, token, run_log, run_log_texts."""
        parts = split_address(url)
        given = {**dict(parse_qsl(parts.query, keep_blank_values=True)), **settings}
        method, run = given.pop("method", "dare"), given.pop("run", None)
        on_error = _one_of(ON_ERROR, "on_error", given.pop("on_error", "raise"))
        train_on = _one_of(TRAIN_ON, "train_on", given.pop("train_on", "all"))
        on_collapse = _one_of(ON_COLLAPSE, "on_collapse", given.pop("on_collapse", "off"))
        if "spans" in given:
            raise RequestError(
                "an adapter returns no spans: train_on=reasoning masks the answers' tokens", code="parameter"
            )
        options = {k: _option(k, given.pop(k)) for k in OPTIONS if given.get(k) is not None}
        if (output := find(method).output) != "rewards":
            raise ConfigError(f"{method} gives {output}; a reward function can only return rewards")
        options_ = {s.name: s for s in update_specs()}
        known = {s.name: s for s in specs(find(method))} | options_
        parsed = {k: known[k].parse(v) if k in known and isinstance(v, str) else v for k, v in given.items()}
        update, params = Update.split(parsed)
        if unknown := parsed.keys() - known.keys():
            names = [*known, "method", "run", "on_error", "on_collapse", "train_on", *OPTIONS]
            raise RequestError(unknown_name("setting", min(unknown), names, listed=True), code="unknown_parameter")
        base = urlunsplit((parts.scheme, parts.netloc, parts.path, "", ""))
        asked = tuple(update.asked().items())
        kept = tuple(options.items())
        return cls(base, method, tuple(sorted(params.items())), kept, on_error, asked, train_on, run, on_collapse)

    def score(self, groups: Sequence[Group], *, step: int | None = None) -> tuple[Rewards, Reply | None]:
        """Rewards for each group, in order, and the reply that they come from; no reply, if the service is away."""
        try:
            client, params = _client(self, os.getpid()), self._params(groups)
            reply = client.reward(groups, method=self.method, run=self.run, step=step, **params)
        except UnavailableError as error:
            return self._without(groups, error), None
        return self._with(groups, reply), reply

    async def score_async(self, groups: Sequence[Group], *, step: int | None = None) -> tuple[Rewards, Reply | None]:
        """The same, on the running event loop."""
        try:
            client, params = _async_client(self), self._params(groups)
            reply = await client.reward(groups, method=self.method, run=self.run, step=step, **params)
        except UnavailableError as error:
            return self._without(groups, error), None
        return self._with(groups, reply), reply

    def settled(self, groups: Sequence[Group], waves: Waves) -> list[Wanted]:
        """Votes of each group's next wave, and the risk of doing without."""
        try:
            reply = _client(self, os.getpid()).settled(
                groups, method=self.method, **waves.asked(), **self._judged(groups)
            )
        except DareError as error:
            return _every(groups, waves, error)
        return [_wanted(g, waves) for g in reply.groups]

    async def settled_async(self, groups: Sequence[Group], waves: Waves) -> list[Wanted]:
        """The same, on the running event loop."""
        try:
            client = _async_client(self)
            reply = await client.settled(groups, method=self.method, **waves.asked(), **self._judged(groups))
        except DareError as error:
            return _every(groups, waves, error)
        return [_wanted(g, waves) for g in reply.groups]

    def _judged(self, groups: Sequence[JSON]) -> dict[str, Any]:
        """The method's parameters, without what becomes of its rewards."""
        update = dict(self.update)
        return {k: v for k, v in self._params(groups).items() if k not in update}

    def watch(self, reply: Reply | None, step: int | None, trainer: Any = None) -> RunWatch | None:
        """The state of the trainer's run with this reply; None where nobody asked for it. It never raises."""
        if self.on_collapse == "off":
            return None
        watch = None
        try:
            watch = watch_of(self, trainer)
            watch.see(reply, step)
        except Exception as error:  # noqa: BLE001  (a training run does not die of its alarm)
            say_once(f"the state of the run is not known: {type(error).__name__}: {error}")
        return watch

    def cannot_stop(self, stack: str) -> Scorer:
        """This, for a stack whose adapter reaches nothing that ends the training."""
        if self.on_collapse != "off":
            raise ConfigError(
                f"{stack}: this adapter neither warns nor stops: leave out on_collapse, and read the report"
            )
        return self

    def certain(self, stack: str) -> Scorer:
        """This, for a stack that has no way to leave a rollout without a reward."""
        if self.on_error == "abstain":
            raise RequestError(
                f"{stack} needs a number for every rollout: on_error is raise or zero, not abstain", code="parameter"
            )
        return self

    def every_token(self, stack: str) -> Scorer:
        """This, for a stack whose adapter masks no tokens."""
        if self.train_on != "all":
            raise ConfigError(f"{stack}: this adapter masks no tokens: leave out train_on={self.train_on}")
        return self

    def rewards_only(self, stack: str, *, takes: frozenset[str] = frozenset({"settled"})) -> Scorer:
        """This, for a stack that makes the advantages itself and trains on every rollout."""
        if refused := [name for name, _ in self.update if name not in takes]:
            raise ConfigError(
                f"{stack} computes advantages itself, of every rollout, from rewards: leave out {', '.join(refused)}"
            )
        require_every_rollout(find(self.method), consumer=stack)
        return self

    def one_group(self, stack: str) -> Scorer:
        """This, for a stack that scores one group a call."""
        require_steps(find(self.method), find(self.method).resolve(dict(self._own)), consumer=stack)
        return self

    def logged_prompt(self, prompt: Any) -> str | None:
        """The text of a prompt, or of its messages, if the client's run log is to hold prompts. It does not travel."""
        if "prompt" not in asked_for(dict(self.options).get("run_log_texts", "")):
            return None
        return prompt if isinstance(prompt, str) else "\n\n".join(content_of(m) for m in prompt)

    def check_scale(self, stack: str, *, divides: bool | None, remedy: str) -> None:
        """RequestError if the stack divides by a group's deviation what must keep its scale; None: the adapter cannot
        see it, which is one warning."""
        method = find(self.method)
        if Update.of(dict(self.update)).own is not None:
            return
        if divides:
            require_scale(method, consumer=stack, remedy=remedy)
        elif divides is None and (words := scale_unseen(method, consumer=stack, remedy=remedy)):
            say_once(words)

    @property
    def _own(self) -> Iterable[tuple[str, Any]]:
        """The parameters of the method itself, without those of the answers."""
        names = {s.name for s in find(self.method).specs}
        return ((k, v) for k, v in self.params if k in names)

    def _params(self, groups: Sequence[JSON]) -> dict[str, Any]:
        """Parameters and options; votes alone where no entropy came at all and the user did not decide otherwise."""
        params = dict(self.params) | dict(self.update)
        takes = any(s.name == "missing_entropy" for s in specs(find(self.method)))
        if takes and "missing_entropy" not in params and not any(_informed(r) for g in groups for r in g["rollouts"]):
            say_once("neither entropies nor log-probabilities came: scoring by votes alone (missing_entropy=frequency)")
            params["missing_entropy"] = "frequency"
        return params

    def _without(self, groups: Sequence[JSON], error: UnavailableError) -> Rewards:
        if self.on_error == "raise":
            raise error
        count = f"{len(groups)} group{'s' * (len(groups) != 1)}"
        logger.warning("no rewards for %s (on_error=%s; fallback=local scores here): %s", count, self.on_error, error)
        return [[self._absent] * len(g["rollouts"]) for g in groups]

    def _with(self, groups: Sequence[JSON], reply: Reply) -> Rewards:
        watch_answers(self, groups, reply)
        for g in reply.groups:
            if g.error is not None:
                if self.on_error == "raise":
                    raise ReplyError(f"group {g.group_id!r} was not scored: {g.error.message} ({g.error.code})")
                logger.warning("no rewards for group %r (on_error=%s): %s", g.group_id, self.on_error, g.error.message)
        sizes = (len(g["rollouts"]) for g in groups)
        return [
            [self._absent] * n if g.rewards is None else list(g.rewards)
            for g, n in zip(reply.groups, sizes, strict=True)
        ]

    @property
    def _absent(self) -> float | None:
        return 0.0 if self.on_error == "zero" else None


def _option(name: str, given: Any) -> Any:
    if name == "fallback":
        return _one_of(("local",), name, given)
    try:
        return OPTIONS[name](given)
    except (TypeError, ValueError):
        kind = "an integer" if OPTIONS[name] is int else "a number"
        raise RequestError(f"{name} must be {kind}, not {given!r}", code="parameter") from None


def _one_of(choices: Sequence[str], name: str, given: Any) -> Any:
    if given not in choices:
        which = f"one of {', '.join(choices)}" if len(choices) > 1 else choices[0]
        raise RequestError(f"{name} must be {which}, not {given!r}", code="parameter")
    return given


@dataclass(frozen=True, slots=True)
class Wanted:
    """Votes that a group still needs, and the probability that its label differs from that of all votes."""

    more: int
    risk: float = 0.0


def _wanted(group: GroupSettled, waves: Waves) -> Wanted:
    if group.error is not None:
        logger.warning("group %r gets all of its votes: %s", group.group_id, group.error.message)
        return Wanted(max(waves.votes - group.votes, 0))
    return Wanted(group.more or 0, group.risk or 0.0)


def _every(groups: Sequence[JSON], waves: Waves, error: DareError) -> list[Wanted]:
    """What fails costs votes, never a label."""
    logger.warning("%d groups get all of their votes: %s", len(groups), error)
    return [Wanted(max(waves.votes - len(g["rollouts"]), 0)) for g in groups]


def from_environment(stack: str, **defaults: Any) -> Scorer:
    """The scorer of the address in DARE_URL."""
    url = os.environ.get("DARE_URL", "")
    if not url:
        hints = "".join(f" ({sentence})" for sentence in misspelt_variables(["DARE_URL"], os.environ))
        raise RequestError(
            f"{stack}: set DARE_URL to the address of the reward service, such as "
            f"http://127.0.0.1:8000?method=dare{hints}"
        )
    return Scorer.of(url, **{k: v for k, v in defaults.items() if k not in dict(parse_qsl(urlsplit(url).query))})


@cache
def _client(scorer: Scorer, pid: int) -> Client:
    from ..client import Client

    return Client(scorer.url, **dict(scorer.options))


_loops: WeakKeyDictionary[asyncio.AbstractEventLoop, dict[Scorer, AsyncClient]] = WeakKeyDictionary()


def _async_client(scorer: Scorer) -> AsyncClient:
    from ..client import AsyncClient

    clients = _loops.setdefault(asyncio.get_running_loop(), {})
    if scorer not in clients:
        clients[scorer] = AsyncClient(scorer.url, **dict(scorer.options))
    return clients[scorer]


# --- groups ----------------------------------------------------------------------------------------------------------


def groups_by(keys: Iterable[Any]) -> dict[str, list[int]]:
    """Row numbers of each key, in the order in which the keys first come."""
    rows: dict[str, list[int]] = {}
    for i, key in enumerate(keys):
        rows.setdefault(str(key), []).append(i)
    return rows


def spread(rewards: Rewards, rows: Iterable[Sequence[int]], count: int) -> list[float | None]:
    """Rewards of groups, back in the order of the rows; None for a row that is in no group."""
    out: list[float | None] = [None] * count
    for group_rewards, members in zip(rewards, rows, strict=True):
        for i, reward in zip(members, group_rewards, strict=True):
            out[i] = reward
    return out


def silenced(rewards: Rewards, reply: Reply | None, level: float | None = None) -> Rewards:
    """Rewards of `level` for a group that is to be dropped, though its rewards differ; None is a stack's abstention,
    and equal rewards have no advantage."""
    if reply is None:
        return rewards
    return [[level] * len(own) if g.drop not in EQUAL else own for own, g in zip(rewards, reply.groups, strict=True)]


def certain(rewards: Sequence[float | None]) -> list[float]:
    """Rewards that are all there."""
    if (missing := sum(r is None for r in rewards)) > 0:
        raise ReplyError(f"{missing} of {len(rewards)} rollouts are without a reward")
    return [r for r in rewards if r is not None]


def group(group_id: str, rollouts: Sequence[JSON], **more: Any) -> Group:
    """One group of the request, its entropies from one source.

    A rollout may have `token_entropies` or `mean_entropy` (full vocabulary), or `logprobs` of its sampled tokens. If
    every rollout has entropies those are sent; else, if every one has `logprobs`, mean(-logp), an estimate that is
    labelled `logprob`; else what there is, for `missing_entropy` to decide.
    """
    exact = all(_informed(r) for r in rollouts)
    estimated = not exact and all("mean_entropy" in with_estimate(r) for r in rollouts)
    dropped = {"logprobs", "token_entropies", "mean_entropy", "token_mask"} if estimated else {"logprobs"}
    out = [{k: v for k, v in r.items() if k not in dropped} | (with_estimate(r) if estimated else {}) for r in rollouts]
    source = {"entropy_source": "logprob"} if estimated else {}
    given = {k: v for k, v in more.items() if v is not None}
    return cast("Group", {"group_id": group_id, **source, **given, "rollouts": out})


def content_of(message: JSON) -> str:
    """The text of a message, whose content may be parts, some of them no text."""
    content = message.get("content") or ""
    if isinstance(content, str):
        return content
    return "".join(part if isinstance(part, str) else str(part.get("text") or "") for part in content)


def with_estimate(rollout: JSON) -> dict[str, Any]:
    """mean(-log p) over the sampled tokens: an unbiased estimate of the mean entropy they were sampled with."""
    logprobs = rollout.get("logprobs")
    if logprobs is None:
        return {}
    values = np.asarray(logprobs, np.float64)
    mask = np.asarray(rollout.get("token_mask", np.ones(len(values))), bool)
    if len(mask) != len(values):
        raise RequestError(f"{len(mask)} entries of token_mask for {len(values)} log-probabilities", code="length")
    values = values[mask]
    if not np.isfinite(values).all():
        raise RequestError("a log-probability of a sampled token is not a finite number", code="value")
    mean = float(max(-values.mean(), 0.0)) if len(values) else None
    return {"mean_entropy": mean, "num_tokens": len(values)}


def _informed(rollout: JSON) -> bool:
    return rollout.get("token_entropies") is not None or rollout.get("mean_entropy") is not None
