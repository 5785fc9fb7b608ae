"""Completions to figures: the answer room extracts and grades, intervals are over problems."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

import numpy as np

from dare_reward.analysis.bootstrap import mean_interval
from dare_reward.analysis.passk import majority_at_k, pass_at_k_interval
from dare_reward.scoring.diagnostics import correctness
from dare_reward.scoring.request import UNLIMITED, prepare
from dare_trainer.launch.questions import LabelledQuestion

from .rollout_file import RolloutFile


def score(
    problems: Sequence[LabelledQuestion], file: RolloutFile, *, samples: int, ks: Sequence[int]
) -> dict[str, Any]:
    """pass@k and maj@k with 95% intervals, parse rate, truncated share, mean tokens; ready for JSON.

    Of each problem the first `samples` rollouts count. One that ran out of tokens counts by a closed box only. Problems
    without a rollout are left out, and those with fewer than k enter no figure of that k.
    """
    bodies = [p.group(file.rollouts(p.id)[:samples]) for p in problems if file.rollouts(p.id)]
    if not bodies:
        return {"problems": len(problems), "answered_problems": 0}
    prepared = prepare([{**body, "group_id": str(i)} for i, body in enumerate(bodies)], limits=UNLIMITED)
    groups, correct_R = prepared.groups, correctness(prepared)
    right_P = groups.sum_rollouts(correct_R).astype(np.int64)
    lines = [line for p in problems for line in file.lines.get(p.id, ())]
    known = [line for line in lines if isinstance(line["meta"].get("completion_tokens"), int)]
    tokens, counted = (sum(line["meta"]["completion_tokens"] for line in known), sum(len(x["rollouts"]) for x in known))
    return {
        "problems": len(problems),
        "answered_problems": len(bodies),
        "completions": len(correct_R),
        "pass": {str(k): asdict(pass_at_k_interval(groups.sizes_P, right_P, k)) for k in ks},
        "majority": {str(k): asdict(mean_interval(majority_at_k(groups, correct_R, k))) for k in ks},
        "parsed": float(groups.valid_R.mean()),
        "truncated": float(np.mean([r["finish_reason"] == "length" for body in bodies for r in body["rollouts"]])),
        "mean_tokens": tokens / counted if counted else None,
    }
