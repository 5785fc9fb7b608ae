"""Contrasts of paired runs: closed forms, coverage, corrections, and what may be said."""

import numpy as np
import pytest
from scipy.stats import t as student

from dare_research.statistics.contrasts import FEWEST_BASES, Ends, Judgement, contrast, holm, judge, replicates
from dare_research.statistics.detectable import Spread, minimum_detectable, spread


def nested(rng, *, bases=4, seeds=4, prompts=32, between=0.0, within=0.0, prompt=0.0, noise=0.0):
    """Normal components: of bases, of seeds, of the prompts that the seeds of a base share, and of each value."""
    out = []
    for _ in range(bases):
        shared = rng.normal(0, between) + rng.normal(0, prompt, prompts)
        out.append([shared + rng.normal(0, within) + rng.normal(0, noise, prompts) for _ in range(seeds)])
    return out


# the bootstrap


def test_the_estimate_weighs_bases_alike():
    found = contrast([[np.array([1.0, 1.0])], [np.array([0.0, 0.0])] * 3], resamples=200)
    assert found.estimate == 0.5
    assert (found.bases, found.pairs, found.prompts) == (2, 4, 2)
    assert contrast([]) is None
    assert contrast([[]]) is None


@pytest.mark.parametrize(
    ("components", "shared", "variance"),
    [
        # B bases of S seeds of P prompts; s2 the mean squared deviation (ddof 0) at a level, exact for the bootstrap
        ("bases", "base", lambda b, s, p: b / 4),
        ("seeds", "base", lambda b, s, p: b / 4 + s / 16),
        ("prompts", "base", lambda b, s, p: b / 4 + p / (4 * 25)),
        ("prompts", "run", lambda b, s, p: b / 4 + p / (16 * 25)),
    ],
)
def test_the_variance_of_replicates_in_closed_form(components, shared, variance):
    rng = np.random.default_rng(1)
    offset_B, offset_S, offset_P = rng.normal(size=4), rng.normal(size=4), rng.normal(size=25)
    zero = np.zeros(25)
    table = {
        "bases": [[zero + b] * 4 for b in offset_B],
        "seeds": [[zero + s for s in offset_S]] * 4,
        "prompts": [[offset_P] * 4] * 4,
    }[components]
    squares = [
        offset_B.var() if components == "bases" else 0.0,
        offset_S.var() if components == "seeds" else 0.0,
        offset_P.var() if components == "prompts" else 0.0,
    ]
    drawn = replicates(table, resamples=20000, shared=shared)
    assert drawn.var() == pytest.approx(variance(*squares), rel=0.05)
    assert drawn.mean() == pytest.approx(np.mean([np.mean(b) for b in table]), abs=0.02)


def test_prompts_that_all_share_do_not_average_out():
    offset_P = np.random.default_rng(2).normal(size=25)
    drawn = replicates([[offset_P] * 4] * 4, resamples=20000, shared="all")
    assert drawn.var() == pytest.approx(offset_P.var() / 25, rel=0.05)
    with pytest.raises(ValueError, match="do not share"):
        replicates([[offset_P], [offset_P[:3]]], resamples=10, shared="all")


def test_unequal_numbers_of_seeds_and_prompts():
    found = contrast([[np.ones(3)] * 2, [np.zeros(5)] * 3, [np.ones(4)], [np.zeros(1)]], resamples=500)
    assert found.estimate == 0.5
    assert found.bootstrap.low == 0.0
    assert found.bootstrap.high == 1.0


def test_the_seed_fixes_the_interval():
    values = nested(np.random.default_rng(3), within=1.0, noise=1.0)
    assert contrast(values, resamples=300) == contrast(values, resamples=300)
    assert contrast(values, resamples=300) != contrast(values, resamples=300, seed=1)


