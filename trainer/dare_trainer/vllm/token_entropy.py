"""Token entropies in the rank column of vLLM's log-probabilities: the encoding, and its reader.

vLLM carries, for every sampled token, (token id, log-probability, rank). The plugin (`plugin.py`) replaces the
rank by the bits of the float32 entropy, so nothing else in vLLM has to change. Entropies are raised to at least 1e-30,
whose bits are 228,737,632: more than any vocabulary has tokens, so a rank is never mistaken for an entropy nor an
entropy for a rank.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, Literal, get_args

import numpy as np
from numpy.typing import NDArray

__all__ = ["FLOOR", "MODES", "SWITCH", "EntropyError", "Mode", "decode", "encode", "token_arrays", "token_entropies"]

Mode = Literal["raw", "temperature"]
MODES: Final = get_args(Mode)
SWITCH: Final = "VLLM_TOKEN_ENTROPY"
FLOOR: Final = 1e-30
FLOOR_BITS: Final = int(np.array([FLOOR], np.float32).view(np.int32)[0])


class EntropyError(RuntimeError):
    """vLLM returned something else than token entropies."""


def encode(entropies: Sequence[float]) -> NDArray[np.int64]:
    """The ranks that stand for these entropies (nats). What the worker does in torch; here for tests and fakes."""
    return np.maximum(np.asarray(entropies, np.float32), np.float32(FLOOR)).view(np.int32).astype(np.int64)


def decode(ranks: Sequence[int | None]) -> NDArray[np.float32]:
    """The entropies (nats) that these ranks stand for; EntropyError for a genuine rank or a NaN."""
    if any(r is None for r in ranks):
        raise EntropyError("vLLM returned log-probabilities without ranks")
    bits = np.asarray(ranks, np.int64)
    if (genuine := (bits >= 0) & (bits < FLOOR_BITS)).any():
        raise EntropyError(
            f"rank {int(bits[genuine][0])} is a genuine rank: the token-entropy plugin is not active in vLLM. "
            f"Install dare-reward in vLLM's environment, set {SWITCH}=temperature before the engine starts, and list "
            "token_entropy in VLLM_PLUGINS if that is set"
        )
    values = bits.astype(np.int32).view(np.float32)
    if not np.isfinite(values).all():
        raise EntropyError("an entropy is not finite: the model's logits are NaN (were its weights loaded?)")
    return values


def token_entropies(completion: Any) -> NDArray[np.float32]:
    """Entropies (nats) of the generated tokens of a `vllm.outputs.CompletionOutput`, aligned with `token_ids`.

    The request must have asked for `logprobs=0`. With more, vLLM's dictionaries list the sampled token twice and keep
    the second entry's rank; `flat_logprobs=True` keeps both.
    """
    ids = list(completion.token_ids)
    rows = completion.logprobs
    if rows is None:
        raise EntropyError("the request did not ask for log-probabilities: set SamplingParams(logprobs=0)")
    if len(rows) != len(ids):
        raise EntropyError(f"{len(rows)} log-probabilities for {len(ids)} tokens")
    return decode(_sampled(ids, rows, "rank"))


def token_arrays(completion: Any, entropies: Any, answer: Sequence[int] | None = None) -> dict[str, Any]:
    """What is known of a completion's tokens, by the inputs' names: entropies, where they were asked for; and
    log-probabilities with the ids that tell the path, where vLLM returned them and each is finite. Beside either, the
    places of the answer's tokens, if these are known."""
    out: dict[str, Any] = {}
    if entropies is not None and len(entropies):
        out["token_entropies"] = np.asarray(entropies)
    ids, rows = list(completion.token_ids), completion.logprobs
    if ids and rows is not None and len(rows) == len(ids):
        logprobs = np.array(_sampled(ids, rows, "logprob"), np.float64)
        if np.isfinite(logprobs).all():  # what of them rounding puts above 0 is 0
            out |= {"token_logprobs": np.minimum(logprobs, 0.0), "token_ids": ids}
    return out | ({"answer_tokens": list(answer)} if out and answer is not None else {})


def _sampled(ids: Sequence[int], rows: Any, name: str) -> list[Any]:
    """The `rank` or the `logprob` of each generated token, None where vLLM lists it under no token of this id."""
    if hasattr(rows, "start_indices"):
        column = getattr(rows, f"{name}s")
        return [column[i] for i in rows.start_indices]
    return [getattr(row.get(token), name, None) for token, row in zip(ids, rows, strict=True)]
