"""How a run's continuations are asked for, and read as rollouts of `POST /reward` as soon as they are there.

Reading an answer costs up to a millisecond and a step has thousands of them. Done when its rollout ends, it runs beside
the generation of the others; done when the group closes, every GPU would wait for it.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import Any, Final

from dare_reward.estimators.method import OVER, last_tokens, reads_answers
from dare_reward.inputs import GROUP_FIELDS
from dare_reward.methods import find
from dare_reward.openrlhf import Label
from dare_reward.openrlhf.url import ActorSettings
from dare_reward.scoring.array_inputs import without_tokens
from dare_reward.stacks.rollout import answer_tokens
from dare_reward.topk_entropy import completion_bounds

from ..vllm.token_entropy import EntropyError, token_arrays, token_entropies

logger = logging.getLogger("dare_trainer")

TOPK: Final = 20


@dataclass(frozen=True, slots=True, eq=False)
class ReadRollout:
    """A rollout as the service gets it (`entry`), and its mean entropy in nats, None if unknown.

    answer   the places of the final answer's tokens, where they were asked for and stand in the text
    lost     they should not train, and do, because they could not be told
    """

    entropy: float | None
    entry: dict[str, Any]
    answer: tuple[int, int] | None = None
    lost: bool = False


class RolloutReader:
    """One per executor."""

    def __init__(self, settings: ActorSettings) -> None:
        self._settings = settings
        self._entropies_seen = False
        self._finds_answers = settings.train_on == "reasoning" or reads_answers(settings.params)
        self._sends_tokens = (
            settings.send == "tokens"
            or last_tokens(settings.params.get(OVER.name)) > 0
            or any("token_entropies" in find(name).requires for name in (settings.method, *settings.shadow))
        )

    def asked(self, params: Any) -> Any:
        """`params` with the log-probabilities that entropies ride on; OpenRLHF reads the sampled token's alone."""
        if self._settings.entropy == "topk":
            params.logprobs = TOPK
        elif self._settings.entropy == "plugin" or params.logprobs is not None or self._settings.reads_logprobs:
            params.logprobs = 0
        return params

    def read(self, completion: Any, prompt: str, label: Label, tokenizer: Any, actor: Any) -> ReadRollout:
        """A continuation of vLLM's; EntropyError where the first of a run has no entropies.

        One that cannot be read for another reason is no vote, as the log says: its training goes on.
        """
        try:
            return self._read(completion, prompt, label, tokenizer, actor)
        except EntropyError:
            raise
        except Exception:
            logger.exception("a rollout cannot be read: it does not vote, and its group goes by votes")
            return ReadRollout(None, {"num_tokens": len(completion.token_ids), "answer": None})

    def _read(self, completion: Any, prompt: str, label: Label, tokenizer: Any, actor: Any) -> ReadRollout:
        rules, text = self._settings.rules, _text(tokenizer, completion)
        answer, lost, mean = None, False, None
        entropies = self._entropies(completion, actor)
        entry: dict[str, Any] = {"num_tokens": len(completion.token_ids)}
        if completion.finish_reason:
            entry["finish_reason"] = str(completion.finish_reason)
        response = entry | {"text": text, "prompt": prompt}
        if self._finds_answers and label.split != "eval":
            ids = list(completion.token_ids)
            answer, lost = answer_tokens(response, ids, tokenizer=tokenizer, rules=rules, label=label)
        # Where the service has to see how an answer was found, it gets the text, as from any client.
        entry |= {"text": text} if rules.needs_text else {"answer": rules.read(response, label)}
        if tokens := token_arrays(completion, entropies, answer):
            numbers = without_tokens(tokens)
            mean = numbers.get("mean_entropy")
            entry |= tokens if self._sends_tokens else numbers
        return ReadRollout(mean, entry, answer, lost and self._settings.train_on == "reasoning")

    def _entropies(self, completion: Any, actor: Any) -> Any:
        """The entropy of each generated token; None where they are not asked for, or missing in a run that had them."""
        if self._settings.entropy == "none" or not len(completion.token_ids):
            return None
        try:
            values: Any
            if self._settings.entropy == "topk":
                size = int(actor.llm.model_config.get_vocab_size())
                values = completion_bounds(completion, size, TOPK).estimate
            else:
                values = token_entropies(completion)
            if not (values >= 0).all():  # nor NaN
                raise EntropyError("an entropy is no number of at least 0")
        except (EntropyError, AttributeError, LookupError, TypeError, ValueError) as error:
            if not self._entropies_seen:
                raise EntropyError(f"no token entropies at the start of the run: {error}") from error
            logger.warning("a rollout without entropies: %s", error)
            return None
        self._entropies_seen = True
        return values


def sampled_with(sampling_params: Any, actor: Any) -> dict[str, Any]:
    """What a group says of its sampling, where it is known: temperature, top-p, and whether vLLM's log-probabilities
    are those before both (raw) or after."""
    values = {name: getattr(sampling_params, name, None) for name in ("temperature", "top_p")}
    mode = getattr(getattr(getattr(actor, "llm", None), "model_config", None), "logprobs_mode", None)
    known = {k: float(v) for k, v in values.items() if isinstance(v, int | float)}
    return known | ({"logprobs_mode": mode} if mode in GROUP_FIELDS["logprobs_mode"].choices else {})


def _text(tokenizer: Any, completion: Any) -> str:
    """The text that was generated, without the token that ended it."""
    ids = list(completion.token_ids)
    if not ids or not completion.text:
        return str(tokenizer.decode(ids, skip_special_tokens=True)) if ids else ""
    if ids[-1] in set(getattr(tokenizer, "all_special_ids", ())):
        return str(completion.text).removesuffix(tokenizer.decode([ids[-1]], skip_special_tokens=False))
    return str(completion.text)
