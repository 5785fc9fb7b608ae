"""The author's measures against the golden values and closed forms."""

import json
from collections import Counter
from itertools import combinations
from math import log
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dare_research.analysis import measures
from dare_reward.analysis.passk import majority_at_k, pass_at_k_interval, powers
from dare_reward.groups import Groups

GOLDEN = json.loads((Path(__file__).parents[2] / "tests" / "golden" / "dare.json").read_text())["analysis_cases"]
EXACT = {"rtol": 0, "atol": 1e-9}


def labelled(answers, right, **columns):
    """Groups, and truth by equality with `right`."""
    groups = Groups.of(answers, **columns)
    truth = [float(a is not None and a == r) for group, r in zip(answers, right) for a in group]
    return groups, np.array(truth)


@settings(deadline=None)
@given(rollouts=st.lists(st.lists(st.integers(0, 3), max_size=12), min_size=2, max_size=6))
def test_overlap_by_definition(rollouts):
    pairs = combinations(rollouts, 2)
    shares = [(Counter(a) & Counter(b)).total() / max(len(a), len(b)) if a or b else 1.0 for a, b in pairs]
    assert measures.rollout_overlap(rollouts) == pytest.approx(np.mean(shares))


def test_overlap_is_a_mean_over_prompts():
    a, b = [1, 1, 2, 3, 4, 5], [1, 2, 3, 4, 5]
    assert measures.mean_overlap([[a, b], [a, a], [a]]) == pytest.approx((5 / 6 + 1) / 2)
    assert np.isnan([measures.mean_overlap([[a]]), measures.rollout_overlap([a])]).all()


def test_steps_golden():
    case = GOLDEN["steps_to_threshold"]
    assert measures.steps_to_threshold(case["curve"], case["thresholds"]) == case["expected"]
    assert measures.steps_to_threshold(case["curve"][::-1], case["thresholds"]) == case["expected"]


def test_information_golden():
    case = GOLDEN["mutual_information_nats"]
    found = measures.mutual_information(case["R"], case["R_hat"])
    np.testing.assert_allclose(found.nats, case["expected"], **EXACT)
    np.testing.assert_allclose(found.entropy, case["entropy_R"], **EXACT)
    np.testing.assert_allclose(found.bits, case["expected"] / log(2), **EXACT)
    np.testing.assert_allclose(found.share, case["expected"] / case["entropy_R"], **EXACT)
    np.testing.assert_allclose(found.corrected, case["expected"] - 1 / 16, **EXACT)
    error = np.mean(np.array(case["R_hat"], float) - case["R"])
    np.testing.assert_allclose(error, GOLDEN["majority_bias"]["expected"], **EXACT)


@settings(deadline=None)
@given(rows=st.lists(st.tuples(st.integers(0, 1), st.integers(0, 4)), min_size=2, max_size=40))
def test_information_is_the_difference_of_entropies(rows):
    truth, x = map(np.array, zip(*rows))
    both, *alone = (measures.entropy(np.bincount(values)) for values in (5 * truth + x, truth, x))
    assert measures.mutual_information(truth, x).nats == pytest.approx(sum(alone) - both, abs=1e-9)


def test_a_reward_that_is_the_truth_has_all_the_information_and_noise_none():
    truth = np.tile([0, 1, 1, 1], 5000)
    assert measures.mutual_information(truth, 2.0 * truth + 1).share == pytest.approx(1)
    noise = measures.mutual_information(truth, np.random.default_rng(0).random(len(truth)), bins=24)
    assert 0 < noise.nats < 3e-3
    assert abs(noise.corrected) < noise.nats
    assert np.isnan(measures.mutual_information(np.ones(4), np.arange(4)).share)


def test_bins_hold_equal_mass_and_ties_stay_together():
    x = np.random.default_rng(1).random(2400)
    assert set(np.bincount(measures.quantile_bins(x, 24))) == {100}
    tied = np.r_[np.zeros(1000), np.arange(1, 101)]
    bins = measures.quantile_bins(tied, 10)
    assert len(set(bins[:1000])) == 1
    assert len(set(bins)) == 2  # the zeros hold ten elevenths of the mass
    assert measures.quantile_bins(np.array([3.0, 1.0, 3.0]), 24).tolist() == [1, 0, 1]


def test_majority_bias_by_hand():
    groups, truth = labelled([["a", "a", "b", None], ["c", "d", "d", "d"]], ["b", "d"])
    found = measures.majority(groups, truth)
    by_hand = {
        "agreement_bias": ((2 - 1) / 4 + (3 - 3) / 4) / 2,
        "mode_bias": ((0 - 1 / 4) + (1 - 3 / 4)) / 2,
        "majority_ratio": (2 / 4 + 3 / 4) / 2,
        "right_in_minority": 1 / 2,
    }
    assert {name: each.estimate for name, each in found.items()} == pytest.approx(by_hand)
    assert all(each.low <= each.estimate <= each.high and each.prompts == 2 for each in found.values())


def test_estimator_error_by_hand():
    groups, truth = labelled([["a", "a", "b"], ["c", "c", "d"]], ["a", "d"])
    rewards = np.array([1.0, 1, 0, 0.5, 0.5, 0])
    found = measures.estimator_error(groups, rewards, truth, measures.normalised(groups, rewards))
    error = rewards - truth
    assert found.bias == pytest.approx(error.mean())
    assert found.variance == pytest.approx(error.var())
    assert found.mse == pytest.approx((error**2).mean()) == pytest.approx(found.bias**2 + found.variance)
    assert found.within_variance == pytest.approx((np.var([1, 1, 0]) + np.var([0.5, 0.5, 0])) / 2)
    a = np.tile([1, 1, -2], 2) / np.sqrt(2)
    assert found.correlation == pytest.approx(np.corrcoef(a, truth)[0, 1])


