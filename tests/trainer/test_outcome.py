"""Rewards for OpenRLHF: the grid, the three ways with pruned rollouts and their advantages, the fixed logs."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dare_reward import estimate
from dare_reward._shadow_methods import log_names
from dare_trainer.agent.outcome import LOGS, evaluation, neutral_group, outcomes, rounded

ANSWERS = ["7"] * 5 + ["5"] * 2 + ["1"] + [None]
ENTROPIES = [0.2] * 5 + [0.3] * 2 + [3.0] + [0.5]


def reply(**params):
    rollouts = [{"answer": a, "mean_entropy": h} for a, h in zip(ANSWERS, ENTROPIES, strict=True)]
    return estimate([{"kind": "exact", "label": "7", "rollouts": rollouts}], method="dare", **params).groups[0]


def settle(pruned="zero", trained=range(9), **params):
    return outcomes(reply(**params), trained=trained, entropies=ENTROPIES, pruned=pruned)


def advantages(rewards):
    """OpenRLHF's group_norm, in float32."""
    r = np.array(rewards, np.float32)
    return (r - r.mean()) / (r.std(ddof=1) + np.float32(1e-9))


@given(st.lists(st.floats(-10, 10), min_size=1, max_size=64))
def test_rewards_lie_on_the_grid_and_keep_their_order(values):
    found = rounded(values)
    assert all((r * 65536).is_integer() for r in found)
    assert all(abs(a - b) <= 2.0**-16 for a, b in zip(found, values, strict=True))
    for a, x in zip(found, values, strict=True):
        for b, y in zip(found, values, strict=True):
            assert a <= b if x <= y else a >= b


def test_equal_rewards_give_no_advantage():
    """In float32 the mean of equal numbers may differ from them, and every rollout then gets the same large advantage."""
    values = np.random.default_rng(0).random(500)
    assert max(abs(advantages([v] * 33)).max() for v in values) > 0.5
    for size in (8, 32, 33, 64):
        assert max(abs(advantages(rounded([v] * size))).max() for v in values) == 0


def test_noise_below_the_grid_is_no_difference():
    assert len(set(rounded([0.5 + 2.0**-17, 0.5 + 2.0**-17 - 1e-12, 0.5 + 2.0**-17 + 1e-12]))) == 1


def test_pruned_zero_is_the_equation():
    found = settle("zero")
    assert found[7].reward == 0.0
    assert found[7].logs["pruned"] == 1.0
    assert found[8].reward == 0.0
    assert found[8].logs["pruned"] == 0.0
    assert found[8].logs["invalid"] == 1.0
    assert not any(o.masked for o in found)
    assert advantages([o.reward for o in found])[7] < -1


@pytest.mark.parametrize("mode", ["neutral", "mask"])
def test_pruned_neutral_has_no_advantage(mode):
    found = settle(mode)
    a = advantages([o.reward for o in found])
    assert abs(a[7]) < 1e-3
    assert [o.masked for o in found] == [mode == "mask" and i == 7 for i in range(9)]
    kept = [i for i in range(9) if i != 7]
    own = advantages([found[i].reward for i in kept])
    ratio = math.sqrt(8 / 7)  # the survivors' own advantages, scaled by sqrt((n - 1) / (|S| - 1))
    assert a[kept] == pytest.approx(own * ratio, abs=1e-3)


def test_neutral_is_over_the_trained():
    trained = [0, 1, 5, 7]
    found = settle("neutral", trained)
    assert len(found) == 4
    assert abs(advantages([o.reward for o in found])[3]) < 1e-3


def test_scores_agree_with_the_plurality():
    assert [o.score for o in settle()] == [1.0] * 5 + [0.0] * 4


def test_logs_are_always_the_same_finite_numbers():
    every = [
        *settle(),
        *neutral_group(3, votes=6),
        evaluation(right=True, entropy=None),
        evaluation(right=False, entropy=0.3),
    ]
    for o in every:
        assert tuple(o.logs) == tuple(LOGS)
        assert all(type(v) is float and math.isfinite(v) for v in (*o.logs.values(), o.reward, o.score))
    reserved = {"reward", "score", "kl", "return", "logprobs_diff", "group_reward_std", "response_clip_ratio"}
    assert not reserved & LOGS.keys()


def test_logs_of_shadow_methods_are_always_the_same_finite_numbers():
    asked = ("ttrl", "gt", "evol_rl")
    told = reply(shadow=asked)
    scored = outcomes(told, trained=range(9), entropies=ENTROPIES, pruned="zero", shadow=asked)
    bare = outcomes(reply(), trained=range(9), entropies=ENTROPIES, pruned="zero", shadow=asked)
    every = [
        *scored,
        *bare,
        *neutral_group(3, votes=6, shadow=asked),
        evaluation(right=True, entropy=None, shadow=asked),
    ]
    keys = (*LOGS, *log_names(asked))
    for o in every:
        assert tuple(o.logs) == keys
        assert all(type(v) is float and math.isfinite(v) for v in o.logs.values())
    assert [(o.reward, o.score) for o in scored] == [(o.reward, o.score) for o in settle()]
    found = told.diagnostics["shadow"]
    assert scored[0].logs["shadow_ttrl_cosine"] == found["ttrl"]["cosine"]
    assert scored[0].logs["shadow_ttrl_cosine_known"] == 1.0
    assert scored[0].logs["shadow_gt_flipped"] == found["gt"]["flipped"]
    for o, name in ((scored[0], "evol_rl"), (bare[0], "ttrl"), (every[-1], "ttrl")):
        told_of = {k: v for k, v in o.logs.items() if k.startswith(f"shadow_{name}_")}
        assert told_of.pop(f"shadow_{name}_cosine_known") == 0.0
        assert set(told_of.values()) == {-1.0}


def test_logs_say_what_happened():
    logs = settle()[0].logs
    assert logs["majority_ratio"] == pytest.approx(5 / 9)
    assert logs["label_accuracy"] == 1.0
    assert logs["ground_truth_ratio"] == pytest.approx(5 / 9)
    assert logs["pruned_share"] == pytest.approx(1 / 9)
    assert logs["invalid_share"] == pytest.approx(1 / 9)
    assert logs["mean_u"] == pytest.approx(np.mean(ENTROPIES))
    assert logs["entropy_source"] == 1.0
    assert logs["members"] == 9.0


def test_without_label_nothing_is_claimed():
    rollouts = [{"answer": "7", "mean_entropy": 0.1}] * 2
    found = outcomes(estimate([{"rollouts": rollouts}]).groups[0], trained=[0, 1], entropies=[0.1, 0.1], pruned="zero")
    assert {found[0].logs[k] for k in ("label_accuracy", "reward_accuracy", "ground_truth_ratio")} == {-1.0}


def test_a_group_without_an_answer_is_scored():
    rollouts = [{"answer": None, "mean_entropy": 0.1}] * 3
    found = outcomes(
        estimate([{"rollouts": rollouts}]).groups[0], trained=range(3), entropies=[0.1] * 3, pruned="neutral"
    )
    assert [(o.reward, o.score) for o in found] == [(0.0, 0.0)] * 3
