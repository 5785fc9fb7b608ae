"""Rollouts of the bases that reason, in the small form of `real_model.sample` without texts.

A line for each problem; beside its columns, `copied`: whether a rollout's box repeats the result of its last step.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from ..real_model.sample import COLUMNS, compact
from ..training.examine import drawn, rollout
from ..training.families import Exercises
from ..training.sampling import SampledRollout

COPIED = re.compile(r"(.).\\boxed\{\1\}")  # a result, its separator, and the box
KEPT = ("id", "family", "prompt", "accepted", "answers", "right", "answer", *COLUMNS)


def sampled(model: Any, tokenizer: Any, problems: Exercises, *, each: int, seed: int) -> list[dict[str, Any]]:
    """A line for each problem, of `each` rollouts."""
    found = drawn(model, tokenizer, problems, each=each, seed=seed)
    return [
        _line(tokenizer, family, problem.prompt, problem.answer, own)
        for (family, problem), own in zip(problems, found, strict=True)
    ]


def _line(tokenizer: Any, family: str, prompt: str, answer: str, rollouts: Sequence[SampledRollout]) -> dict[str, Any]:
    told = [rollout(tokenizer, r) for r in rollouts]
    group = {
        "group_id": prompt,
        "kind": "exact",
        "prompt": prompt,
        "label": answer,
        "meta": {"family": family},
        "rollouts": [
            {
                "text": t["text"],
                "finish_reason": t["finish_reason"],
                "token_ids": r.ids,
                "token_entropies": r.entropies.tolist(),
                "token_logprobs": r.logprobs.tolist(),
            }
            for t, r in zip(told, rollouts, strict=True)
        ],
    }
    line = compact(group, tokenizer.decode, {})
    return {name: line[name] for name in KEPT} | {"copied": [int(bool(COPIED.search(t["text"]))) for t in told]}
