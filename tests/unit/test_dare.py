"""Properties of DARE, and the choices that the golden cases do not cover."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rows import each
from said import exact, said, scored

import dare_reward
from dare_reward import RequestError, estimate
from dare_reward.estimators.dare import METHODS, _bonus, dare
from dare_reward.groups import Groups
from dare_reward.methods import find, methods, read_line, specs

ENTROPY = st.floats(0, 50, allow_subnormal=True)
ROLLOUT = st.tuples(st.sampled_from(["1", "2", "3", "x", "y", None]), ENTROPY)
ROLLOUTS = st.lists(ROLLOUT, min_size=1, max_size=40)
CONFIG = st.fixed_dictionaries(
    {},
    optional={
        "weight": st.sampled_from(["linear", "sqrt", "exp", "log", "none"]),
        "bonus": st.sampled_from(["main", "inv", "log_inv", "sqrt_freq", "one_minus_sqrt_freq", "inv_sqrt", "zero"]),
        "eps": st.sampled_from([0.0, 1e-300, 1e-6, 0.05, 3.0, 1e3]),
        "eps_scale": st.sampled_from([None, 0.0, 0.5, 1e6]),
        "lam": st.sampled_from([0.0, 1.0, 1e3]),
        "u_floor": st.sampled_from([0.0, 0.2]),
        "u_norm": st.sampled_from(["clip", "none", "logv"]),
        "alpha": st.floats(0, 1),
        "tau": st.floats(0, 0.99),
        "renorm": st.sampled_from(["answers", "rollouts"]),
        "bonus_m": st.sampled_from(["retained", "valid", "all"]),
        "on_all_pruned": st.sampled_from(["skip", "keep_all", "keep_argmax"]),
        "pruned": st.sampled_from(["zero", "neutral"]),
        "exponent": st.sampled_from([-4.0, -1.0, 0.0, 0.5, 4.0, 1e3]),
    },
).map(lambda c: {k: v for k, v in c.items() if k != "exponent" or c.get("weight", "linear") == "linear"})


def batch(*groups):
    return Groups.of([[a for a, _ in g] for g in groups], mean_entropy=[[e for _, e in g] for g in groups])


def sent(*groups):
    return exact([[a for a, _ in g] for g in groups], mean_entropy=[[e for _, e in g] for g in groups])


def score(group, method="dare", **params):
    return scored(said([a for a, _ in group], mean_entropy=[e for _, e in group]), method, **params)


def by_answer(group):
    return {s.answer: s for s in group.support}


@given(ROLLOUTS, CONFIG)
def test_every_number_is_finite(rollouts, config):
    group = score(rollouts, **config)
    assert len(group.rewards) == len(rollouts)
    assert all(map(math.isfinite, group.rewards))
    for s in group.support:
        assert all(math.isfinite(x) for x in (s.p_hat, s.p, s.reward))
        assert s.bonus is None or math.isfinite(s.bonus)


@given(ROLLOUTS, CONFIG, st.randoms(use_true_random=False))
def test_the_order_of_rollouts_does_not_matter(rollouts, config, random):
    if config.get("on_all_pruned") == "keep_argmax":
        config = {**config, "on_all_pruned": "skip"}  # its tie rule is first seen, which is an order
    config = {**config, "tau": 0.0}  # a p-hat within rounding of tau may fall either way
    order = list(range(len(rollouts)))
    random.shuffle(order)
    before, after = score(rollouts, **config), score([rollouts[i] for i in order], **config)
    np.testing.assert_allclose(after.rewards, [before.rewards[i] for i in order], rtol=1e-12, atol=1e-15)
    assert after.keep == tuple(before.keep[i] for i in order)


@settings(max_examples=30)
@given(st.lists(ROLLOUTS, min_size=1, max_size=6), CONFIG)
def test_a_group_does_not_see_its_neighbours(groups, config):
    together = dare_reward.estimate(sent(*groups), **config).groups
    for group, found in zip(groups, together):
        alone = score(group, **config)
        assert found.rewards == alone.rewards
        assert found.support == alone.support
        assert found.flags == alone.flags


def test_no_group_and_a_large_one():
    assert dare_reward.estimate([]).groups == ()
    assert score([(None, 0.1)]).flags == ("all_invalid", "zero_variance")
    one = score([("a", 0.3), ("a", 0.5)])
    assert (one.entropy_source, one.rewards) == ("exact", (1.0, 1.0)), "one answer is enough to use entropies"
    many = score([(str(i % 700), 0.1 + i % 7) for i in range(1024)], tau=0.0)
    assert len(many.rewards) == 1024
    assert math.isclose(sum(s.p_hat for s in many.support), 1, rel_tol=1e-12)


@each(
    "rollouts, params, uncertainty, p_hat",
    [
        # without entropy and eps: they share the mass by votes
        ([("a", 0.0), ("a", 0.0), ("b", 0.0), ("c", 0.4)], {"eps": 0.0}, 0.0, [2 / 3, 1 / 3, 0]),
        # neither denormal entropies nor the exponential of large ones overflow, and nothing warns
        ([("a", 5e-324), ("b", 1e-320), ("b", 1e-320)], {"eps": 0.0}, 5e-324, [1012 / 1013, 1 / 1013]),
        ([("a", 1000.0), ("b", 0.0), ("c", 0.0)], {"weight": "exp", "lam": 1e3}, 1000.0, [0, 0.5, 0.5]),
        # u_floor bounds the weight and is reported
        ([("a", 0.001), ("b", 0.3), ("b", 0.3)], {"eps": 0.0, "u_floor": 0.2}, 0.2, [3 / 7, 4 / 7]),
    ],
)
def test_extreme_entropies(rollouts, params, uncertainty, p_hat):
    support = score(rollouts, tau=0.0, **params).support
    assert support[0].uncertainty == uncertainty
    assert [s.p_hat for s in support] == pytest.approx(p_hat)


@each("low, high, flags", [(0.019, 1.0, {"low_entropy"}), (0.02, 1.01, {"u_gt_1"}), (0.02, 1.0, set())])
@each("method", ["dare", "ttrl", "empo", "scrl"])
def test_low_entropy_and_u_gt_1_are_flagged_by_every_method(low, high, flags, method):
    found = score([("a", low), ("b", 0.5), ("c", high)], method=method)
    assert flags == {"low_entropy", "u_gt_1"} & {*found.flags}


@each(
    "bonus, expected",
    [
        ("main", lambda n, m, q: (1 - n / m) * (1 - q)),
        ("inv", lambda n, m, q: 1 / (n + 1)),
        ("log_inv", lambda n, m, q: math.log((m + 1) / (n + 1))),
        ("sqrt_freq", lambda n, m, q: math.sqrt(1 - n / m) * (1 - q)),
        ("one_minus_sqrt_freq", lambda n, m, q: (1 - math.sqrt(n / m)) * (1 - q)),
        ("inv_sqrt", lambda n, m, q: 1 / math.sqrt(n + 1)),
        ("zero", lambda n, m, q: 0.0),
    ],
)
@each("u_norm, norm", [("clip", lambda u: min(u, 1)), ("none", lambda u: u), ("logv", lambda u: u / math.log(1000))])
@each("bonus_m, m", [("retained", 5), ("valid", 6), ("all", 8)])
def test_every_bonus(bonus, expected, u_norm, norm, bonus_m, m):
    rollouts = [("a", 0.4)] * 3 + [("b", 1.5)] * 2 + [("c", 9.0)] + [(None, 0.1)] * 2
    params = {"bonus": bonus, "u_norm": u_norm, "bonus_m": bonus_m, "vocab_size": 1000, "alpha": 0.5, "tau": 0.05}
    group = by_answer(score(rollouts, **params))
    assert group["c"].bonus is None
    assert not group["c"].kept
    for answer, n, u in (("a", 3, 0.4), ("b", 2, 1.5)):
        b = expected(n, m, norm(u))
        assert group[answer].bonus == pytest.approx(b, abs=1e-12)
        assert group[answer].reward == pytest.approx(group[answer].p + 0.5 * b, abs=1e-12)


@pytest.mark.parametrize(
    ("weight", "w"),
    [
        ("linear", lambda n, u: n / (u + 0.05)),
        ("sqrt", lambda n, u: n / math.sqrt(u + 0.05)),
        ("exp", lambda n, u: n * math.exp(-2 * u)),
        ("log", lambda n, u: n / (math.log(1 + u) + 0.05)),
        ("none", lambda n, u: n),
    ],
)
def test_every_weight(weight, w):
    group = by_answer(score([("a", 0.5)] * 4 + [("b", 0.2)] * 3 + [("c", 0.8)], weight=weight, lam=2.0, tau=0.0))
    raw = {"a": w(4, 0.5), "b": w(3, 0.2), "c": w(1, 0.8)}
    for answer, value in raw.items():
        assert group[answer].p_hat == pytest.approx(value / sum(raw.values()), rel=1e-12)


ALL_PRUNED = [(str(i), 0.5) for i in range(30)]


def test_all_pruned():
    none = score(ALL_PRUNED)
    assert (set(none.rewards), any(none.keep), none.pseudo_label) == ({0.0}, False, None)
    assert {"all_pruned", "zero_variance", "tie"} <= set(none.flags)
    group = score([("9", 0.4), *ALL_PRUNED], on_all_pruned="keep_argmax", tau=0.3)
    assert group.pseudo_label == "9"
    assert [s.answer for s in group.support if s.kept] == ["9"]
    assert group.keep.count(True) == 2
    assert "all_pruned" in group.flags
    assert score(ALL_PRUNED, on_all_pruned="keep_argmax").pseudo_label == "0", "the first seen of a tie"


def test_pruned_neutral_is_the_survivors_mean():
    rollouts = [("a", 0.3)] * 5 + [("b", 0.4)] * 3 + [("c", 5.0), (None, 0.1)]
    zero, neutral = score(rollouts), score(rollouts, pruned="neutral")
    mean = np.mean([r for r, k in zip(zero.rewards, zero.keep) if k])
    assert zero.rewards[8] == 0
    assert neutral.rewards[8] == pytest.approx(mean)
    assert neutral.rewards[9] == 0
    assert neutral.rewards[:8] == zero.rewards[:8]


@pytest.mark.parametrize(
    ("count", "named"),
    [(1, "2"), (8, "2, 3, 4, 5, 6, 7, 8, 9"), (9, "2, 3, 4, 5, 6, 7, 8, 9, ..."), (20, "2, 3, 4, 5, 6, 7, 8, 9, ...")],
)
def test_the_error_names_at_most_eight_rollouts(count, named):
    """Of those with an answer; the neighbours have their rewards."""
    good = {"rollouts": [{"answer": "1", "mean_entropy": 0.2}]}
    bad = {"rollouts": [*good["rollouts"], {"answer": None}, *[{"answer": "1"}] * count]}
    one, found, other = dare_reward.estimate([good, bad, good]).groups
    assert one.rewards == other.rewards == (1.0,)
    assert (found.rewards, found.support, found.error.code) == (None, None, "missing_entropy")
    assert f"{count} of {count + 2} " in found.error.message
    assert f"(index {named})" in found.error.message


def test_the_group_mean_is_of_the_rollouts_that_have_an_answer_and_an_entropy():
    nan = math.nan
    answers = [["a", "b", "b", None], ["a", "b"], ["a"], [None], ["a", "b"]]
    entropies = [[0.2, nan, 0.6, 9.0], [0.5, nan], [nan], [nan], [0.1, 0.3]]
    found = dare_reward.estimate(exact(answers, mean_entropy=entropies), missing_entropy="group_mean").groups
    some, one, none, silent, all_ = found
    assert [s.uncertainty for s in some.support] == pytest.approx([0.2, (0.4 + 0.6) / 2])
    assert [s.uncertainty for s in one.support] == [0.5, 0.5]
    assert none.error.code == "missing_entropy"
    assert silent.flags[0] == "all_invalid"
    assert [s.uncertainty for s in all_.support] == [0.1, 0.3]
    flagged = ["missing_entropy_imputed" in (g.flags or ()) for g in found]
    assert flagged == [True, True, False, False, False]
    assert [g.entropy_source for g in (some, one, silent, all_)] == ["exact", "exact", "none", "exact"]


def test_frequency_is_for_the_groups_that_lack_an_entropy_alone():
    """One missing entropy, and votes alone count in that group; its neighbours keep theirs."""
    nan = math.nan
    groups = exact(["abb", "abb"], mean_entropy=[[0.001, 7.0, nan], [0.1, 0.7, 0.7]])
    lacking, whole = dare_reward.estimate(groups, missing_entropy="frequency", tau=0.0).groups
    assert [s.p_hat for s in lacking.support] == pytest.approx([1 / 3, 2 / 3])
    assert [s.bonus for s in lacking.support] == pytest.approx([2 / 3, 1 / 3])
    assert [s.uncertainty for s in lacking.support] == [None, None]
    assert "missing_entropy_frequency" in lacking.flags
    assert lacking.entropy_source == "none"
    # By hand: one vote over 0.1 + 0.05, two votes over 0.7 + 0.05.
    assert [s.p_hat for s in whole.support] == pytest.approx([5 / 7, 2 / 7])
    assert [s.uncertainty for s in whole.support] == [0.1, 0.7]
    assert "missing_entropy_frequency" not in whole.flags
    assert whole.entropy_source == "exact"
    assert not {"low_entropy", "u_gt_1"} & {*lacking.flags, *whole.flags}, "neither sure nor unsure"


@pytest.mark.parametrize("bonus", ["main", "zero"])
def test_the_columns_are_numbers(bonus):
    """Missing is NaN, not an object, also where entropies are missing."""
    groups = batch([("a", math.nan), ("b", 0.1)], [("a", 0.2), ("b", 0.1)])
    found = dare(groups, missing_entropy="frequency", bonus=bonus)
    kinds = {name: column.dtype.name for name, column in found.support_A.items()}
    assert kinds.pop("kept") == "bool"
    assert set(kinds.values()) == {"float64"}
    assert (found.rewards_R.dtype.name, found.keep_R.dtype.name) == ("float64", "bool")
    assert np.isnan(found.support_A["uncertainty"]).tolist() == [True, True, False, False]


def test_the_defaults_and_the_presets():
    """The contract's; what a preset changes may be changed again."""
    defaults = (
        "weight=linear&eps=0.05&exponent=1&certainty=entropy&eps_scale=null&lam=1&u_floor=0&bonus=main&u_norm=clip"
        "&vocab_size=151936&alpha=0.1&tau=0.05&renorm=answers&bonus_m=retained&on_all_pruned=skip&pruned=zero"
        "&missing_entropy=error&over=trace"
    )
    assert {s.name: s.default for s in find("dare").specs} == read_line(f"method=dare&{defaults}")[1]
    assert {m.name: dict(m.defaults) for m in METHODS} == {
        "dare": {},
        "dare_literal": {"eps": 1e-6},
        "dare_dist": {"alpha": 0.0, "tau": 0.0},
        "dare_dist_bonus": {"tau": 0.0},
        "dare_dist_prune": {"alpha": 0.0},
        "dare_sqrt": {"weight": "sqrt"},
        "dare_robust": {"weight": "sqrt", "eps": 0.1, "u_floor": 0.02},
    }
    rollouts = [("a", 0.4)] * 3 + [("b", 0.1)] * 2 + [("c", 2.0), ("a", 0.02)]
    for preset in METHODS:
        back = {name: find("dare").resolve({})[name] for name in preset.defaults}
        assert score(rollouts, method=preset.name).rewards == score(rollouts, **preset.defaults).rewards
        assert score(rollouts, method=preset.name, **back).rewards == score(rollouts).rewards