def coverage(repeats=150, **components):
    """Shares of the three 95 per cent intervals that hold the true 0."""
    hits = np.zeros(3)
    for i in range(repeats):
        found = contrast(nested(np.random.default_rng((i, 11)), **components), resamples=300, seed=i)
        hits += [e.low <= 0 <= e.high for e in (found.bootstrap, found.over_bases, found.over_pairs)]
    return hits / repeats


def test_coverage_where_seeds_differ():
    bootstrap, over_bases, over_pairs = coverage(within=1.0, noise=1.0)
    assert bootstrap > 0.92
    assert over_bases == pytest.approx(0.95, abs=0.05)
    assert over_pairs == pytest.approx(0.95, abs=0.05)


def test_coverage_where_bases_differ():
    """What the docstring of `Contrast` warns of: few bases make the bootstrap and the pairs too sure."""
    bootstrap, over_bases, over_pairs = coverage(between=1.0)
    assert 0.7 < bootstrap < 0.92
    assert over_bases == pytest.approx(0.95, abs=0.05)
    assert over_pairs < 0.8


def test_coverage_where_prompts_differ():
    bootstrap, over_bases, over_pairs = coverage(prompt=1.0, within=0.05)
    assert bootstrap > 0.92
    assert over_bases == pytest.approx(0.95, abs=0.05)
    assert over_pairs < 0.85


def test_t_intervals_are_the_textbook_ones():
    values = [[np.array([v])] for v in (1.0, 2.0, 3.0, 6.0)]
    found = contrast(values, resamples=100)
    error = np.std([1, 2, 3, 6], ddof=1) / 2
    assert found.over_bases.low == pytest.approx(3 - 3.18245 * error, rel=1e-5)
    assert found.over_bases.high90 == pytest.approx(3 + 2.35336 * error, rel=1e-5)
    assert found.over_pairs == found.over_bases
    assert found.p_bases == pytest.approx(2 * student.sf(3 / error, 3))


def test_p_values():
    none = contrast([[np.zeros(4)] * 2] * 4, resamples=99)
    assert none.p == none.p_bases == 1
    sure = contrast([[np.full(4, 0.1)] * 2] * 4, resamples=99)
    assert sure.p == pytest.approx(2 / 100)
    assert sure.p_bases == 0
    values = nested(np.random.default_rng(8), within=1.0)
    drawn = replicates(values, resamples=999)
    expected = 2 * (min((drawn <= 0).sum(), (drawn >= 0).sum()) + 1) / 1000
    assert contrast(values, resamples=999).p == pytest.approx(expected)


def test_few_bases_decide_by_the_wider_interval():
    values = [[np.full(4, v)] * 4 for v in (0.02, 0.10, 0.05)]
    found = contrast(values, resamples=500)
    assert found.bases < FEWEST_BASES
    assert found.bootstrap.low > 0 > found.deciding.low
    assert found.deciding_p == max(found.p, found.p_bases)
    assert judge(found.bootstrap).word == "better"
    assert judge(found.deciding).word == "undecided"
    single = contrast(values[:1], resamples=100)
    assert judge(single.deciding).word == "undecided"
    assert single.deciding.low == -np.inf
    four = contrast([*values, values[0]], resamples=500)
    assert four.deciding == four.bootstrap


# what may be said


@pytest.mark.parametrize(
    ("ends", "expected"),
    [
        (Ends(0.02, 0.06, 0.03, 0.05), Judgement("better")),
        (Ends(-0.06, -0.02, -0.05, -0.03), Judgement("worse")),
        (Ends(-0.008, 0.009, -0.006, 0.007), Judgement("equivalent")),
        (Ends(-0.012, 0.009, -0.009, 0.007), Judgement("equivalent")),  # the 90 per cent interval is the test
        (Ends(-0.02, 0.03, -0.01, 0.02), Judgement("undecided")),
        (Ends(-0.001, 0.03, 0.001, 0.02), Judgement("undecided")),  # above 0 at 90 per cent only
        (Ends(0.001, 0.009, 0.002, 0.008), Judgement("better", within=True)),
        (Ends(-0.009, -0.001, -0.008, -0.002), Judgement("worse", within=True)),
        (Ends(0.001, 0.012, 0.002, 0.011), Judgement("better")),
        (Ends(-0.02, 0.01, -0.01, 0.005), Judgement("undecided")),  # the margin itself is not inside
    ],
)
def test_verdicts(ends, expected):
    assert judge(ends) == expected


