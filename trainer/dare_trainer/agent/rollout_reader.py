"""A continuation as one rollout of `POST /reward`, read as soon as it is there.

Reading an answer costs up to a millisecond and a step has thousands of them. Done when its rollout ends, it runs beside
the generation of the others; done when the group closes, every GPU would wait for it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from dare_reward.estimators.certainty import OVER, last_tokens, reads_answers
from dare_reward.methods import find
from dare_reward.openrlhf import AnswerRules, Label
from dare_reward.scoring.token_sums import without_tokens
from dare_reward.stacks.answer_tokens import answer_tokens

from ..vllm.token_entropy import token_arrays
from .config import AgentConfig


@dataclass(frozen=True, slots=True, eq=False)
class ReadRollout:
    """`completion` is vLLM's; `entry` is what the service gets; `entropy` is the mean in nats, None if unknown.

    `answer` are the final answer's tokens, if they were asked for and it stands in the text.
    """

    completion: Any
    entropy: float | None
    entry: dict[str, Any]
    answer: tuple[int, int] | None = None


class RolloutReader:
    """How this run reads its rollouts."""

    def __init__(self, config: AgentConfig, rules: AnswerRules) -> None:
        self._rules = rules
        self.wants_answers = reads_answers(config.params)
        self._tokens = (
            config.send == "tokens"
            or last_tokens(config.params.get(OVER.name)) > 0
            or any("token_entropies" in find(name).requires for name in (config.method, *config.shadow))
        )

    def answer_tokens(self, completion: Any, text: str, label: Label, tokenizer: Any) -> tuple[int, int] | None:
        """The generated tokens that the final answer stands in."""
        entry = {"num_tokens": len(completion.token_ids), "finish_reason": str(completion.finish_reason or "")}
        ids = list(completion.token_ids)
        return answer_tokens(entry | {"text": text}, ids, tokenizer=tokenizer, rules=self._rules, label=label)[0]

    def read(
        self, completion: Any, text: str, entropies: Any, label: Label, answer: tuple[int, int] | None = None
    ) -> ReadRollout:
        """`entropies` are those of the generated tokens, or None."""
        entry: dict[str, Any] = {"num_tokens": len(completion.token_ids)}
        if completion.finish_reason:
            entry["finish_reason"] = str(completion.finish_reason)
        # Where the service has to see how an answer was found, it gets the text, as from any client.
        response = {"text": text}
        entry |= response if self._rules.needs_text else {"answer": self._rules.read(entry | response, label)}
        mean = None
        tokens = token_arrays(completion, entropies)
        if tokens:
            tokens |= {} if answer is None else {"answer_tokens": list(answer)}
            numbers = without_tokens(tokens)
            mean = numbers.get("mean_entropy")
            entry |= tokens if self._tokens else numbers
        return ReadRollout(completion, mean, entry, answer)
