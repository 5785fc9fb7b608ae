"""Measures on labelled rollouts and on runs. NumPy alone, pure functions; truth enters here and in no estimator.

>>> from dare_reward.analysis import pass_at_k
>>> pass_at_k(16, 4, 1)
0.25
"""

from __future__ import annotations

from .auroc import EntropyAuroc, entropy_auroc, group_auroc, matched_pairs, pooled_auroc
from .bootstrap import Interval, mean_interval, ratio_interval
from .labels import known_groups, mode_answers, right_answers, share_right
from .passk import majority_at_k, pass_at_k, pass_at_k_interval, standard_error
from .ranks import mean_ranks, rank_correlation

__all__ = [
    "EntropyAuroc",
    "Interval",
    "entropy_auroc",
    "group_auroc",
    "known_groups",
    "majority_at_k",
    "matched_pairs",
    "mean_interval",
    "mean_ranks",
    "mode_answers",
    "pass_at_k",
    "pass_at_k_interval",
    "pooled_auroc",
    "rank_correlation",
    "ratio_interval",
    "right_answers",
    "share_right",
    "standard_error",
]
