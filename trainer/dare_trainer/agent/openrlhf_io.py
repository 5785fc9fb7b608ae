"""The forms that OpenRLHF's `execute` takes and returns, as its own single-turn executor has them (0.9.1 to 0.11.2)."""

from __future__ import annotations

from collections.abc import Sequence
from copy import deepcopy
from dataclasses import dataclass
from importlib import import_module
from typing import Any

from dare_reward.inputs import GROUP_FIELDS


@dataclass(frozen=True, slots=True, eq=False)
class Tokenized:
    ids: list[int]
    pictures: Any = None
    training_inputs: Any = None


def tokenize(hf_tokenizer: Any, prompt: str, images: Any) -> Tokenized:
    """The prompt's tokens; with images, what the processor made of them."""
    if images and hasattr(hf_tokenizer, "image_processor"):
        process = import_module("openrlhf.utils.vlm_utils").process_prompt_with_images
        ids, training_inputs, pictures = process(hf_tokenizer, prompt, images)
        return Tokenized(list(ids), pictures, training_inputs)
    return Tokenized(list(hf_tokenizer(text=prompt, add_special_tokens=False)["input_ids"]))


def fit(sampling_params: Any, ids: Sequence[int], max_length: int, *, cut: bool) -> tuple[Any, list[int]]:
    """Parameters with a definite `max_tokens`, and the prompt's last tokens that leave room for them.

    `sampling_params` is shared by the group and stays as it is.
    """
    params = deepcopy(sampling_params)
    if params.max_tokens is None:
        params.max_tokens = max(1, max_length - len(ids))
    room = max_length - params.max_tokens
    if len(ids) <= room:
        return params, list(ids)
    if not cut:
        raise ValueError(f"a prompt with images has {len(ids)} tokens and may have {room}: raise the maximum length")
    return params, list(ids[-room:]) if room > 0 else list(ids)


def sampled_with(sampling_params: Any, llm_engine: Any) -> dict[str, Any]:
    """What a group says of its sampling, where it is known: temperature, top-p, and whether vLLM's log-probabilities
    are those before (raw) or after both."""
    values = {name: getattr(sampling_params, name, None) for name in ("temperature", "top_p")}
    config = getattr(getattr(llm_engine, "llm", None), "model_config", None)
    mode = getattr(config, "logprobs_mode", None)
    known = {k: float(v) for k, v in values.items() if isinstance(v, int | float)}
    return known | ({"logprobs_mode": mode} if mode in GROUP_FIELDS["logprobs_mode"].choices else {})


def generated_text(hf_tokenizer: Any, completion: Any) -> str:
    """The text that was generated, without the token that ended it."""
    ids = list(completion.token_ids)
    if not ids:
        return ""
    if not completion.text:
        return str(hf_tokenizer.decode(ids, skip_special_tokens=True))
    text = str(completion.text)
    if ids[-1] in set(getattr(hf_tokenizer, "all_special_ids", ())):
        text = text.removesuffix(hf_tokenizer.decode([ids[-1]], skip_special_tokens=False))
    return text


def response(
    ids: list[int],
    completion: Any,
    outcome: Any,
    sampling_params: Any,
    *,
    answer: tuple[int, int] | None = None,
) -> dict[str, Any]:
    """What was generated and what it got, as OpenRLHF stores it. `rollout_log_probs` only where it asked for them.

    `answer` are generated tokens that are no actions; where nothing else was generated, they are.
    """
    generated = list(completion.token_ids)
    whole = ids + generated
    start = len(whole) - 1 if outcome.masked and generated else len(ids)
    log_probs = None
    if sampling_params.logprobs is not None and completion.logprobs is not None:
        rows = [row.get(token) for token, row in zip(generated, completion.logprobs, strict=True)]
        log_probs = [0.0] * len(ids) + [0.0 if x is None else float(x.logprob) for x in rows]
    return {
        "observation_tokens": whole,
        "action_ranges": _around(start, len(whole), None if answer is None else tuple(len(ids) + at for at in answer)),
        "rollout_log_probs": log_probs,
        "truncated": completion.finish_reason == "length",
        "reward": outcome.reward,
        "scores": outcome.score,
        "extra_logs": dict(outcome.logs),
    }


def _around(start: int, end: int, answer: tuple[int, ...] | None) -> list[tuple[int, int]]:
    """[start, end) without the answer's tokens."""
    if answer is None:
        return [(start, end)]
    parts = [(start, min(max(answer[0], start), end)), (min(max(answer[1], start), end), end)]
    return [part for part in parts if part[0] < part[1]] or [(start, end)]
