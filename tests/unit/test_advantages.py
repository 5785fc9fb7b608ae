"""Advantages: by definition, over trained rollouts only, and in the reply."""

import statistics

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import dare_reward
from dare_reward.advantages import ADVANTAGES, advantages, find_advantage, pass_at_k_pair
from dare_reward.errors import RequestError

pytestmark = pytest.mark.usefixtures("plugins")

BINARY = {"fixed"}  # of rewards of 0 and 1 only
NAMES = [n for n in ADVANTAGES if n not in BINARY]
GROUPS = st.lists(st.lists(st.floats(-3, 3), min_size=1, max_size=6), min_size=1, max_size=4)


def by_definition(name, group):
    m, n = statistics.fmean(group), len(group)
    s = statistics.stdev(group) if n > 1 else 0.0
    return {
        "grpo": [(r - (m if n > 1 else 0)) / ((s if n > 1 else 1) + 1e-6) for r in group],
        "grpo_openrlhf": [(r - m) / (s + 1e-9) for r in group],
        "grpo_population": [(r - m) / (statistics.pstdev(group) + 1e-6) for r in group],
        "dr_grpo": [r - m for r in group],
        "rloo": [r - (sum(group) - r) / (n - 1) if n > 1 else r for r in group],
        "reinforce": list(group),
    }.get(name)


@pytest.mark.parametrize("name", NAMES)
@given(groups=GROUPS)
def test_by_definition(name, groups):
    flat = np.array([r for g in groups for r in g])
    found = advantages(name, flat, np.array([len(g) for g in groups]))
    if ADVANTAGES[name].over == "request":
        base = flat if name == "reinforce_pp" else np.array([r - statistics.fmean(g) for g in groups for r in g])
        expected = (base - base.mean()) / max(base.std(), 1e-4)
    else:
        expected = [a for g in groups for a in by_definition(name, g)]
    # Near-constant rewards divide by 1e-9: there only rounding differs.
    np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-5)


@pytest.mark.parametrize("name", [n for n in NAMES if n not in {"reinforce", "reinforce_pp", "rloo", "grpo"}])
def test_equal_rewards_have_no_advantage(name):
    found = advantages(name, np.full(7, 0.1), np.array([3, 4]))
    assert not found.any()


@pytest.mark.parametrize("name", [*NAMES, *BINARY, "pass@2"])
def test_only_trained_rollouts_count(name):
    rewards = np.array([1.0, 0.0, 0.0, 1.0, 1.0, 0.0])
    trained = np.array([True, True, False, True, False, True])
    found = advantages(name, rewards, np.array([3, 3]), trained_R=trained)
    alone = advantages(name, rewards[trained], np.array([2, 2]))
    assert np.isnan(found[~trained]).all()
    np.testing.assert_array_equal(found[trained], alone)


def test_no_rollouts():
    for name in NAMES:
        assert len(advantages(name, np.zeros(0), np.zeros(0, np.int64))) == 0
        assert np.isnan(advantages(name, np.ones(2), np.array([2]), trained_R=np.zeros(2, bool))).all()


def test_pass_at_k_sums_to_zero_over_a_group():
    for n, failed, k in ((8, 5, 4), (16, 15, 2), (32, 31, 4)):
        plus, minus = pass_at_k_pair(n, failed, k)
        assert plus * (n - failed) + minus * failed == pytest.approx(0, abs=1e-12)
    assert pass_at_k_pair(8, 0, 4) == pass_at_k_pair(8, 8, 4) == pass_at_k_pair(3, 2, 4) == (0.0, 0.0)


def test_fixed_has_no_mean_and_no_deviation():
    np.testing.assert_array_equal(advantages("fixed", np.array([1.0, 0.0, 1.0]), np.array([2, 1])), [1.0, -1.0, 1.0])
    with pytest.raises(RequestError, match="0 and 1"):
        advantages("fixed", np.array([0.5]), np.array([1]))


def test_names():
    for bad in ("grop", "pass@0", "pass@", "pass@1e3", ""):
        with pytest.raises(RequestError) as caught:
            find_advantage(bad)
        assert caught.value.loc == ("advantage",)
        assert "grpo_openrlhf" in str(caught.value)


ROLLOUTS = [{"answer": a, "trained": t} for a, t in (("1", True), ("1", False), ("2", True), ("3", True))]


@pytest.mark.parametrize("name", [*NAMES, *BINARY, "pass@2"])
def test_in_the_reply(name):
    groups = [{"rollouts": ROLLOUTS}, {"group_id": "x", "rollouts": [{"answer": "1"}, {"answer": "1"}]}]
    reply = dare_reward.estimate(groups, method="ttrl", advantage=name)
    group = reply.groups[0]
    assert [a is None for a in group.advantages] == [False, True, False, False]
    rewards = np.array([r for g in reply.groups for r in g.rewards])
    trained = np.array([True, False, True, True, True, True])
    expected = advantages(name, rewards, np.array([4, 2]), trained_R=trained)
    assert repr(advantages(name, rewards.tolist(), [4, 2], trained_R=trained.tolist())) == repr(expected)
    assert [a for g in reply.groups for a in g.advantages] == [None if np.isnan(x) else x for x in expected]
    assert group.rewards == dare_reward.estimate(groups, method="ttrl").groups[0].rewards


def test_a_group_without_rewards_does_not_enter_the_batch():
    good = {"group_id": "a", "rollouts": [{"answer": a, "mean_entropy": 0.1} for a in "112"]}
    bad = {"group_id": "b", "rollouts": [{"answer": "1"}]}
    alone = dare_reward.estimate([good], advantage="reinforce_pp").groups[0]
    assert dare_reward.estimate([good, bad], advantage="reinforce_pp").groups[0].advantages == alone.advantages


def test_what_is_refused():
    with pytest.raises(RequestError, match="6 rewards, and groups of 5 rollouts"):
        advantages("grpo", [1.0] * 6, [3, 2])
    with pytest.raises(RequestError, match="0 and 1"):
        dare_reward.estimate([{"rollouts": ROLLOUTS}], method="empo", advantage="pass@2")
    with pytest.raises(RequestError, match="normalise them again"):
        dare_reward.estimate([{"rollouts": ROLLOUTS}], method="cocov", advantage="grpo")


def test_second_groups_have_advantages_too():
    group = {"rollouts": [{"answer": a} for a in "1122"], "second_group": [{"answer": a} for a in "112"]}
    reply = dare_reward.estimate([group], method="co_rewarding_1", advantage="dr_grpo").groups[0]
    assert reply.second_rewards == (1.0, 1.0, 0.0)
    assert reply.second_advantages == pytest.approx((1 / 3, 1 / 3, -2 / 3))
