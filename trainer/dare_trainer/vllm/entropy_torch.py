"""Entropy of softmax(logits / T) in torch. Loaded only in a process that runs vLLM's sampler."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from .token_entropy import FLOOR

__all__ = ["as_ranks", "entropy"]

torch: Any = import_module("torch")  # not a dependency of this distribution

GREEDY = 1e-5  # vLLM's own limit: at or below it a request is greedy and its logits are not divided


def entropy(logits: Any, temperature: Any = None, *, rows: int = 64) -> Any:
    """H = -sum_j p_j ln p_j in nats, [R] float32, of p = softmax(logits / T); `logits` [R, V] of any float type.

    `temperature` is [R] or None for T = 1. Computed in float32, `rows` rows at a time: 64 rows of a vocabulary of
    152,000 are 2 x 39 MB. entr(0) = 0, so logits of -inf (a grammar's mask) are fine; NaN stays NaN.
    """
    out = torch.empty(logits.shape[0], dtype=torch.float32, device=logits.device)
    for start in range(0, logits.shape[0], rows):
        part = logits[start : start + rows].float()
        if temperature is not None:
            divisor = temperature[start : start + rows].float()
            part = part / torch.where(divisor < GREEDY, 1.0, divisor).unsqueeze(-1)
        out[start : start + rows] = torch.special.entr(torch.softmax(part, dim=-1)).sum(-1)
    return out


def as_ranks(values: Any, dtype: Any) -> Any:
    """The integers that carry these entropies (`token_entropy.decode` reads them)."""
    return values.clamp_min(FLOOR).contiguous().view(torch.int32).to(dtype)
