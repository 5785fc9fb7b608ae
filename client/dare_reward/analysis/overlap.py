"""Overlap of rollouts as the paper's operational proxy of correlation: mean over pairs, then over prompts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..overlap import KINDS
from ..overlap import rollout_overlap as _all_kinds

__all__ = ["KINDS", "mean_overlap", "rollout_overlap"]


def rollout_overlap(token_ids: Sequence[NDArray[Any] | Sequence[int]], kind: str = "multiset") -> float:
    """Mean overlap of one `kind` (`KINDS`) over the M(M-1)/2 pairs; NaN for fewer than two rollouts.

    `token_ids` are without the prompt and the end token. `multiset` is the default: it minds lengths, jaccard of token
    types saturates on long texts, positional collapses after one insertion.
    """
    return _all_kinds([np.asarray(t, np.int64) for t in token_ids]).get(kind, np.nan)


def mean_overlap(prompts: Sequence[Sequence[NDArray[Any] | Sequence[int]]]) -> dict[str, float]:
    """Every kind, averaged over the prompts that have two rollouts; empty if none has."""
    found = [_all_kinds([np.asarray(t, np.int64) for t in rollouts]) for rollouts in prompts if len(rollouts) > 1]
    return {kind: float(np.mean([f[kind] for f in found])) for kind in KINDS} if found else {}
