"""The measures against the golden values and closed forms."""

import json
from pathlib import Path

import numpy as np
import pytest

from dare_reward.analysis.auroc import equally_long, group_auroc
from dare_reward.analysis.bootstrap import mean_interval, ratio_interval
from dare_reward.analysis.passk import pass_at_k
from dare_reward.groups import Groups

GOLDEN = json.loads((Path(__file__).parents[2] / "golden" / "dare.json").read_text())["analysis_cases"]
EXACT = {"rtol": 0, "atol": 1e-9}


def labelled(answers, right, **columns):
    """Groups, and truth by equality with `right`."""
    groups = Groups.of(answers, **columns)
    truth = [float(a is not None and a == r) for group, r in zip(answers, right) for a in group]
    return groups, np.array(truth)


@pytest.mark.parametrize("case", GOLDEN["pass_at_k"], ids=str)
def test_pass_at_k_golden(case):
    np.testing.assert_allclose(pass_at_k(case["n"], case["c"], case["k"]), case["expected"], **EXACT)


def test_intervals_cover_as_often_as_they_say():
    rng = np.random.default_rng(3)
    hits = 0
    for i in range(200):
        found = mean_interval(rng.normal(1.0, 2.0, size=60), resamples=400, seed=i)
        hits += found.low <= 1.0 <= found.high
    assert 0.90 <= hits / 200 <= 0.99
    assert np.isnan(mean_interval(np.array([np.nan])).estimate)
    ratio = ratio_interval(np.array([1.0, 0.0]), np.array([2.0, 2.0]))
    assert (ratio.estimate, ratio.low, ratio.high) == (0.25, 0.0, 0.5)


def test_within_group_auroc_by_hand():
    groups, truth = labelled(
        [["a", "b", "b", "a"], ["a", "a"], ["b", None, "a"]],
        ["a", "a", "a"],
        mean_entropy=[[0.1, 0.2, 0.1, 0.4], [0.1, 0.9], [0.5, 0.0, 0.2]],
    )
    values = group_auroc(groups, groups.column("mean_entropy"), truth)
    np.testing.assert_allclose(values, [(1 + 0.5 + 0 + 0) / 4, np.nan, 1.0])


def test_length_control():
    """Entropy that is only a function of length loses its figure among equally long rollouts; real signal keeps it."""
    rng = np.random.default_rng(0)
    answers, lengths, by_length, real = [], [], [], []
    for _ in range(100):
        right = rng.random(40) < 0.5
        length = np.where(right, rng.integers(80, 160, 40), rng.integers(100, 200, 40))
        answers.append(["a" if r else "b" for r in right])
        lengths.append(length.tolist())
        by_length.append((length / 1000 + 0.1 * rng.random(40)).tolist())
        real.append((0.3 - 0.1 * right + 0.1 * rng.random(40)).tolist())
    for values, low, high in ((by_length, 0.45, 0.6), (real, 0.9, 1.01)):
        groups, truth = labelled(answers, ["a"] * 100, mean_entropy=values, num_tokens=lengths)
        entropy_R, length_R = groups.column("mean_entropy"), groups.column("num_tokens")
        assert np.mean(group_auroc(groups, entropy_R, truth)) > 0.6
        assert np.mean(group_auroc(groups, length_R, truth)) > 0.65
        found, pairs = equally_long(groups, entropy_R, truth)
        assert low < found.estimate < high
        assert 0 < pairs < 0.5
