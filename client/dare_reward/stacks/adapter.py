"""What the adapters share: where and how to score, and what happens without a reply.

Everything that configures an adapter fits into one URL, because some stacks hand a reward function nothing else:

    http://127.0.0.1:8000?method=dare&alpha=0.1&fallback=local
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from functools import cache
from types import MappingProxyType
from typing import Any, Final, Literal, TypeVar, cast
from urllib.parse import urlunsplit

import numpy as np

from .._outgoing import split_address
from ..answers import Kind
from ..answers.classes import Labels
from ..errors import (
    ConfigError,
    DareError,
    ReplyError,
    RequestError,
    ServiceError,
    UnavailableError,
    counted,
    misspelt_variables,
    unknown_name,
)
from ..estimators.method import reads_answers
from ..inputs import Group
from ..membership import Member, gather
from ..methods import find, other_scale, require_every_rollout, require_scale, scale_unseen, specs
from ..openrlhf import AnswerRules, Label
from ..options import ADAPTER, CLIENT, OnError, TrainOn
from ..params import Spec, query_texts
from ..reply import Reply
from ..scoring.update import Labelled, Update
from ..votes import Wanted, Waves, votes_suffice
from .report import logger, say_once, watch_answers
from .rollout import label_of, read_rollout

JSON = Mapping[str, Any]
# What a stack or its adapter may lack (rollouts without a reward, labels, masks of tokens):
# the setting that asks for it by this value, and what is said of it.
Ability = Literal["gaps", "labels", "masks"]
ABILITIES: Final[Mapping[Ability, tuple[str, str, str]]] = {
    "gaps": ("on_error", "abstain", " needs a number for every rollout: on_error is raise or zero, not abstain"),
    "labels": ("labelled", "gt", ": this adapter is handed no labels: leave out labelled=gt"),
    "masks": ("train_on", "reasoning", ": this adapter masks no tokens: leave out train_on=reasoning"),
}
Rewards = list[list[float | None]]
ENTROPIES: Final = frozenset({"token_entropies", "mean_entropy"})
EQUAL: Final = (None, "zero_variance", "all_invalid")  # to carry on, or to have no advantage anyway


@dataclass(frozen=True, slots=True)
class Scorer:
    """Where and how to score: picklable, hashable; a connection belongs to a process and an event loop, not to it.

    The settings are those of `dare_reward.options.ADAPTER`.

    Attributes:
        params: of the method
        update: what is asked beside rewards: advantage, selection and the like (`dare_reward.scoring.update`)
        client: how the client behaves: timeout, retries, fallback, token, run_log, run_log_texts
    """

    url: str
    method: str
    params: tuple[tuple[str, Any], ...]
    client: tuple[tuple[str, Any], ...]
    on_error: OnError
    update: tuple[tuple[str, Any], ...] = ()
    train_on: TrainOn = "all"
    run: str | None = None
    shadow: tuple[str, ...] = ()
    seed: int | None = None
    kind: Kind = "math"
    labelled: Labelled = "method"

    @classmethod
    def of(cls, url: str, *, defaults: Mapping[str, Any] = MappingProxyType({}), **settings: Any) -> Scorer:
        """`url` with settings in its query, or as keywords, which win: of ADAPTER, and the method's parameters.

        `defaults` are those of a stack, where they are others than ADAPTER's.
        """
        parts = split_address(url)
        texts = {**defaults, **query_texts(parts.query), **settings}
        if "spans" in texts:
            raise RequestError(
                "an adapter returns no spans: train_on=reasoning masks the answers' tokens", code="parameter"
            )
        named = {name: _value(spec, texts.pop(name)) for name, spec in ADAPTER.items() if name in texts}
        values = {name: spec.default for name, spec in ADAPTER.items()} | named
        method = values.pop("method")
        if (output := find(method).output) != "rewards":
            raise ConfigError(f"{method} gives {output}; a reward function can only return rewards")
        parameters = {s.name: s for s in specs(find(method), shadow=values["shadow"])}
        if unknown := texts.keys() - parameters.keys():
            message = unknown_name("setting", min(unknown), [*parameters, *ADAPTER], listed=True)
            raise RequestError(message, code="unknown_parameter")
        params = {name: _value(parameters[name], value) for name, value in texts.items()}
        if values["labelled"] == "gt" and (words := other_scale(find(method), params)):
            raise ConfigError(f"labelled=gt: {words}")
        client = {k: v for k in CLIENT if (v := values.pop(k)) is not None}
        update, behaviour = Update.split(values)
        base = urlunsplit((parts.scheme, parts.netloc, parts.path, "", ""))
        options = tuple(update.asked().items())
        return cls(base, method, tuple(sorted(params.items())), tuple(client.items()), update=options, **behaviour)

    def score(self, groups: Sequence[Group], *, step: int | None = None) -> tuple[Rewards, Reply | None]:
        """Rewards for each group, in order, and the reply that they come from; no reply, if the service is away."""
        try:
            reply = _client(self, "Client").reward(self._sent(groups), step=step, **self._asked)
        except UnavailableError as error:
            return self._paid(groups, error)
        return self._paid(groups, reply)

    async def score_async(self, groups: Sequence[Group], *, step: int | None = None) -> tuple[Rewards, Reply | None]:
        """The same, on the running event loop."""
        try:
            reply = await _client(self, "AsyncClient").reward(self._sent(groups), step=step, **self._asked)
        except UnavailableError as error:
            return self._paid(groups, error)
        return self._paid(groups, reply)

    def votes_suffice(self, group: Group, waves: Waves) -> Wanted:
        """Votes of the group's next wave, and the risk of doing without. What fails costs votes, never a label."""
        try:
            (sent,) = self._sent([group])
            return votes_suffice(sent, dict(self.params), method=self.method, waves=waves)
        except DareError as error:
            logger.warning("group %r gets all of its votes: %s", group.get("group_id"), error)
            return Wanted(max(waves.votes - len(group["rollouts"]), 0))

    def _sent(self, groups: Sequence[Group]) -> Sequence[Group]:
        """The groups, each with the kind of its answers."""
        return groups if self.kind == "math" else [cast("Group", {"kind": self.kind, **g}) for g in groups]

    @property
    def _asked(self) -> dict[str, Any]:
        """The method, its parameters and its seed, which decide rewards, and what the reply says beside them."""
        asked = {"method": self.method, "seed": self.seed, **self._params, **dict(self.update)}
        return asked | {"shadow": self.shadow, "run": self.run, "labelled": self.labelled}

    @property
    def unlogged(self) -> Scorer:
        """The same, whose groups stand in no run log, nor on the service's page."""
        return replace(self, client=(*(x for x in self.client if not x[0].startswith("run_log")), ("record", False)))

    def alone(self) -> Scorer:
        """The same for groups that come again in their whole step, which is what is logged: of what is asked beside
        rewards, what a group by itself can tell."""
        return replace(self.unlogged, update=tuple(x for x in self.update if x[0] == "settled"))

    @property
    def reads_answers(self) -> bool:
        """The method's certainty is over the answer's tokens."""
        return reads_answers(dict(self.params))

    def group(
        self,
        group_id: str,
        rollouts: Sequence[JSON],
        *,
        tokenizer: Any = None,
        labels: Sequence[Labels | None] = (),
        size: int | None = None,
        **more: Any,
    ) -> Group:
        """One group of the request, its entropies from one source.

        Args:
            group_id: the group's name in the request
            rollouts: as `read_rollout` takes them; `tokenizer` is its own
            labels: of the rollouts, as `label_of` reads them; those that contradict each other are no label
            size: rollouts that the group was to have
            more: further keys of `dare_reward.Group`

        Entropies of the full vocabulary are exact. Where more of the rollouts that may vote have log-probabilities of
        their sampled tokens, -log p takes the place of each token's entropy, an unbiased estimate that is labelled
        `logprob`. A rollout that has neither has no entropy, which `missing_entropy` decides about.
        """
        rules = AnswerRules(dict(self.params), self.kind, prompt=more.get("prompt")) if self.reads_answers else None
        rows = [read_rollout(r, tokenizer=tokenizer, rules=rules) for r in rollouts]
        voting = [r for r in rows if r.get("answer", "") is not None]  # an aborted one was given without an answer
        facts: dict[str, Any] = {}
        if sum("token_logprobs" in r for r in voting) > sum(not r.keys().isdisjoint(ENTROPIES) for r in voting):
            facts["entropy_source"] = "logprob"
            for row in rows:
                for name in ENTROPIES:
                    row.pop(name, None)
                if "token_logprobs" in row:
                    row["token_entropies"] = np.maximum(-row["token_logprobs"], 0.0)
        if any(labels) or size is not None:
            said = [*labels, *[None] * (len(rows) - len(labels))]
            members = [
                Member(r, key=group_id, kind=self.kind, label=x, size=size) for r, x in zip(rows, said, strict=True)
            ]
            facts |= gather(members)[0].fields()
        facts = {k: v for k, v in (facts | more).items() if v is not None and k != "kind"}
        return cast("Group", {"group_id": group_id, **facts, "rollouts": rows})

    def grade(self, rollout: JSON, truth: Any) -> float:
        """1.0 if the rollout's answer, read as in training, equals the data set's `truth`, else 0.0: for validation."""
        accepted = label_of(truth, self.kind) or ()
        label = Label(accepted if isinstance(accepted, str) else tuple(accepted))
        rules = AnswerRules(dict(self.params), self.kind)
        return float(rules.right(rules.read(rollout, label), label) or False)

    def require_supported(
        self, stack: str, *, lacks: AbstractSet[Ability] = frozenset(), takes: AbstractSet[str] | None = None
    ) -> Scorer:
        """This, if no setting asks for what the stack's adapter `lacks`; an error otherwise.

        `takes`: for a stack that computes advantages itself, of every rollout: what it takes beside rewards.
        """
        for ability, (setting, value, words) in ABILITIES.items():
            if ability in lacks and getattr(self, setting) == value:
                raise ConfigError(f"{stack}{words}")
        if find(self.method).masks:
            require_every_rollout(find(self.method), consumer=stack)
        if takes is None:
            return self
        if refused := [name for name, _ in self.update if name not in takes]:
            raise ConfigError(
                f"{stack} computes advantages itself, of every rollout, from rewards: leave out {', '.join(refused)}"
            )
        require_every_rollout(find(self.method), consumer=stack)
        return self

    def rewards_alone(self, stack: str) -> Scorer:
        """This, for an adapter that hands on rewards and nothing else (`require_supported`)."""
        return self.require_supported(stack, lacks=ABILITIES.keys(), takes=frozenset())

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
    def _params(self) -> dict[str, Any]:
        """The parameters; votes alone in groups that lack entropies, where the user did not decide otherwise."""
        takes = any(s.name == "missing_entropy" for s in specs(find(self.method)))
        return {**({"missing_entropy": "frequency"} if takes else {}), **dict(self.params)}

    def _paid(self, groups: Sequence[JSON], outcome: Reply | UnavailableError) -> tuple[Rewards, Reply | None]:
        absent = 0.0 if self.on_error == "zero" else None
        nothing = [[absent] * len(g["rollouts"]) for g in groups]
        if isinstance(outcome, UnavailableError):
            if self.on_error == "raise":
                raise outcome
            what = f"{counted(len(groups), 'group')} (on_error={self.on_error}; fallback=local scores here)"
            logger.warning("no rewards for %s: %s", what, outcome)
            return nothing, None
        watch_answers(self, groups, outcome, dict(self.params))
        flagged = any("missing_entropy_frequency" in (g.flags or ()) for g in outcome.groups)
        if flagged and "missing_entropy" not in dict(self.params):
            say_once(
                "groups lack entropies, or log-probabilities of answers where these count: they are scored by votes "
                "alone (missing_entropy=frequency)"
            )
        for g in outcome.groups:
            if g.error is None:
                continue
            why = f"{g.error.message} ({g.error.code})"
            if self.on_error == "raise":
                raise ReplyError(f"group {g.group_id!r} was not scored: {why}")
            logger.warning("no rewards for group %r (on_error=%s): %s", g.group_id, self.on_error, why)
        paid = zip(outcome.groups, nothing, strict=True)
        return [none if g.rewards is None else list(g.rewards) for g, none in paid], outcome