def test_an_answer_at_exactly_tau_is_kept():
    """1/3 is less than 3 times 1/9 in floating point; the slack is below anything that a caller can mean."""
    three = [("a", 0.5), ("b", 0.5), ("c", 0.5)]
    assert score(three, weight="none", tau=1 / 3).keep == (True,) * 3
    assert score(three, weight="none", tau=1 / 3 + 5e-13).keep == (True,) * 3
    assert score(three, weight="none", tau=1 / 3 + 2e-12).keep == (False,) * 3


def test_keep_all_keeps_all_of_the_groups_that_need_it():
    rare = [(str(i), 0.5) for i in range(30)]
    mixed = [("a", 0.5)] * 29 + [("b", 0.5)]
    all_, some = dare_reward.estimate(sent(rare, mixed), on_all_pruned="keep_all").groups
    assert all(all_.keep)
    assert all_.rewards == pytest.approx([1 / 30 + 0.1 * (1 - 1 / 30) * 0.5] * 30)
    assert "all_pruned" in all_.flags
    assert some.keep == (True,) * 29 + (False,)
    assert "all_pruned" not in some.flags


def test_a_pruned_rollout_gets_a_lonely_survivor_s_reward():
    neutral = score([("a", 0.0), ("b", 9.0), ("c", 9.0), (None, 0.0)], tau=0.5, pruned="neutral")
    assert neutral.keep == (True, False, False, False)
    assert neutral.rewards == (1.0, 1.0, 1.0, 0.0)
    with_neighbour = dare_reward.estimate(sent([("x", 0.2), ("y", 0.2)], [("a", 0.0), ("b", 9.0)]), pruned="neutral")
    assert with_neighbour.groups[1].rewards == (1.0, 1.0)


