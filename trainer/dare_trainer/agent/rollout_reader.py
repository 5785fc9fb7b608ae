"""A continuation as one rollout of `POST /reward`, read as soon as it is there.

Reading an answer costs up to a millisecond and a step has thousands of them. Done when its rollout ends, it runs beside
the generation of the others; done when the group closes, every GPU would wait for it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from dare_reward._request import READING, read_answers
from dare_reward._segments import segment_means
from dare_reward.answers import option_letters
from dare_reward.methods import find

from .config import AgentConfig
from .labels import Label

__all__ = ["Rollout", "Votes"]


@dataclass(frozen=True, slots=True, eq=False)
class Rollout:
    """`completion` is vLLM's; `entry` is what the service gets; `entropy` is the mean in nats, None if unknown."""

    completion: Any
    text: str
    entropy: float | None
    entry: dict[str, Any]


class Votes:
    """How this run reads its rollouts."""

    def __init__(self, config: AgentConfig) -> None:
        self.kind = config.kind
        self._reading = {k: v for k, v in config.every_param.items() if k in READING}
        # Where the service has to see how an answer was found, it gets the text, as from any client.
        self._texts = self._reading.get("mode", "clean") != "clean" or bool(self._reading.get("fallback"))
        self._tokens = config.send == "tokens" or any(
            "token_entropies" in find(name).requires for name in (config.method, *config.shadow)
        )

    def read(self, completion: Any, text: str, entropies: Any, label: Label) -> Rollout:
        """`entropies` are those of the generated tokens, or None."""
        entry: dict[str, Any] = {"num_tokens": len(completion.token_ids)}
        if completion.finish_reason:
            entry["finish_reason"] = str(completion.finish_reason)
        entry.update({"text": text} if self._texts else {"answer": self._answer({**entry, "text": text}, label)})
        mean = None
        if entropies is not None and len(entropies):
            values = np.asarray(entropies)
            mean = float(segment_means(values, np.array([len(values)]))[0][0])
            entry.update({"token_entropies": values} if self._tokens else {"mean_entropy": mean})
        return Rollout(completion, text, mean, entry)

    def _answer(self, entry: dict[str, Any], label: Label) -> str | None:
        kind: Any = label.kind or self.kind
        options = option_letters(label.options) if kind == "choice" else None
        (found,) = read_answers([entry], [entry["num_tokens"] == 0], kind=kind, options=options, **self._reading)
        return found.answer
