"""Entropy of softmax(logits / T): by one fused kernel on a GPU, else in torch. Loaded only beside vLLM's sampler."""

from __future__ import annotations

import functools
import logging
from importlib import import_module
from typing import Any

from .token_entropy import FLOOR

torch: Any = import_module("torch")  # not a dependency of this distribution
logger = logging.getLogger("dare_trainer.vllm")

GREEDY = 1e-5  # vLLM's own limit: at or below it a request is greedy and its logits are not divided
_failures: list[Exception] = []  # why the kernel is no longer tried in this process


def entropy(logits: Any, temperature: Any = None, asked: Any = None) -> Any:
    """H = -sum_j p_j ln p_j in nats, [R] float32, of p = softmax(logits / T); `logits` [R, V] of any float type.

    temperature   [R], or None for T = 1
    asked         [R] booleans in NumPy, or None for all rows: the others' entropy is NaN, their logits are not read

    -inf (a grammar's mask) has probability 0; NaN stays NaN. `reference` computes it where the kernel cannot run.
    """
    if asked is not None:
        asked = torch.from_numpy(asked).to(logits.device, non_blocking=True)
    kernel = _kernel()
    if kernel is not None and not _failures and (logits.is_cuda or kernel.INTERPRETED) and logits.stride(1) == 1:
        try:
            return kernel.entropy(logits, temperature, asked, greedy=GREEDY)
        except Exception as error:  # noqa: BLE001  (a node without a compiler: sampling goes on)
            _failures.append(error)
            logger.warning("the entropy kernel failed, entropies are computed in torch: %r", error)
    return reference(logits, temperature, asked)


def reference(logits: Any, temperature: Any = None, asked: Any = None, *, rows: int = 64) -> Any:
    """The same in torch alone, `rows` rows at a time: 64 rows of a vocabulary of 152,000 are 3 x 39 MB."""
    out = torch.empty(logits.shape[0], dtype=torch.float32, device=logits.device)
    for start in range(0, logits.shape[0], rows):
        part = logits[start : start + rows].float()
        if temperature is not None:
            divisor = temperature[start : start + rows].float()
            part = part / torch.where(divisor < GREEDY, 1.0, divisor).unsqueeze(-1)
        out[start : start + rows] = torch.special.entr(torch.softmax(part, dim=-1)).sum(-1)
    return out if asked is None else out.masked_fill_(~asked, torch.nan)


@functools.cache
def _kernel() -> Any:
    try:
        return import_module(".entropy_triton", __package__)
    except ImportError:  # a vLLM without Triton
        return None


def as_ranks(values: Any, dtype: Any) -> Any:
    """The integers that carry these entropies (`token_entropy.decode` reads them)."""
    return values.clamp_min(FLOOR).contiguous().view(torch.int32).to(dtype)