def test_the_bonus_is_never_negative_for_its_frequency():
    """n > M happens when survivors are none, or M counts less than n: the factor stops at 0."""
    n, m, q = np.array([3.0]), np.array([2.0]), np.array([0.25])
    assert [_bonus(n, m, q, form).item() for form in ("main", "sqrt_freq", "one_minus_sqrt_freq")] == [0, 0, 0]


CORNERS = {
    "exponent": (-1e3, 1.0, 1e3),
    "eps": (0.0, 1e3),
    "eps_scale": (None, 0.0, 1e6),
    "u_floor": (0.0, 1e3),
    "weight": ("linear", "exp", "log"),
    "lam": (0.0, 1e3),
}


@pytest.mark.parametrize("method", ["dare", "weighted_vote"])
def test_at_the_bounds_of_its_parameters_some_answer_has_the_mass(method):
    """Beyond them w overflowed, and every rollout got 0 without a word."""
    declared = {s.name: s for s in specs(find(method))}
    for name, values in CORNERS.items():
        for value in values:
            declared[name].check(value)
        for bound in {declared[name].ge, declared[name].le} - {None}:
            assert bound in values
            with pytest.raises(RequestError):
                declared[name].check(math.nextafter(bound, math.copysign(math.inf, bound or -1)))
    entropies = ((0.0, 5e-324, 1000.0), (0.3, 0.3, 0.3), (1000.0, 1000.0, 999.0))
    groups = [{"rollouts": said("112", mean_entropy=nats)} for nats in entropies]
    for corner in itertools.product(*CORNERS.values()):
        params = dict(zip(CORNERS, corner, strict=True))
        if params["weight"] != "linear" and params["exponent"] != 1:
            continue
        for group in estimate(groups, method=method, **params).groups:
            assert sum(s.p_hat for s in group.support) == pytest.approx(1), params
            assert sum(group.rewards) > 0, params


def test_every_offered_method_bounds_its_numbers_on_both_sides():
    for method in (m for m in methods().values() if m.offered):
        for spec in specs(method):
            if spec.type is float:
                assert {spec.ge, spec.gt} != {None} != {spec.le, spec.lt}, (method.name, spec.name)