def test_unknown_truth_is_left_out():
    groups, truth = labelled([["a", "b"], ["c", "d"]], ["a", "d"])
    truth[2] = np.nan
    rewards = np.array([1.0, 0, 0, 1])
    alone, known = labelled([["a", "b"]], ["a"])
    expected = measures.estimator_error(alone, rewards[:2], known, measures.normalised(alone, rewards[:2]))
    assert measures.estimator_error(groups, rewards, truth, measures.normalised(groups, rewards)) == expected
    assert {each.prompts for each in measures.majority(groups, truth).values()} == {1}
    assert np.isnan(measures.direction_gain(groups, measures.normalised(groups, rewards), truth)[1])
    nothing = np.full(4, np.nan)
    assert np.isnan(measures.estimator_error(groups, rewards, nothing, rewards).bias)
    assert np.isnan(measures.majority(groups, nothing)["mode_bias"].estimate)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.integers(1, 9), min_size=2, max_size=6), st.integers(0, 2**31))
def test_direction_gain_is_the_derivative_of_accuracy(votes, seed):
    """Against a finite difference of a softmax policy."""
    rng = np.random.default_rng(seed)
    rewards_A = rng.random(len(votes))
    answers = [str(i) for i, n in enumerate(votes) for _ in range(n)]
    right = int(rng.integers(len(votes)))
    groups, truth = labelled([answers], [str(right)])
    advantages = measures.normalised(groups, groups.spread(rewards_A))
    found = float(measures.direction_gain(groups, advantages, truth)[0])
    p = np.array(votes) / sum(votes)
    step = np.array([advantages[groups.answer_R == i].sum() for i in range(len(votes))]) / sum(votes)

    def accuracy(h):
        logits = np.exp(np.log(p) + h * step)
        return logits[right] / logits.sum()

    assert found == pytest.approx((accuracy(1e-5) - accuracy(-1e-5)) / 2e-5, abs=1e-8)


def test_direction_gain_of_truth_is_positive_and_its_opposite_negative():
    groups, truth = labelled([["a", "a", "b", "c", None]], ["b"])
    up = measures.direction_gain(groups, measures.normalised(groups, truth), truth)[0]
    assert up > 0
    assert measures.direction_gain(groups, measures.normalised(groups, -truth), truth)[0] == pytest.approx(-up)
    assert measures.direction_gain(groups, measures.normalised(groups, np.full(5, 0.3)), truth)[0] == 0


def test_normalised_ignores_rounding():
    groups = Groups.of([["a", "b", "c"], ["a", "b", "c"]])
    found = measures.normalised(groups, np.array([0.1 + 0.2, 0.3, 0.3, 1.0, 0.0, 0.0]))
    assert found[:3].tolist() == [0, 0, 0]
    np.testing.assert_allclose(found[3:], np.array([2, -1, -1]) / np.sqrt(2), rtol=1e-12)


def test_majority_at_k():
    groups, truth = labelled(
        [["a", "a", "b", "c"], ["a", "b", "b", "a"], [None, None, "b", None], [None] * 4], ["a", "a", "b", "a"]
    )
    assert majority_at_k(groups, truth, 4).tolist() == [1, 0.5, 1, 0]
    one = majority_at_k(groups, truth, 1, draws=4000)
    np.testing.assert_allclose(one, [0.5, 0.5, 0.25, 0], atol=0.03)
    assert np.isnan(majority_at_k(groups, truth, 5)).all()
    # three of a, a, b, c: a wins with both (2 of 4 subsets), shares with one of three (2 of 4)
    three = majority_at_k(groups, truth, 3, draws=8000)[0]
    assert three == pytest.approx(0.5 + 0.5 / 3, abs=0.02)
    alone, known = labelled([["a", "b", "b", "a"]], ["a"])
    assert majority_at_k(alone, known, 2)[0] == majority_at_k(groups, truth, 2)[1]
    # of two answers each is the label by half: the mean over all pairs is the share that is right
    assert majority_at_k(groups, truth, 2)[:2].tolist() == [0.5, 0.5]


def test_powers():
    assert [powers(n) for n in (64, 5, 0)] == [[1, 2, 4, 8, 16, 32, 64], [1, 2, 4, 5], []]


def test_means_over_prompts():
    found = pass_at_k_interval([7, 4, 1], [2, 4, 1], 2)
    assert found.estimate == pytest.approx((1 - (5 * 4) / (7 * 6) + 1) / 2)
    assert found.prompts == 2


def test_pooling_measures_difficulty():
    """Hard prompts with high entropy: pooled looks informative, within groups it is a coin."""
    rng = np.random.default_rng(0)
    answers, entropies = [], []
    for p in range(200):
        hard = p % 2
        right = rng.random(32) < (0.1 if hard else 0.9)
        answers.append(["a" if r else "b" for r in right])
        entropies.append((hard + rng.random(32)).tolist())
    groups, truth = labelled(answers, ["a"] * 200, mean_entropy=entropies)
    found = measures.entropy_auroc(groups, truth)
    assert found["pooled"] > 0.8
    assert found["within"]["estimate"] == pytest.approx(0.5, abs=0.04)
    assert np.isnan(found["controlled"]["estimate"])
