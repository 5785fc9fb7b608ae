"""gmae against enumeration of every sub-group and every draw, and its limits (arXiv:2609.36750)."""

import json
import math
from itertools import combinations, product
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from said import said

import dare_reward
from dare_reward import estimate
from dare_reward.errors import LimitError, RequestError
from dare_reward.scoring.request import Limits

pytestmark = pytest.mark.usefixtures("plugins")

GOLDEN = json.loads((Path(__file__).parents[1] / "golden" / "new_methods.json").read_text())
# A context in which the first seen leader wins has no closed form: `tie=split` is its mean over all orders.
CASES = {c["id"]: c for c in GOLDEN["gmae"] if c["config"]["tie"] != "first"}
ANSWERS = st.lists(st.sampled_from([*"aaabbcd", None]), min_size=1, max_size=8)


def group(answers, trained=None, **more):
    return {"kind": "exact", "rollouts": said(answers, trained=trained), **more}


def score(answers, trained=None, **params):
    params = {"calibration": "none", "advantage": "gmae", **params}
    return dare_reward.estimate([group(answers, trained)], method="gmae", **params).groups[0]


def close(found, expected, tolerance=GOLDEN["tolerance"]):
    assert [x is None for x in found] == [x is None for x in expected]
    np.testing.assert_allclose(
        [x for x in found if x is not None], [x for x in expected if x is not None], rtol=0, atol=tolerance
    )


@pytest.mark.parametrize("name", CASES)
def test_golden(name):
    case = CASES[name]
    config = {k: case["config"][k] for k in ("group_size", "tie", "invalid")}
    found = score(case["input"]["answers"], case["input"]["trained"], **config)
    close(found.rewards, case["expected"]["rewards"])
    close(found.advantages, case["expected"]["advantages"])


@pytest.mark.parametrize("case", GOLDEN["gmae_calibration"], ids=lambda c: c["id"])
def test_golden_calibration(case):
    """One factor for the batch; the groups' own sub-group sizes are those of their trained rollouts where that is so."""
    named = [CASES[name] for name in case["input"]["groups"]]
    sent = [group(c["input"]["answers"], c["input"]["trained"], group_id=c["id"]) for c in named]
    reply = dare_reward.estimate(sent, method="gmae", advantage="gmae")
    assert reply.diagnostics["gmae_lambda"] == pytest.approx(case["expected"]["lambda"], abs=1e-12)
    for found, expected in zip(reply.groups, case["expected"]["advantages"], strict=True):
        close(found.advantages, expected)


def wins(answers, i, context, tie):
    """What rollout i gets in the group of itself and `context`."""
    votes = [answers[j] for j in (i, *context) if answers[j] is not None]
    if answers[i] is None:
        return 0.0
    most = max(votes.count(a) for a in votes)
    leaders = {a for a in votes if votes.count(a) == most}
    if answers[i] not in leaders:
        return 0.0
    return {"split": 1 / len(leaders), "all": 1.0, "none": float(len(leaders) == 1)}[tie]


def by_contexts(answers, size, tie):
    others = [[j for j in range(len(answers)) if j != i] for i in range(len(answers))]
    contexts = [list(combinations(o, size - 1)) for o in others]
    return [math.fsum(wins(answers, i, c, tie) for c in cs) / len(cs) for i, cs in enumerate(contexts)]


def by_draws(chances):
    out = [0.0] * len(chances)
    for drawn in product((0, 1), repeat=len(chances)):
        weight = math.prod(p if v else 1 - p for p, v in zip(chances, drawn, strict=True))
        mean = sum(drawn) / len(drawn)
        spread = math.sqrt(mean * (1 - mean))
        if spread:
            out = [x + weight * (v - mean) / spread for x, v in zip(out, drawn, strict=True)]
    return out


@settings(max_examples=60)
@given(answers=ANSWERS, size=st.integers(1, 8), tie=st.sampled_from(["split", "all", "none"]), data=st.data())
def test_by_enumeration(answers, size, tie, data):
    size = min(size, len(answers))
    trained = data.draw(st.lists(st.booleans(), min_size=len(answers), max_size=len(answers)))
    found = score(answers, trained, group_size=size, tie=tie)
    expected = by_contexts(answers, size, tie)
    close(found.rewards, expected)
    paid = [p for p, t in zip(expected, trained, strict=True) if t]
    own = by_draws(paid) if paid else []
    close([a for a in found.advantages if a is not None], own)
    assert [a is not None for a in found.advantages] == trained
    # Theorem 2: the mean square of the advantages is what is left of certainty.
    if own:
        assert found.diagnostics["gmae_scale"] ** 2 == pytest.approx(np.mean(np.square(own)), abs=1e-12)
        assert found.diagnostics["uncertainty"] == pytest.approx(1 - np.mean(np.square(own)), abs=1e-12)


