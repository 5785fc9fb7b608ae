"""Measures on labelled rollouts and on runs. NumPy alone, pure functions; truth enters here and in no estimator.

>>> from dare_reward.analysis import pass_at_k, steps_to_threshold
>>> pass_at_k(16, 4, 1)
0.25
>>> steps_to_threshold([(0, 28.6), (2, 33.0), (4, 41.0)], [30, 40, 50])
[2, 4, None]
"""

from __future__ import annotations

from .auroc import EntropyAuroc, entropy_auroc, group_auroc, matched_pairs, pooled_auroc
from .bias import EstimatorError, MajorityBias, estimator_error, mv_bias
from .bootstrap import Interval, mean_interval, ratio_interval
from .correlation import Consistency, answer_counts, latent_correlation, marginal_consistency
from .curves import evaluation_interval, steps_to_threshold
from .direction import direction_gain, direction_of_counts, normalised
from .information import Information, entropy, mutual_information, quantile_bins
from .labels import known_groups, mode_answers, right_answers, share_right
from .ood import OodRow, ood_table
from .overlap import KINDS, mean_overlap, rollout_overlap
from .passk import majority_at_k, pass_at_k, pass_at_k_interval, standard_error
from .ranks import mean_ranks, rank_correlation

__all__ = [
    "KINDS",
    "Consistency",
    "EntropyAuroc",
    "EstimatorError",
    "Information",
    "Interval",
    "MajorityBias",
    "OodRow",
    "answer_counts",
    "direction_gain",
    "direction_of_counts",
    "entropy",
    "entropy_auroc",
    "estimator_error",
    "evaluation_interval",
    "group_auroc",
    "known_groups",
    "latent_correlation",
    "majority_at_k",
    "marginal_consistency",
    "matched_pairs",
    "mean_interval",
    "mean_overlap",
    "mean_ranks",
    "mode_answers",
    "mutual_information",
    "mv_bias",
    "normalised",
    "ood_table",
    "pass_at_k",
    "pass_at_k_interval",
    "pooled_auroc",
    "quantile_bins",
    "rank_correlation",
    "ratio_interval",
    "right_answers",
    "rollout_overlap",
    "share_right",
    "standard_error",
    "steps_to_threshold",
]