def _value(spec: Spec, value: Any) -> Any:
    """Of a setting, which a URL and an environment write as text."""
    return spec.parse(value) if isinstance(value, str) else spec.check(value)


def from_environment(stack: str, **defaults: Any) -> Scorer:
    """The scorer of the address in DARE_URL."""
    url = os.environ.get("DARE_URL", "")
    if not url:
        hints = "".join(f" ({sentence})" for sentence in misspelt_variables(["DARE_URL"], os.environ))
        raise RequestError(
            f"{stack}: set DARE_URL to the address of the reward service, such as "
            f"http://127.0.0.1:8000?method=dare{hints}"
        )
    return Scorer.of(url, defaults=defaults)


@cache
def _client(scorer: Scorer, kind: Literal["Client", "AsyncClient"]) -> Any:
    from .. import client

    return getattr(client, kind)(scorer.url, **dict(scorer.client))


# --- groups ----------------------------------------------------------------------------------------------------------


def groups_by(keys: Iterable[Any]) -> dict[str, list[int]]:
    """The indices of the rows of each key, keys in the order in which they first come."""
    rows: dict[str, list[int]] = {}
    for i, key in enumerate(keys):
        rows.setdefault(str(key), []).append(i)
    return rows


def scatter_to_rows(rewards: Rewards, rows: Iterable[Sequence[int]], count: int) -> list[float | None]:
    """Rewards of groups, back in the order of their `count` rows: `rows` are the indices of each group's, as the values
    of `groups_by`. None for a row that is in no group, or has no reward."""
    out: list[float | None] = [None] * count
    for group_rewards, members in zip(rewards, rows, strict=True):
        for i, reward in zip(members, group_rewards, strict=True):
            out[i] = reward
    return out