def test_one_context_is_flagged():
    assert "one_context" in score([*"aabc"]).flags, "all are trained"
    assert "one_context" not in score([*"aabc"], group_size=3).flags
    assert "one_context" not in score([*"aabc"], [True, True, True, False]).flags
    assert "one_context" in score(["a", "b", None], group_size=2, invalid="exclude").flags


def test_a_sub_group_is_as_large_as_the_trained_rollouts_with_or_without_an_answer():
    answers, trained = ["a", "b", None, "a", "a", "b"], [True] * 3 + [False] * 3
    by_size = {size: score(answers, trained, group_size=size).rewards for size in (2, 3)}
    assert score(answers, trained).rewards == by_size[3] != by_size[2]


@pytest.mark.parametrize("size", [32, 512, 1023])
def test_a_large_group_stays_finite_and_sums_to_zero(size):
    rng = np.random.default_rng(size)
    answers = [str(a) for a in rng.geometric(0.3, 1024)]
    found = score(answers, [i < 512 for i in range(1024)], group_size=size)
    assert all(0 <= r <= 1 for r in found.rewards)
    gains = [a for a in found.advantages if a is not None]
    assert np.isfinite(gains).all()
    assert sum(gains) == pytest.approx(0, abs=1e-9)
    alone = score([str(i) for i in range(1024)], group_size=size)
    assert alone.rewards == pytest.approx([1 / size] * 1024, abs=1e-12), "all different: by symmetry one in G wins"


def test_equal_votes_are_computed_once():
    from dare_plugins.gmae import _marginal

    _marginal.cache_clear()
    sent = [group(["a", "b", "a"], group_id=str(i)) for i in range(20)]
    sent += [group(["x", "x", "y"], group_id=f"same {i}") for i in range(20)]
    dare_reward.estimate(sent, method="gmae")
    assert _marginal.cache_info().misses == 1


def test_a_silent_batch_is_not_scaled():
    """Advantages that are zero but for rounding have no size to restore."""
    sent = [group([str(i) for i in range(9)], [i < 5 for i in range(9)], group_id=str(p)) for p in range(3)]
    reply = dare_reward.estimate(sent, method="gmae", advantage="gmae")
    assert reply.diagnostics["gmae_lambda"] == 1.0
    assert {a for g in reply.groups for a in g.advantages if a is not None} == {0.0}


def test_the_batch_is_refused_where_there_is_none():
    with pytest.raises(RequestError, match=r"weighs all prompts alike.*set calibration=none") as caught:
        dare_reward.estimate([group(["a", "b"])], method="gmae", advantage="gmae")
    assert caught.value.code == "whole_batch"
    dare_reward.estimate([group(["a", "b"])], method="gmae")
    with pytest.raises(RequestError, match="not of ttrl"):
        dare_reward.estimate([group(["a", "b"])], method="ttrl", advantage="gmae")


def test_a_reply_says_how_the_rewards_have_to_be_used():
    sent = [group(["a", "b", "a"], group_id=str(p)) for p in range(2)]
    flags = {
        name: dare_reward.estimate(sent, method="gmae", advantage=name).flags
        for name in (None, "dr_grpo", "grpo", "gmae")
    }
    assert flags == {None: ("centre_only",), "dr_grpo": ("centre_only",), "grpo": ("scale_undone",), "gmae": ()}


# 990 rollouts, each number of votes from 1 to 44 once: among the dearest groups that a request may hold.
DEAR = [{"answer": str(n)} for n in range(1, 45) for _ in range(n)]
CHEAP = [{"answer": str(i % 5)} for i in range(64)]


def test_its_work_is_counted_before_it_is_done(monkeypatch):
    begun = []
    monkeypatch.setattr("dare_plugins.gmae._marginal", lambda *key: begun.append(key))
    groups = [{"rollouts": CHEAP}, {"rollouts": DEAR}]
    with pytest.raises(LimitError, match="steps") as error:
        estimate(groups, method="gmae", group_size=495, limits=Limits(steps=50_000))
    assert error.value.loc == ("groups", 1)
    halves = [{"rollouts": [{**r, "trained": i % 2 == 0} for i, r in enumerate(g["rollouts"])]} for g in groups]
    with pytest.raises(LimitError, match="steps"):
        estimate(halves, method="ttrl", shadow=["gmae"], limits=Limits(steps=50_000))
    assert not begun


def test_a_step_of_a_training_run_is_far_below_the_services_budget():
    groups = [{"rollouts": CHEAP}] * 128
    assert estimate(groups, method="gmae", group_size=32, limits=Limits(steps=200_000)).groups[0].rewards
