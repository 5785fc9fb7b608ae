"""The sampled rollouts in a small form: what the figures need of each.

Means and sums of entropies and log-probabilities over the whole rollout and over the answer's tokens. A file is a line
that says how it was made, and a line for each question; what packed it stands at commit 3768e86a.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from dare_reward.answers.kinds import Kind
from dare_reward.segments import Floats, Ints

from ..records import read as unpacked

# Numbers of a rollout. `closed`: with the token that ends the answer, `open`: without it.
COLUMNS = {
    "tokens": "its number of tokens",
    "path": "which of the question's distinct token sequences it is",
    "entropy": "mean entropy of all tokens, nats",
    "logprob": "sum of all log-probabilities, nats",
    "span": "tokens of the answer; 0 without a span, and then all tokens stand in for it",
    "closed_entropy": "mean entropy of the answer's tokens and the one that ends it",
    "open_entropy": "the same without that one",
    "first_entropy": "entropy of the answer's first token",
    "closed_logprob": "sum of log-probabilities of the answer's tokens and the one that ends it",
    "open_logprob": "the same without that one",
}


@dataclass(frozen=True, slots=True, eq=False)
class SampledQuestion:
    """A question with M rollouts.

    accepted   right answers, the usual one first
    answer_M   which of the question's answers it gives, -1 for none
    right_A    the answer is right
    names_A    the answers
    columns    COLUMNS, float64 [M] each
    """

    id: str
    family: str
    kind: Kind
    prompt: str
    accepted: tuple[str, ...]
    answer_M: Ints
    right_A: Ints
    names_A: tuple[str, ...]
    columns: Mapping[str, Floats]

    @property
    def right_M(self) -> Floats:
        """1 right, 0 wrong or without an answer."""
        return np.append(self.right_A, 0)[self.answer_M].astype(float)


def read(path: Path) -> list[SampledQuestion]:
    """The questions."""
    return [_question(json.loads(line)) for line in unpacked(path).splitlines()[1:]]


def _question(line: Mapping[str, Any]) -> SampledQuestion:
    return SampledQuestion(
        line["id"],
        line["family"],
        line.get("kind", "exact"),  # the bases that reason have one kind, and keep none
        line["prompt"],
        tuple(line["accepted"]),
        np.array(line["answer"], np.int64),
        np.array(line["right"], np.int64),
        tuple(line["answers"]),
        {name: np.array(line[name], float) for name in COLUMNS},
    )
