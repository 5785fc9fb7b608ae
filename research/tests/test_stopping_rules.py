"""Published rules of settled votes: the papers' cases, and exact probabilities."""

import json
from pathlib import Path

import numpy as np
import pytest

from dare_research.stopping_rules import (
    adaptive_consistency,
    bayesian,
    dirichlet_leader,
    required_lead,
    sequential_test,
)
from dare_reward.errors import RequestError
from dare_reward.groups import Groups
from dare_reward.methods import find
from dare_reward.stopping.rules import tallies

CASES = json.loads(Path(__file__).with_name("stopping_cases.json").read_text())
TTRL = {"tie": "first", "no_answer": "clean"}


def tally(votes, **params):
    return tallies(find("ttrl").ballots(Groups.of([votes]), TTRL | params))[0]


def ahead(tallied):
    """First and second, whoever of equals has the label."""
    return [tallied.leader or 0, tallied.runner_up]


@pytest.mark.parametrize("case", CASES["adaptive_consistency"], ids=lambda c: c["id"])
def test_adaptive_consistency(case):
    config, wanted, votes = case["config"], case["expected"], case["input"]["votes"]
    no_answer = "official" if config["invalid"] == "count" else "clean"
    stopped, used = False, min(len(votes), config["max_votes"])
    for n, (first, second, probability, look) in enumerate(wanted["trace"], 1):
        found = tally(votes[:n], no_answer=no_answer)
        assert ahead(found) == [first, second]
        if found.leader:
            assert dirichlet_leader((first, second)) == pytest.approx(probability, abs=1e-12)
        done = adaptive_consistency(
            [found], np.array([1]), confidence=config["confidence"], min_votes=config["min_votes"]
        )[0]
        if look and done:
            stopped, used = True, n
            break
    assert (stopped, used) == (wanted["stopped"], wanted["used"])
    assert tally(votes[:used], no_answer=no_answer).leader == (wanted["lead"][0] or None)


@pytest.mark.parametrize("case", CASES["optpo"], ids=lambda c: c["id"])
def test_the_sequential_test(case):
    config, wanted, votes = case["config"], case["expected"], case["input"]["votes"]
    model = {"p_correct": config["p_correct"], "n_answers": config["n_answers"]}
    if wanted["required_lead"] is not None:
        assert required_lead(config["threshold"], **model) == wanted["required_lead"]
    stopped, used = False, min(len(votes), config["max_votes"])
    for n, (odds, posterior) in enumerate(wanted["trace_odds_posterior"], 1):
        found = tally(votes[:n])
        assert sequential_test(found, **model) == pytest.approx((odds, posterior), abs=1e-12, rel=1e-12)
        options = {"test": config["rule"], "threshold": config["threshold"], "min_votes": 1}
        if n >= config["min_votes"] and bayesian([found], np.array([1]), **options, **model)[0]:
            stopped, used = True, n
            break
    assert (stopped, used) == (wanted["stopped"], wanted["used"])


def test_a_test_whose_votes_speak_against_their_answer_is_refused():
    with pytest.raises(RequestError, match="must be greater than 1/n_answers"):
        bayesian([tally(["a"])], np.array([1]), p_correct=0.1)


@pytest.mark.parametrize("case", CASES["dirichlet_leader"])
def test_the_leader_of_several(case):
    assert dirichlet_leader(tuple(case["input"]["counts_leader_first"])) == pytest.approx(case["expected"], abs=1e-12)


def test_the_leader_of_many_votes():
    assert dirichlet_leader((500, 500)) == pytest.approx(0.5, abs=1e-12)
    assert dirichlet_leader((1000, 20, 4)) == pytest.approx(1.0, abs=1e-12)


def test_nobody_answered():
    for rule in (adaptive_consistency, bayesian):
        assert not rule([tally([None, None])], np.array([4]))[0]
        assert rule([tally([None, None])], np.array([0]))[0]
