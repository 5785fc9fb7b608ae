"""Hard facts of prompts, and the statistics of points that come in blocks."""

import gzip
import json
from itertools import permutations, product
from pathlib import Path

import numpy as np
import pytest

from dare_research.page.facts import by_hardness, unseen_by_facts
from dare_research.page.outcomes import BASE, FINAL, Study
from dare_research.statistics.blocks import blocked_p, break_even, mean_ranks
from dare_research.training.corpus import hard_facts, hardness
from dare_research.training.facts import SUBSETS, subset
from dare_research.training.families import FAMILIES, Exercise
from dare_research.training.plan import DEFAULT, problems_of
from dare_research.training.records import parse

PACKED = Path(__file__).parents[1] / "results" / "training.jsonl.gz"
TERMS = {("dare", "pass@1"): 1.0, ("ttrl", "pass@1"): -1.0}


@pytest.fixture(scope="module")
def study():
    with gzip.open(PACKED, "rt") as lines:
        records = [json.loads(line) for line in lines]
    wanted = {"ttrl", "dare"}
    return Study(parse([r for r in records if r["record"] == "base" or r.get("arm") in wanted]), resamples=200)


def test_hard_facts_are_those_of_the_right_way():
    """Read from the worked steps, not from the calls: `c4g` is letter c moved on by 4."""
    seen = 0
    for family, problem in problems_of(DEFAULT, FINAL, 0)["adapted"]:
        steps, _ = problem.work(lambda _fact, right, _ring: right)
        texts = [s[:2] if family == "shift" else s.split("=")[0] for s in steps]
        expected = {(family, t) for t in texts if hardness(FAMILIES[family], t)}
        assert hard_facts(family, problem) == expected
        seen += len(expected)
    assert seen > 50


@pytest.mark.parametrize("where", ["adapted", "unseen"])
def test_the_subsets_are_a_partition(where):
    parts = [name for name in SUBSETS if name != "with a hard fact"]
    for base in range(4):
        found = {name: subset(name, stage=FINAL, base=base, where=where) for name in SUBSETS}
        assert (np.sum([found[n] for n in parts], axis=0) == 1).all()
        assert (found["with a hard fact"] == ~found["without a hard fact"]).all()
        if where == "adapted":
            assert (found["all hard facts adapted to"] == found["with a hard fact"]).all()


def test_an_unseen_prompt_is_told_by_the_facts_of_the_adapted_ones():
    problems = problems_of(DEFAULT, FINAL, 1)
    adapted = frozenset().union(*(hard_facts(f, p) for f, p in problems["adapted"]))
    new = subset("no hard fact adapted to", stage=FINAL, base=1, where="unseen")
    for (family, problem), at in zip(problems["unseen"], new, strict=True):
        own = hard_facts(family, problem)
        assert at == (bool(own) and not own & adapted)
    assert 0 < new.sum() < len(new)


def test_a_problem_without_facts_is_easy():
    assert hard_facts("add", Exercise("", lambda decide: ([], "0"))) == frozenset()


def test_a_contrast_over_subsets_adds_up_to_that_over_all(study):
    for where in ("adapted", "unseen"):
        whole = study.scores(FINAL, "informative", TERMS, where=where)
        parts = [
            study.scores(FINAL, "informative", TERMS, where=where, subset=name)
            for name in ("without a hard fact", "with a hard fact")
        ]
        for base, easy, hard in zip(whole, *parts, strict=True):
            for one, a, b in zip(base, easy, hard, strict=True):
                assert len(one) == len(a) + len(b)
                assert one.sum() == pytest.approx(a.sum() + b.sum())


def test_prompts_are_split_by_the_vote_of_their_base(study):
    terms = {("ttrl", "pass@1"): 1.0, (BASE, "pass@1"): -1.0}
    name = "with a hard fact"
    whole, right, wrong = (
        study.scores(FINAL, "informative", terms, subset=name + part) for part in ("", ", vote right", ", vote wrong")
    )
    for base, a, b in zip(whole, right, wrong, strict=True):
        assert len(base[0]) == len(a[0]) + len(b[0])
        assert a[0].mean() > b[0].mean()  # the vote entrenches what is wrong


def test_prompts_of_another_design_have_no_subsets(study):
    bare = Study(parse([]), resamples=200)
    assert "No record yet" in by_hardness(bare)
    assert "No record yet" in unseen_by_facts(bare)


def test_blocked_p_by_hand():
    """Two blocks of two: of the four arrangements only the observed one is as extreme."""
    assert blocked_p([1, 2, 3, 4], [1, 2, 3, 4], [0, 0, 1, 1]) == pytest.approx(1 / 4)
    assert np.isnan(blocked_p([1, 2, 3, 4], [1, 1, 1, 1], [0, 0, 1, 1]))
    x, y, blocks = [0.4, 0.7, 0.6, 0.3, 0.8, 0.5], [1, 3, 2, -1, 2, 0], [0, 0, 0, 1, 1, 1]
    observed = abs(np.corrcoef(mean_ranks(x), mean_ranks(y))[0, 1])
    found = []
    for one, other in product(permutations(y[:3]), permutations(y[3:])):
        found.append(abs(np.corrcoef(mean_ranks(x), mean_ranks([*one, *other]))[0, 1]) >= observed - 1e-9)
    assert blocked_p(x, y, blocks) == pytest.approx(np.mean(found))


def test_too_many_arrangements_are_not_guessed():
    assert np.isnan(blocked_p(list(range(20)), list(range(20)), [0] * 20))


def test_break_even():
    x, blocks = [0.4, 0.5, 0.7, 0.4, 0.5, 0.7], [0, 0, 0, 1, 1, 1]
    exact = [2 * (v - 0.57) for v in x]
    assert break_even(x, exact, blocks) == pytest.approx((0.57, 0.57, 0.57))
    moved = [*exact[:3], *(v + 0.1 for v in exact[3:])]  # the second block breaks even at .52
    estimate, low, high = break_even(x, moved, blocks)
    assert estimate == pytest.approx(0.545)
    assert (low, high) == pytest.approx((0.52, 0.57), abs=2e-3)
    assert np.isnan(break_even([0.5, 0.5], [1, 2], [0, 1])[0])
