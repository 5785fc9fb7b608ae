"""Completions to figures: the answer room extracts and grades, intervals are over problems."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

import numpy as np

from dare_reward.analysis.bootstrap import mean_interval
from dare_reward.scoring.diagnostics import correctness
from dare_reward.scoring.request import UNLIMITED, prepare
from dare_trainer.evaluation.passk import majority_at_k, pass_at_k_interval
from dare_trainer.launch.questions import LabelledQuestion

from .completions import Completion


def score(
    problems: Sequence[LabelledQuestion], completions: Sequence[Sequence[Completion]], *, ks: Sequence[int]
) -> dict[str, Any]:
    """pass@k and maj@k with 95% intervals, parse rate, truncated share, mean tokens; ready for JSON.

    A completion that ran out of tokens counts by a closed box only. Problems without a completion are left out, and
    those with fewer than k enter no figure of that k.
    """
    pairs = [(p, c) for p, c in zip(problems, completions, strict=True) if c]
    if not pairs:
        return {"problems": len(problems), "answered_problems": 0}
    prepared = prepare([_group(i, p, c) for i, (p, c) in enumerate(pairs)], limits=UNLIMITED)
    groups, correct_R = prepared.groups, correctness(prepared)
    right_P = groups.sum_rollouts(correct_R).astype(np.int64)
    cut = [c.finish_reason == "length" for _, group in pairs for c in group]
    tokens = [c.tokens for _, group in pairs for c in group if c.tokens is not None]
    return {
        "problems": len(problems),
        "answered_problems": len(pairs),
        "completions": len(correct_R),
        "pass": {str(k): asdict(pass_at_k_interval(groups.sizes_P, right_P, k)) for k in ks},
        "majority": {str(k): asdict(mean_interval(majority_at_k(groups, correct_R, k))) for k in ks},
        "parsed": float(groups.valid_R.mean()),
        "truncated": float(np.mean(cut)),
        "mean_tokens": float(np.mean(tokens)) if tokens else None,
    }


def _group(index: int, problem: LabelledQuestion, completions: Sequence[Completion]) -> dict[str, Any]:
    options = {} if problem.options is None else {"options": len(problem.options)}
    return {
        "group_id": str(index),
        "kind": problem.kind,
        "label": problem.labels,
        **options,
        "rollouts": [{"text": c.text, "finish_reason": c.finish_reason or "stop"} for c in completions],
    }
