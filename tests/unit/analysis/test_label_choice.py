"""`dare_reward.analysis.label_choice` against values of another implementation, and its edges."""

import json
from pathlib import Path

import numpy as np
import pytest

from dare_reward.analysis.label_choice import calibration_worth, contested, information, most
from dare_reward.groups import Groups

GOLDEN = json.loads((Path(__file__).parents[2] / "golden" / "labels.json").read_text(encoding="utf-8"))
CASES = GOLDEN["cases"]


def arrays(cases):
    groups = Groups.of(
        [[r["answer"] for r in c["rollouts"]] for c in cases],
        mean_entropy=[[r["mean_entropy"] for r in c["rollouts"]] for c in cases],
    )
    return groups, np.array([float(r["answer"] == c["label"]) for c in cases for r in c["rollouts"]])


def close(value, golden):
    return value == pytest.approx(golden, rel=1e-9, abs=1e-12)


def test_information_and_contested_are_the_golden_values():
    groups, _ = arrays(CASES)
    assert close(information(groups, eps=GOLDEN["eps"]), [c["information"] for c in CASES])
    assert close(contested(groups), [c["contested"] for c in CASES])


def test_an_answer_that_could_win_counts_twice():
    answers = ["a"] * 4 + ["b"] * 2 + ["c"]
    groups = Groups.of([answers, ["a", "a", "a", "c"]], mean_entropy=[[0.1] * 4 + [0.9] * 2 + [3.0], [0.1] * 3 + [3.0]])
    logs, shares = np.log(np.array([0.1, 0.9]) + 0.05), np.array([4, 2]) / 6
    among = (shares * logs**2).sum() - (shares * logs).sum() ** 2
    assert close(calibration_worth(groups) - information(groups), [among, 0.0])


def test_labels_decide_nothing_of_information_and_contested():
    groups, correct_R = arrays(CASES)
    with_truth = groups.with_column("correct", correct_R)
    assert (information(with_truth) == information(groups)).all()
    assert (contested(with_truth) == contested(groups)).all()


def test_the_most_are_taken_in_order_and_nothing_that_is_worth_nothing():
    worth = np.array([0.0, 2.0, np.nan, 1.0, 2.0])
    assert most(worth, 2).tolist() == [False, True, False, False, True]
    assert most(worth, 1).tolist() == [False, True, False, False, False]
    assert most(worth, 5).tolist() == [False, True, False, True, True]


def test_a_missing_entropy_is_no_information():
    groups = Groups.of([["1", "2"], ["1", "2"]], mean_entropy=[[0.1, None], [0.1, 0.9]])
    found = information(groups)
    assert np.isnan(found[0])
    assert found[1] > 0
