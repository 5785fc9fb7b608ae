"""What trackers show: the numbers by the field's names."""

import json
import math

import pytest

import dare_reward
from dare_reward.numbers import NUMBERS, pooled
from dare_reward.runs.line import lines, of_groups
from dare_reward.runs.log import encoded
from dare_reward.stacks.report import numbers

GROUPS = [
    {"group_id": "a", "label": "2", "prompt": "1+1?", "rollouts": [
        {"text": "\\boxed{2}", "mean_entropy": 0.2, "num_tokens": 4}, {"text": "\\boxed{2}", "mean_entropy": 0.4, "num_tokens": 6},
        {"text": "\\boxed{3}", "mean_entropy": 0.9, "num_tokens": 8},
        {"answer": None, "num_tokens": 2, "finish_reason": "length"}]},
    {"group_id": "b", "label": "1", "rollouts": [{"answer": "5", "mean_entropy": 0.1}] * 4},
    {"group_id": "c", "rollouts": [{"answer": "5"}]},
]  # fmt: skip
REPLY = dare_reward.estimate(GROUPS, shadow=["ttrl"])


def read(groups=GROUPS, reply=REPLY, asked=frozenset({"texts", "prompt"}), **more):
    return [json.loads(t) for t in lines(of_groups(groups, reply.groups, asked=asked, **more), 0.0, encoded)]


def test_the_scalars_of_a_step():
    found = pooled(read())
    assert {n.name for n in NUMBERS if n.of is not None} - {"entropy_auroc", "trace_entropy"} <= found.keys()
    rewards = [r for g in REPLY.groups[:2] for r in g.rewards]
    first = REPLY.groups[0].rewards
    deviation = math.sqrt(sum((r - sum(first) / 4) ** 2 for r in first) / 4)
    expected = {
        "majority_ratio": (0.5 + 1) / 2, "label_accuracy": 0.5, "ground_truth_ratio": (0.5 + 0) / 2,
        "frac_reward_zero_std": 0.5, "reward": sum(rewards) / 8, "reward_std": deviation / 2, "invalid": 1 / 8,
        "distinct_answers": 1.5, "dropped": sum(g.drop is not None for g in REPLY.groups[:2]) / 2,
        "entropy": (0.2 + 0.4 + 0.9 + 4 * 0.1) / 7, "entropy_right": 0.3, "entropy_wrong": (0.9 + 0.4) / 5,
        "num_tokens": 5, "truncated": 1 / 4, "group_errors": 1 / 3,
    }  # fmt: skip
    assert {k: found[k] for k in expected} == pytest.approx(expected)
    assert found["shadow_ttrl_label_agreement"] == 1


def test_votes_are_not_trained_on_and_nothing_is_known_of_nothing():
    groups = [{"rollouts": [{"answer": a, "mean_entropy": 0.1, "trained": a == "1"} for a in "1122"]}]
    assert pooled(read(groups, dare_reward.estimate(groups)))["frac_reward_zero_std"] == 1
    assert (pooled([]), numbers(None, GROUPS)) == ({}, {"abstained": 1.0})
