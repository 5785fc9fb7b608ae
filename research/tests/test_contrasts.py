"""Contrasts of paired runs: closed forms, coverage, corrections, and what may be said."""

import numpy as np
import pytest
from scipy.stats import t as student

from dare_research.contrasts import FEWEST_BASES, contrast, holm, replicates


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
    ("components", "variance"),
    [
        # B bases of S seeds of P prompts; s2 the mean squared deviation (ddof 0) at a level, exact for the bootstrap
        ("bases", lambda b, s, p: b / 4),
        ("seeds", lambda b, s, p: b / 4 + s / 16),
        ("prompts", lambda b, s, p: b / 4 + p / (4 * 25)),
    ],
)
def test_the_variance_of_replicates_in_closed_form(components, variance):
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
    drawn = replicates([np.stack(base) for base in table], resamples=20000)
    assert drawn.var() == pytest.approx(variance(*squares), rel=0.05)
    assert drawn.mean() == pytest.approx(np.mean([np.mean(b) for b in table]), abs=0.02)


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
    drawn = replicates([np.stack(base) for base in values], resamples=999)
    expected = 2 * (min((drawn <= 0).sum(), (drawn >= 0).sum()) + 1) / 1000
    assert contrast(values, resamples=999).p == pytest.approx(expected)


def test_few_bases_decide_by_the_wider_interval():
    values = [[np.full(4, v)] * 4 for v in (0.02, 0.10, 0.05)]
    found = contrast(values, resamples=500)
    assert found.bases < FEWEST_BASES
    assert found.bootstrap.low > 0 > found.deciding.low
    assert found.deciding_p == max(found.p, found.p_bases)
    assert found.deciding.low <= 0 < found.deciding.high
    single = contrast(values[:1], resamples=100)
    assert single.deciding.low == -np.inf
    four = contrast([*values, values[0]], resamples=500)
    assert four.deciding == four.bootstrap


# what may be said


def test_holm_by_hand():
    # sorted .005 .01 .03 .04, times 4 3 2 1: .02 .03 .06 .04, then not below the one before
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert holm([0.5, 0.6]) == [1.0, 1.0]
    assert holm([0.02]) == [0.02]
    assert holm([]) == []
