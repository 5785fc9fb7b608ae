"""A continuation as one rollout of `POST /reward`, read as soon as it is there.

Reading an answer costs up to a millisecond and a step has thousands of them. Done when its rollout ends, it runs beside
the generation of the others; done when the group closes, every GPU would wait for it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from dare_reward.answers import answer_span, span_tokens
from dare_reward.methods import find
from dare_reward.openrlhf import AnswerRules, Label
from dare_reward.segments import segment_means

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
        self._tokens = config.send == "tokens" or any(
            "token_entropies" in find(name).requires for name in (config.method, *config.shadow)
        )

    def answer_tokens(
        self, completion: Any, text: str, label: Label, decode: Callable[[Sequence[int]], str]
    ) -> tuple[int, int] | None:
        """The generated tokens that the final answer stands in."""
        entry = {"num_tokens": len(completion.token_ids), "finish_reason": str(completion.finish_reason or "")}
        span = answer_span(text, lambda said: self._rules.read(entry | {"text": said}, label))
        return span_tokens(text, list(completion.token_ids), decode, span)

    def read(
        self, completion: Any, text: str, entropies: Any, label: Label, answer: tuple[int, int] | None = None
    ) -> ReadRollout:
        """`entropies` are those of the generated tokens, or None."""
        entry: dict[str, Any] = {"num_tokens": len(completion.token_ids)}
        if completion.finish_reason:
            entry["finish_reason"] = str(completion.finish_reason)
        # Where the service has to see how an answer was found, it gets the text, as from any client.
        said = {"text": text}
        entry |= said if self._rules.needs_text else {"answer": self._rules.read(entry | said, label)}
        mean = None
        if entropies is not None and len(entropies):
            values = np.asarray(entropies)
            mean = float(segment_means(values, np.array([len(values)]))[0][0])
            entry |= {"token_entropies": values} if self._tokens else {"mean_entropy": mean}
        return ReadRollout(completion, mean, entry, answer)
