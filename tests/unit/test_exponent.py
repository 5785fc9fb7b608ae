"""The signed exponent and the relative eps of `weighted_vote` and `dare`, against exact fractions and against the vote.

A second implementation made the cases, without this package: tests/data/README.md.
"""

import copy
import json
from pathlib import Path

import numpy as np
import pytest
from said import exact

import dare_reward
from dare_reward.errors import RequestError
from dare_reward.groups import Groups

CASES = json.loads((Path(__file__).parents[1] / "data" / "exponent_cases.json").read_text())
GRID = (-4, -2, -1, 0, 1, 2, 4)
METHODS = ("weighted_vote", "dare")


def score(method, groups, **params):
    return dare_reward.estimate(groups, method=method, **params).groups


def bare(groups):
    """The same rollouts without any entropy."""
    own = {"token_entropies", "mean_entropy", "token_logprobs", "num_tokens"}
    return [{**g, "rollouts": [{k: v for k, v in r.items() if k not in own} for r in g["rollouts"]]} for g in groups]


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("exponent", GRID)
def test_golden_values(method, exponent):
    own = [c for c in CASES if c["params"]["exponent"] == exponent]
    assert len(own) == 64
    for case in own:
        groups = exact([case["answers"]], mean_entropy=[case["entropies"]])
        found = score(method, groups, **case["params"])[0]
        assert found.error is None
        assert {s.answer: s.p_hat for s in found.support} == pytest.approx(case["p_hat"], rel=1e-12, abs=1e-15)
        assert found.rewards == pytest.approx(case[method], rel=1e-12, abs=1e-15), case


@pytest.mark.parametrize("method", [*METHODS, "dare_literal", "dare_dist"])
def test_exponent_1_is_the_default_bit_for_bit(method, full_groups):
    sent = full_groups(seed=11, count=40, size=16)
    plain, one = score(method, sent), score(method, sent, exponent=1)
    assert [(g.rewards, g.support) for g in one] == [(g.rewards, g.support) for g in plain]


@pytest.mark.parametrize(
    ("method", "votes", "params"), [("weighted_vote", "ttrl", {}), ("dare", "dare", {"missing_entropy": "frequency"})]
)
def test_exponent_0_is_the_vote_bit_for_bit_and_needs_no_entropies(full_groups, method, votes, params):
    """Of `dare` what a group without entropies gets by missing_entropy=frequency, but for the flag."""
    sent = full_groups(seed=12, count=40, size=16)
    expected = [(g.rewards, g.support, g.keep, g.pseudo_label) for g in score(votes, bare(sent), **params)]
    for groups in (sent, bare(sent)):
        found = score(method, groups, exponent=0)
        assert [(g.rewards, g.support, g.keep, g.pseudo_label) for g in found] == expected
        assert {g.entropy_source for g in found} == {"none"}
        assert not {f for g in found for f in g.flags if f.startswith("missing_entropy")}


def test_eps_scale_makes_the_weight_free_of_the_scale_of_entropies(full_groups):
    sent = full_groups(seed=14, count=20, size=16)
    scaled = copy.deepcopy(sent)
    for rollout in (r for g in scaled for r in g["rollouts"]):
        rollout["token_entropies"] = [8 * e for e in rollout["token_entropies"]]

    def shares(groups, **params):
        return [s.p_hat for g in score("weighted_vote", groups, **params) for s in g.support]

    for exponent in (-2, 1, 4):
        one, other = (shares(s, exponent=exponent, eps_scale=0.5) for s in (sent, scaled))
        assert one == pytest.approx(other, rel=1e-9)
        assert shares(scaled, exponent=exponent) != other


def test_eps_scale_takes_the_median_of_what_u_floor_leaves():
    """u is .2, .2 and .9, so eps is .1; without the floor the median would be .1."""
    (found,) = score("weighted_vote", exact(["123"], mean_entropy=[[0.05, 0.1, 0.9]]), eps_scale=0.5, u_floor=0.2)
    assert [s.p_hat for s in found.support] == pytest.approx([10 / 23, 10 / 23, 3 / 23])
    groups = Groups.of([["a", "b", "c"], [None], ["a", "b"], ["a"]])
    found = groups.median_by_group(np.array([3.0, 1.0, 2.5, 4.0, 2.0, 7.0]))
    assert found.tolist() == pytest.approx([2.5, np.nan, 3.0, 7.0], nan_ok=True)


@pytest.mark.parametrize("method", METHODS)
def test_an_exponent_with_another_weight_is_refused(method, full_groups):
    for exponent in (0, 2):
        with pytest.raises(RequestError, match="exponent belongs to weight=linear") as caught:
            score(method, full_groups(), weight="sqrt", exponent=exponent)
        assert caught.value.loc == ("params", "exponent")
    assert score(method, full_groups(), weight="sqrt", exponent=1)


def test_the_exponent_of_calibrated_vote_must_be_given(full_groups):
    """Its values: test_method_cases.py."""
    with pytest.raises(RequestError, match=r"missing: exponent .*dare-reward calibrate") as caught:
        score("calibrated_vote", full_groups())
    assert caught.value.code == "missing_parameter"
