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
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

Floats = NDArray[np.float64]
TINY = 1e-300
ROUNDING = 1e-3
STEEPEST = 60.0  # exponent of a tail
TAILS = 4096  # exponents that are tabulated


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
    p = np.minimum(p, 1.0)  # what rounding puts above would have a negative entropy
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


@lru_cache(maxsize=4)
def _tails(k: int, vocab_size: int) -> tuple[Floats, Floats]:
    """ln S(a) and G(a) = ln S + a T / S of tails (j/k)^-a, j = k+1 .. V, with S their sum and T = -dS/da; ln S rises.

    A tail of sum r over its cap c has S = r / c, and the entropy r (G - ln r). Ranks lie in 400 geometric bins. The
    exponents, 0 to 60, are dense at 0, where ln S bends; between them straight lines are off by less than 1e-4 nats.
    """
    edges = np.unique(np.round(np.geomspace(k + 1, vocab_size + 1, 400)).astype(np.int64))
    width = np.diff(edges).astype(np.float64)
    steps_B = np.log(np.sqrt(edges[:-1] * (edges[1:] - 1.0)) / k)
    a_N = STEEPEST * np.linspace(1.0, 0.0, TAILS) ** 3
    terms_NB = width * np.exp(-a_N[:, None] * steps_B)
    sum_N = terms_NB.sum(-1)
    return np.log(sum_N), np.log(sum_N) + a_N * (terms_NB @ steps_B) / sum_N


def _power_law(c: Floats, r: Floats, k: int, vocab_size: int) -> Floats:
    """Entropy of a tail c (j/k)^-a, j = k+1 .. V, of sum r."""
    mass, there = np.maximum(r, TINY), r > 1e-12
    shape = np.interp(np.log(mass) - np.log(np.maximum(c, TINY)), *_tails(k, vocab_size))
    return np.where(there, r * (shape - np.log(mass)), 0.0)
