"""What trackers show: the field's names, and nothing that acts."""

import json
import math

import pytest

import dare_reward
from dare_reward.numbers import NUMBERS, pooled
from dare_reward.runs.line import lines, of_groups
from dare_reward.runs.log import encoded
from dare_reward.stacks.report import harmless, numbers, rollout_columns

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


@pytest.mark.parametrize(
    "text",
    [
        "\x1b[2J\x9b\x07\u202e", "<script>alert(1)</script>", "<img src=x onerror=alert(1)>", "![](http://evil/x.png)",
        "[click](javascript:alert(1))", "[a]: http://evil", "http://evil", "www.evil.example", "=1+1", "+cmd|' /C calc'!A0",
        "@SUM(A1)", "-2+3", "\t=1", "\r=1", "\n=1", "＝1+1", "＠x", "`code`", "![a][b]", "<!--", "&lt;script&gt;", "'=1",
    ],
)  # fmt: skip
def test_what_a_rollout_wrote_does_not_act(text):
    found = harmless(text)
    assert all(c.isprintable() or c in "\n\u200b" for c in found)
    assert not [part for part in ("<", "](", "![", "]:", "][", "://", "www.", "javascript:") if part in found]
    assert not found.startswith(tuple("=+@\t\r\n＝＋－＠"))
    assert not (found.startswith("-") and len(found) > 2)


@pytest.mark.parametrize(
    "start", ["=cmd|' /C calc'!A0", "+1+cmd", "-1-cmd", "@SUM(A1)", "\t=1", "\r=1", "\n=1", "＝1", "\x1b]0;x\x07"]
)
def test_no_cell_of_a_table_is_a_formula(start):
    """Whoever saves a tracker's table as CSV opens it in a spreadsheet."""
    rows = [{"answer": start, "mean_entropy": 0.1}, {"answer": None}]
    beside = rollout_columns(dare_reward.estimate([{"kind": "exact", "rollouts": rows}]), [2])
    texts = [cell for column in beside.values() for cell in column if isinstance(cell, str) and cell]
    assert len(texts) > 4
    assert not [t for t in texts if t.startswith(tuple("=+-@\t\r\n＝＋－＠"))]
    assert {c for t in texts for c in t if not c.isprintable()} <= {"\n", "\u200b"}


@pytest.mark.parametrize("text", ["204", "-3", "-3.5", "+7", "x \\le 3", "\\frac{1}{2}", "a\nb"])
def test_plain_answers_stay_as_they_are(text):
    assert harmless(text) == text
    assert harmless(None) is None
    assert harmless("x" * 300).endswith("...")


def test_columns_of_a_table_of_completions():
    columns = rollout_columns(REPLY, [4, 4, 1])
    assert columns["dare/answer"] == ["2", "2", "3", None, "5", "5", "5", "5", None]
    assert columns["dare/kept"][-1] is None
    assert {len(c) for c in columns.values()} == {9}
    assert set(rollout_columns(None, [2])["dare/answer"]) == {None}
