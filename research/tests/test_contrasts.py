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
    for nothing in ([], [[]]):
        with pytest.raises(ValueError, match="no pair"):
            contrast(nothing)


@pytest.mark.parametrize(("shape", "draws"), [((4, 1, 1), 4), ((1, 4, 1), 16), ((1, 1, 25), 100)])
def test_the_variance_of_replicates_in_closed_form(shape, draws):
    """Offsets of bases, of seeds, of prompts: their mean squared deviation over how often one is drawn, exactly."""
    offsets = np.random.default_rng(1).normal(size=shape)
    drawn = replicates(list(np.broadcast_to(offsets, (4, 4, 25))), resamples=20000)
    assert drawn.var() == pytest.approx(offsets.var() / draws, rel=0.05)
    assert drawn.mean() == pytest.approx(offsets.mean(), abs=0.02)


def test_unequal_numbers_of_seeds_and_prompts():
    found = contrast([[np.ones(3)] * 2, [np.zeros(5)] * 3, [np.ones(4)], [np.zeros(1)]], resamples=500)
    assert found.estimate == 0.5
    assert found.bootstrap.low == 0.0
    assert found.bootstrap.high == 1.0


def test_the_seed_fixes_the_interval():
    values = nested(np.random.default_rng(3), within=1.0, noise=1.0)
    assert contrast(values, resamples=300) == contrast(values, resamples=300)
    assert contrast(values, resamples=300) != contrast(values, resamples=300, seed=1)


@pytest.mark.parametrize(
    ("components", "bootstrap", "over_pairs"),
    [
        ({"within": 1.0, "noise": 1.0}, (0.926, 1), (0.9, 1)),
        ({"between": 1.0}, (0.706, 0.914), (0, 0.794)),
        ({"prompt": 1.0, "within": 0.05}, (0.926, 1), (0, 0.847)),
    ],
)
def test_coverage_where_seeds_bases_or_prompts_differ(components, bootstrap, over_pairs):
    """What the docstring of `Contrast` warns of: shares of the three 95 per cent intervals that hold the true 0."""
    hits = np.zeros(3)
    for i in range(150):
        found = contrast(nested(np.random.default_rng((i, 11)), **components), resamples=300, seed=i)
        hits += [e.low <= 0 <= e.high for e in (found.bootstrap, found.over_bases, found.over_pairs)]
    for share, (low, high) in zip(hits / 150, (bootstrap, (0.9, 1), over_pairs), strict=True):
        assert low <= share <= high


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