def test_a_corrected_p_takes_a_verdict_back():
    ends = Ends(0.02, 0.06, 0.03, 0.05)
    assert judge(ends, p=0.049).word == "better"
    assert judge(ends, p=0.05).word == "undecided"
    assert judge(Ends(0.001, 0.009, 0.002, 0.008), p=0.2).word == "equivalent"
    assert str(Judgement("better", within=True)) == "better, but within the margin"
    assert judge(Ends(-0.03, 0.04, -0.02, 0.03), margin=0.05).word == "equivalent"


def test_holm_by_hand():
    # sorted .005 .01 .03 .04, times 4 3 2 1: .02 .03 .06 .04, then not below the one before
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert holm([0.5, 0.6]) == [1.0, 1.0]
    assert holm([0.02]) == [0.02]
    assert holm([]) == []


# how much can be seen


def test_variance_components_by_hand():
    # base means 1 and 5; MS_w = (1+1+1+1)/2 = 2, MS_b = 2(4+4)/1 = 16, n0 = 2: between (16-2)/2 = 7
    found = spread([[np.array([0.0]), np.array([2.0])], [np.array([4.0]), np.array([6.0])]])
    assert found == Spread(7.0, 2.0)
    # sizes 1 and 3: n0 = (4 - 10/4)/1 = 1.5
    uneven = spread([[np.array([3.0])], [np.array([0.0]), np.array([0.0]), np.array([3.0])]])
    assert uneven.within == pytest.approx(3.0)
    assert uneven.between == pytest.approx(max(0, (3.0 - 3.0) / 1.5))
    assert spread([[np.zeros(2)], [np.ones(2)]]) is None
    assert spread([]) is None
    assert spread([[np.zeros(2), np.ones(2)]]) == Spread(None, 0.5)
    assert spread([[np.array([0.0]), np.array([2.0])]] * 2).between == 0.0


def test_components_are_recovered():
    values = nested(np.random.default_rng(4), bases=200, seeds=6, prompts=1, between=0.5, within=1.0)
    found = spread(values)
    assert found.within == pytest.approx(1.0, rel=0.1)
    assert found.between == pytest.approx(0.25, rel=0.35)


def test_minimum_detectable_effect():
    assert minimum_detectable(Spread(0.0, 4.0), bases=4, seeds=4) == pytest.approx(2.8 * 0.5)
    assert minimum_detectable(Spread(4.0, 0.0), bases=4, seeds=4) == pytest.approx(2.8)
    assert minimum_detectable(Spread(None, 4.0), bases=4, seeds=4) == pytest.approx(2.8 * 0.5)
    few = minimum_detectable(Spread(0.0, 4.0), bases=4, seeds=4, few=True)
    assert few == pytest.approx((3.18245 + 0.97847) * 0.5, rel=1e-4)


def test_the_effect_is_detected_as_often_as_stated(monkeypatch):
    """By the interval of Student's t over the bases: the bootstrap and a p, which take long, have no part in it."""
    monkeypatch.setattr("dare_research.statistics.contrasts.stdtr", lambda df, t: float("nan"))
    monkeypatch.setattr("dare_research.statistics.contrasts._replicates", lambda *_, **__: np.zeros(2))
    effect = minimum_detectable(Spread(0.0, 1.0), bases=20, seeds=2)
    rng = np.random.default_rng(6)
    hits = 0
    for i in range(200):
        found = contrast([[effect + rng.normal(0, 1, 1) for _ in range(2)] for _ in range(20)], resamples=2, seed=i)
        hits += found.over_bases.low > 0
    assert hits / 200 == pytest.approx(0.8, abs=0.08)
