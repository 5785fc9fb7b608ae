"""Probabilities of a reference answer's tokens under the policy, for `rlpr` and `verifree`, by vLLM's prompt_logprobs.

The prompt of the scoring pass is what the policy has read and written so far, followed by the reference answer; vLLM
returns the log-probability of each prompt token, and those of the answer's tokens are p(y*_t | x, z, y*_<t). Nothing is
generated. vLLM is used only through the objects that are passed in.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

__all__ = ["base_mean_probs", "mean_probability", "probabilities", "reference_inputs", "reference_probs"]

TokenIds = Sequence[int]


def probabilities(
    prompt_logprobs: Sequence[Mapping[int, Any] | None], prompt_ids: TokenIds, answer_length: int
) -> list[float]:
    """p of each of the last `answer_length` prompt tokens.

    Args:
        prompt_logprobs: as `RequestOutput.prompt_logprobs` has it: for each prompt token None (the first one) or a
            mapping from token ids to objects with `logprob`, the token itself among them
    """
    if not 0 < answer_length < len(prompt_ids) or len(prompt_logprobs) != len(prompt_ids):
        raise ValueError(
            f"{len(prompt_logprobs)} entries for {len(prompt_ids)} prompt tokens, the last {answer_length} of them the "
            "answer: the answer needs at least one token, and one before it"
        )
    pairs = zip(prompt_logprobs[-answer_length:], prompt_ids[-answer_length:], strict=True)
    return [_probability(entry, token) for entry, token in pairs]


def _probability(entry: Mapping[int, Any] | None, token: int) -> float:
    if entry is None or token not in entry:
        raise ValueError(f"no log-probability of prompt token {token}: ask vLLM for prompt_logprobs >= 0")
    value = float(getattr(entry[token], "logprob", entry[token]))
    return min(math.exp(value), 1.0)  # float32 log-probabilities can exceed 0 by a rounding error


def mean_probability(values: Sequence[float]) -> float:
    """The mean of probabilities, not of their logarithms."""
    return math.fsum(values) / len(values)


def reference_inputs(contexts: Sequence[TokenIds], answers: Sequence[TokenIds]) -> list[dict[str, list[int]]]:
    """The prompts of the scoring pass: each context followed by its reference answer, as token ids."""
    return [{"prompt_token_ids": [*c, *a]} for c, a in zip(contexts, answers, strict=True)]


def reference_probs(
    engine: Any, contexts: Sequence[TokenIds], answers: Sequence[TokenIds], *, sampling: Any = None
) -> list[list[float]]:
    """`ref_token_probs` for each rollout.

    Args:
        engine: a `vllm.LLM`
        contexts: question and reasoning of each rollout up to where its answer begins
        answers: the reference answer's tokens as the policy would write them there
        sampling: its `SamplingParams`; by default one token is generated and dropped, with `prompt_logprobs=0`: the
            log-probability of each prompt token and of no other

    With the context of the question alone, `base_mean_probs` gives `base_ref_mean_prob`.
    """
    if sampling is None:
        from vllm import SamplingParams  # noqa: PLC0415  (only a GPU node has it)

        sampling = SamplingParams(max_tokens=1, temperature=0.0, prompt_logprobs=0)
    outputs = engine.generate(reference_inputs(contexts, answers), sampling, use_tqdm=False)
    return [
        probabilities(output.prompt_logprobs, output.prompt_token_ids, len(answer))
        for output, answer in zip(outputs, answers, strict=True)
    ]


def base_mean_probs(
    engine: Any, questions: Sequence[TokenIds], answers: Sequence[TokenIds], *, sampling: Any = None
) -> list[float]:
    """`base_ref_mean_prob` for each question: the mean without reasoning, once, with the base model."""
    return [mean_probability(p) for p in reference_probs(engine, questions, answers, sampling=sampling)]
