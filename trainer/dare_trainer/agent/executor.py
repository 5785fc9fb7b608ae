"""The agent that OpenRLHF runs in each rollout actor, but for OpenRLHF's base class (`agent.py` adds that).

Per prompt: n members generate `votes / n` continuations each with token entropies, the last one to finish posts the
group, each gets its reward and returns its first continuation. With `adaptive` each member generates one, and the last
one to finish asks for further votes in waves while the group is not settled.
"""

from __future__ import annotations

import hashlib
import logging
import time
from collections.abc import Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass
from functools import partial
from typing import Any

from dare_reward.errors import ConfigError
from dare_reward.methods import find, scale_unseen
from dare_reward.openrlhf import (
    SCALE,
    AnswerRules,
    Label,
    Pruned,
    RolloutOutcome,
    evaluation,
    neutral,
    outcomes,
)
from dare_reward.topk_entropy import completion_bounds

from ..vllm.plugin import turn_on
from ..vllm.token_entropy import EntropyError, token_entropies
from .adaptive_votes import AdaptiveVotes, One, Spent
from .config import AgentConfig
from .group_barrier import Siblings, together
from .openrlhf_io import fit, generated_text, response, sampled_with, tokenize
from .rollout_reader import ReadRollout, RolloutReader
from .scoring import Estimation, handshake

logger = logging.getLogger("dare_trainer")

TOPK = 20


@dataclass(frozen=True, slots=True, eq=False)
class Delivery:
    """What one member brings into its group; the first of `rollouts` is trained on, `one` generates another."""

    prompt: str
    images: Any
    label: Label
    rollouts: tuple[ReadRollout, ...]
    evaluating: bool
    at: float
    one: One
    sampling: Mapping[str, Any]