def zero_dropped(rewards: Rewards, reply: Reply | None, level: float | None = None) -> Rewards:
    """Rewards of `level` for a group that is to be dropped, though its rewards differ; None is a stack's abstention,
    and equal rewards have no advantage."""
    if reply is None:
        return rewards
    return [[level] * len(one) if g.drop not in EQUAL else one for one, g in zip(rewards, reply.groups, strict=True)]


def require_complete(rewards: Sequence[float | None]) -> list[float]:
    """The rewards, for a stack that has no value for "no reward"; ReplyError where a rollout has none."""
    if (missing := sum(r is None for r in rewards)) > 0:
        raise ReplyError(f"{missing} of {len(rewards)} rollouts are without a reward")
    return [r for r in rewards if r is not None]


Row = TypeVar("Row")
Found = TypeVar("Found")


def scored_together(
    rows: Sequence[Row], score: Callable[[list[Row]], list[Found]], *, rank: int, ranks: int
) -> list[Found]:
    """`score` on the rows of all ranks, in rank order, at rank 0; each rank gets what was found of its own rows.

    A failure at rank 0 is everyone's, or the others would wait for ever.
    """
    if ranks == 1:
        return score(list(rows))
    from accelerate.utils import broadcast_object_list, gather_object

    parts: list[Sequence[Row]] = gather_object([rows])
    outcome: list[object] = [None, ""]
    if rank == 0:
        try:
            outcome = [score([row for part in parts for row in part]), ""]
        except Exception as error:  # noqa: BLE001
            outcome = [None, f"{type(error).__name__}: {error}"]
    broadcast_object_list(outcome)
    results, failure = outcome
    if not isinstance(results, list):
        raise ServiceError(str(failure))
    first = sum(map(len, parts[:rank]))
    return results[first : first + len(rows)]
