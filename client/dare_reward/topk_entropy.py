"""Entropy from the k largest log-probabilities: bounds that hold, and an estimate between them.

Known are p_1 >= ... >= p_k; c = p_k; the rest r = 1 - sum p_i is spread over V - k tokens of at most c each. With
H_k = -sum_{i<=k} p_i ln p_i,

    upper  H_k + r ln((V - k) / r)                        the tail uniform (Jensen)
    lower  H_k + m c ln(1/c) + s ln(1/s)                  the tail packed at its cap: m = floor(r / c), s = r - m c

Both are attained, so nothing tighter is true without more knowledge. The estimate takes the tail as a power law
c (j/k)^-a whose exponent makes it sum to r, and is put between the bounds. Truncation (H_k alone) is low by the whole
tail, and is not offered.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

__all__ = ["Bounds", "bounds", "completion_bounds"]

Floats = NDArray[np.float64]
TINY = 1e-300
ROUNDING = 1e-3
HALVINGS = 60


@dataclass(frozen=True, slots=True)
class Bounds:
    """Nats; one entry per token. `tail` is the mass outside the k known tokens."""

    lower: Floats
    upper: Floats
    estimate: Floats
    tail: Floats


def bounds(logprobs: ArrayLike, vocab_size: int) -> Bounds:
    """`logprobs` [..., k]: the k largest of a full-vocabulary log-softmax, in any order; 1 <= k <= vocab_size."""
    lp = -np.sort(-np.asarray(logprobs, np.float64), axis=-1)
    k = lp.shape[-1]
    if not 1 <= k <= vocab_size:
        raise ValueError(f"{k} log-probabilities of a vocabulary of {vocab_size}")
    p = np.exp(lp)
    if p.size and (most := p.sum(-1).max()) > 1.0 + ROUNDING:
        raise ValueError(f"the probabilities of a token's candidates sum to {most:g}")
    known, c, free = _entropy(p).sum(-1), p[..., -1], vocab_size - k
    r = np.clip(1.0 - p.sum(-1), 0.0, free * c)  # rounding may push it outside
    upper = known + np.where(r > 0, r * np.log(max(free, 1) / np.maximum(r, TINY)), 0.0)
    m = np.floor(r / np.maximum(c, TINY))
    lower = known + m * _entropy(c) + _entropy(np.maximum(r - m * c, 0.0))
    lower = np.minimum(lower, upper)
    guess = known + (_power_law(c, r, k, vocab_size) if free else np.zeros_like(r))
    return Bounds(lower, upper, np.clip(guess, lower, upper), r)


def completion_bounds(completion: Any, vocab_size: int, k: int) -> Bounds:
    """Of a `vllm.outputs.CompletionOutput` that was asked for `logprobs=k` in the mode raw_logprobs.

    vLLM lists the sampled token besides the top k; it counts only if it is among them.
    """
    rows = [sorted((entry.logprob for entry in row.values()), reverse=True)[:k] for row in completion.logprobs]
    return bounds(np.array(rows, np.float64).reshape(len(rows), k), vocab_size)


def _entropy(p: Any) -> Floats:
    values = np.asarray(p, np.float64)
    return np.where(values > 0, -values * np.log(np.maximum(values, TINY)), 0.0)


def _power_law(c: Floats, r: Floats, k: int, vocab_size: int) -> Floats:
    """Entropy of a tail c (j/k)^-a, j = k+1 .. V, of sum r; ranks in 400 geometric bins, a by bisection in [0, 60]."""
    edges = np.unique(np.round(np.geomspace(k + 1, vocab_size + 1, 400)).astype(np.int64))
    width = np.diff(edges).astype(np.float64)
    middle = np.sqrt(edges[:-1] * (edges[1:] - 1.0))
    steps = np.log(middle / k)
    start = np.log(np.maximum(c, TINY))[..., None]
    low, high = np.zeros_like(r), np.full_like(r, 60.0)
    for _ in range(HALVINGS):
        a = 0.5 * (low + high)
        mass = (width * np.exp(start - a[..., None] * steps)).sum(-1)
        low, high = np.where(mass > r, a, low), np.where(mass > r, high, a)
    q = np.exp(start - (0.5 * (low + high))[..., None] * steps)
    q = q * (r / np.maximum((width * q).sum(-1), TINY))[..., None]
    return np.where(r > 1e-12, (width * _entropy(q)).sum(-1), 0.0)