class Executor:
    """`execute` as OpenRLHF 0.9.1 and later call it."""

    def __init__(self, config: AgentConfig, *, transport: Any = None) -> None:
        """Checks the service (or raises) and switches the entropy plugin on; OpenRLHF builds the engine afterwards."""
        self.config = config
        handshake(config, transport=transport)
        if words := scale_unseen(find(config.method), consumer="OpenRLHF", remedy=SCALE):
            logger.warning("%s", words)
        if config.entropy == "plugin":
            turn_on(config.entropy_mode)
        self._estimation = Estimation(config, transport=transport)
        self._rules = AnswerRules(config.every_param, config.kind)
        self._reader = RolloutReader(config, self._rules)
        self._siblings: Siblings[Delivery, RolloutOutcome] = Siblings(self._score, lambda d: self._neutral([d])[0])
        self._adaptive = None if config.waves is None else AdaptiveVotes(config, config.waves)
        self._entropies_seen = False
        self.ignored_labels = 0  # rollouts whose label means nothing

    async def execute(  # noqa: PLR0917  (OpenRLHF's signature)
        self,
        prompt: str,
        label: Any,
        sampling_params: Any,
        max_length: int,
        hf_tokenizer: Any,
        llm_engine: Any,
        images: Any = None,
    ) -> dict[str, Any]:
        meaning = self._label(label)
        tokenized = tokenize(hf_tokenizer, prompt, images)
        params, ids = fit(sampling_params, tokenized.ids, max_length, cut=not tokenized.pictures)
        evaluating = self._evaluates(meaning, sampling_params)
        sampling = sampled_with(sampling_params, llm_engine)

        async def one() -> ReadRollout:
            more = {"multi_modal_data": {"image": tokenized.pictures}} if tokenized.pictures else {}
            completion = (await llm_engine.generate(list(ids), self._ask(params), **more)).outputs[0]
            entropies = self._entropies(completion, llm_engine)
            text, answer = generated_text(hf_tokenizer, completion), None
            if (self.config.train_on == "reasoning" or self._reader.wants_answers) and not evaluating:
                answer = self._reader.answer_tokens(completion, text, meaning, hf_tokenizer)
            return self._reader.read(completion, text, entropies, meaning, answer)

        async def generate(members: int) -> Delivery:
            more = 0 if evaluating else self._votes_each(members) - 1
            if self._adaptive is not None:  # votes come in waves, once all members have delivered
                more = 0
            first, *others = await together(one(), [one() for _ in range(more)])
            assert isinstance(first, ReadRollout)
            lost = [x for x in others if isinstance(x, BaseException)]
            if lost:
                logger.warning("%d of %d vote-only rollouts failed: %r", len(lost), more, lost[0])
            rollouts = (first, *(x for x in others if isinstance(x, ReadRollout)))
            return Delivery(prompt, images, meaning, rollouts, evaluating, time.perf_counter(), one, sampling)

        delivery, outcome = await self._siblings.run(sampling_params, (prompt, repr(label), evaluating), generate)
        rollout = delivery.rollouts[0]
        masked = rollout.answer if self.config.train_on == "reasoning" else None
        done = response(ids, rollout.completion, outcome, sampling_params, answer=masked)
        return {
            "prompt": prompt,
            "label": label,
            "images": images,
            "mm_train_inputs": tokenized.training_inputs,
            **done,
        }

    async def close(self) -> None:
        """Close the connections to the service; the next group opens new ones."""
        await self._estimation.close()

    # --- generation --------------------------------------------------------------------------------------------------

    def _label(self, value: Any) -> Label:
        """A label that means nothing is none; a run does not end of it."""
        label = self._rules.label(value)
        if label.problem:
            if not self.ignored_labels:
                logger.warning("a label means nothing, and its rollouts train without one: %s", label.problem)
            self.ignored_labels += 1
        return label

    def _evaluates(self, label: Label, sampling_params: Any) -> bool:
        """The label decides; another temperature than the run's is the second sign."""
        if label.answer is None:
            return False
        other = self.config.temperature > 0 and abs(float(sampling_params.temperature) - self.config.temperature) > 1e-6
        return label.split == "eval" or other

    def _votes_each(self, members: int) -> int:
        votes = self.config.votes_per_prompt or members
        if votes % members:
            raise ConfigError(
                f"votes_per_prompt={votes} is not a multiple of the {members} rollouts of a prompt that train"
            )
        return votes // members

    def _ask(self, params: Any) -> Any:
        """This request's own parameters: with the log-probabilities that entropies ride on. One rollout per request."""
        asked = deepcopy(params)
        if self.config.entropy == "topk":
            asked.logprobs = TOPK
        elif self.config.entropy == "plugin" or asked.logprobs is not None or self.config.reads_logprobs:
            asked.logprobs = 0  # the sampled token alone, which is all that OpenRLHF reads
        return asked

    def _entropies(self, completion: Any, llm_engine: Any) -> Any:
        if self.config.entropy == "none" or not len(completion.token_ids):
            return None
        try:
            if self.config.entropy == "topk":
                vocabulary = int(llm_engine.llm.model_config.get_vocab_size())
                return completion_bounds(completion, vocabulary, TOPK).estimate
            values = token_entropies(completion)
        except (EntropyError, AttributeError, TypeError, ValueError) as error:
            if not self._entropies_seen:
                raise EntropyError(f"no token entropies at the start of the run: {error}") from error
            logger.warning("a rollout without entropies: %s", error)
            return None
        self._entropies_seen = True
        return values

    # --- scoring -----------------------------------------------------------------------------------------------------

    async def _score(self, deliveries: Sequence[Delivery]) -> list[RolloutOutcome]:
        """One outcome per delivery. Whatever fails here costs a reward, never the run."""
        began = max(d.at for d in deliveries)
        try:
            if deliveries[0].evaluating:
                return [self._accuracy(d) for d in deliveries]
            return await self._judge(deliveries, began)
        except Exception:
            logger.exception("a group of %d could not be scored; its rewards are 0", _votes(deliveries))
            return self._neutral(deliveries, began)

    async def _judge(self, deliveries: Sequence[Delivery], began: float) -> list[RolloutOutcome]:
        trained = [d.rollouts[0] for d in deliveries]
        votes, spent = trained + [r for d in deliveries for r in d.rollouts[1:]], Spent()
        group_of = partial(self._group, deliveries[0], trained=len(deliveries))
        if self._adaptive is not None:
            votes, spent = await self._adaptive.complete(trained, [d.one for d in deliveries], group_of)
            began = time.perf_counter()
        reply, fallback = await self._estimation.score(group_of(votes))
        if reply is None:
            return self._neutral(deliveries, began)
        return outcomes(
            reply,
            route="agent",
            entropies=[r.entropy for r in votes],
            trained=range(len(deliveries)),
            pruned=self._pruned,
            shadow=self.config.shadow,
            known={
                "reward_fallback": fallback,
                "reward_wait_ms": _ms_since(began),
                "votes_saved": float(spent.saved),
                "settle_risk": spent.risk,
                "no_span": [float(self._unmasked(d.rollouts[0])) for d in deliveries],
            },
        )

    def _neutral(self, deliveries: Sequence[Delivery], began: float | None = None) -> list[RolloutOutcome]:
        known = {"reward_fallback": 2.0, "reward_wait_ms": 0.0 if began is None else _ms_since(began)}
        shadow = self.config.shadow
        return neutral(len(deliveries), votes=_votes(deliveries), route="agent", shadow=shadow, known=known)

    def _unmasked(self, rollout: ReadRollout) -> bool:
        """Its answer's tokens should not be trained on, and are, because they could not be told."""
        answered = rollout.entry.get("answer") is not None or "text" in rollout.entry
        return self.config.train_on == "reasoning" and answered and rollout.answer is None

    @property
    def _pruned(self) -> Pruned:
        """The setting; else the method's parameter of the same name."""
        asked: Pruned = self.config.every_param.get("pruned", "zero")
        return asked if self.config.pruned == "zero" else self.config.pruned

    def _group(self, of: Delivery, votes: Sequence[ReadRollout], *, trained: int) -> dict[str, Any]:
        """The group as `POST /reward` takes it, named after its prompt, so that the report knows a prompt again."""
        asked = of.prompt if of.images is None else repr((of.prompt, of.images))
        name = hashlib.blake2b(asked.encode("utf-8", "replace"), digest_size=6).hexdigest()
        group: dict[str, Any] = {"group_id": name, "prompt": of.prompt}
        group |= {k: v for k, v in self._rules.group(of.label).items() if v is not None}
        if self.config.entropy != "none":
            exact = self.config.entropy == "plugin"
            group |= {
                "entropy_source": "exact" if exact else "topk",
                "entropy_mode": self.config.entropy_mode if exact else "raw",
            }
        group |= of.sampling
        group["rollouts"] = [{**r.entry, "trained": i < trained} for i, r in enumerate(votes)]
        return group

    def _accuracy(self, delivery: Delivery) -> RolloutOutcome:
        (rollout, *_), shadow = delivery.rollouts, self.config.shadow
        return evaluation(
            self._rules, rollout.entry, delivery.label, route="agent", entropy=rollout.entropy, shadow=shadow
        )


def _votes(deliveries: Sequence[Delivery]) -> int:
    return sum(len(d.rollouts) for d in deliveries)


def _ms_since(began: float) -> float:
    return 1e3 * (time.perf_counter() - began)
