"""Chosen against random labels on the campaign's bases: the page re-derives, and what it says of choosing holds."""

import json
from pathlib import Path

import numpy as np
import pytest

from dare_research.calibration.chosen import BASES, ELSEWHERE, answers_of, groups_of, labels_page, outcomes
from dare_research.results import Place, read
from dare_research.training.examine import Graded
from dare_reward.analysis.calibrate import evidence, tables
from dare_reward.analysis.certainty import ENTROPY
from dare_reward.groups import Groups

STUDY = Place(Path(__file__).parents[1])


@pytest.fixture(scope="module")
def kept():
    return json.loads(read(STUDY.whole("labels")))


def test_the_page_is_that_of_the_committed_answers(kept):
    assert tuple(kept) == BASES == tuple(ELSEWHERE)
    assert STUDY.page("labels").read_text() == labels_page(kept)


def test_answers_are_all_that_a_calibration_reads():
    """Votes, the mean entropy of each answer and which one is right give the evidence of the rollouts themselves."""
    rng = np.random.default_rng(0)
    answers = [[*rng.choice(["7", "8", "9"], 12), None] for _ in range(20)]
    groups = Groups.of(answers, mean_entropy=rng.random((20, 13)).tolist())
    correct_R = np.array([float(a == "7") for own in answers for a in own])
    graded = Graded(("shift",) * 20, groups, correct_R, np.ones(len(correct_R)))
    again, right_R = groups_of(answers_of(graded))
    whole, part = evidence(groups, correct_R, tables(groups, ENTROPY)), evidence(again, right_R, tables(again, ENTROPY))
    assert part.score_P == pytest.approx(whole.score_P, abs=1e-3)
    assert (part.right_PB == whole.right_PB).all()
    assert again.votes_A.sum() == 240


def test_chosen_labels_find_what_random_ones_do_not(kept):
    found = {name: outcomes(name, kept[name], draws=100) for name in BASES}
    for name, own in found.items():
        assert all(values[f"{by} worse"] == 0 for values in own.values() for by in ("rule", "gate")), name
        assert own["information 16"]["rule left"] >= own["random 32"]["rule left"] - 0.02
    for name in ("informative-0", "tells_35-200", "confident-0"):
        assert found[name]["information 16"]["rule left"] >= 0.98
    for values in found["uninformative-200"].values():
        assert values["rule left"] <= 0.02
