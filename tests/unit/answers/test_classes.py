"""Classes of a group: order, duplication, the group rule, representatives."""

import json
import random
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from itertools import combinations, permutations
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jsonl import read_lines

from dare_reward.answers import Classes, canonical, classify, grade
from dare_reward.answers.classes import grades
from dare_reward.answers.keys import _cached_math, key_of

PAIRS = read_lines(Path(__file__).parents[2] / "data" / "answer_pairs.jsonl")
TEXTS = sorted({p[side] for p in PAIRS for side in "ab" if p["kind"] == "math"})
VOTES = [
    ["50", r"50\%", "0.5", "1/2", "50 percent"],
    [r"\frac13", "0.333333", r"0.\overline{3}", "0.3"],
    ["(1,2)", r"\{1,2\}", "2,1", "1<x<2", "[1,2]", r"x\in(1,2)"],
    ["x=3", "3", "x-3=0", "3.0000001", "y=3"],
    ["5", "5 cm", "5 m", r"5\text{ cm}", "x=5", "x=5 cm"],
    ["204", "204_5", "204_6", "204_{five}"],
    ["60", r"60^\circ", "60 degrees", "60 cm"],
    ["0", "4e-7", "8e-7", ""],
]


def partition(raws, **knobs):
    index = classify(raws, **knobs).index
    return {frozenset(r for r, j in zip(raws, index, strict=True) if j == k) for k in set(index) - {-1}}


def test_first_seen_order_and_no_answer():
    c = classify(["2", None, "0.5", r"\frac12", "", "2"])
    assert (c.index, c.answers, c.kinds) == ((0, -1, 1, 1, -1, 0), ("2", "0.5"), ("exact", "exact"))
    assert classify([]) == Classes((), (), ())
    assert classify([None, "", r"\boxed{}", "  "]) == Classes((-1,) * 4, (), ())


def test_kinds_say_how_sure_a_merge_is():
    c = classify(["7", r"\sqrt2", "(1,2)", "Paris", r"\int x"])
    assert c.kinds == ("exact", "fingerprint", "structured", "text", "opaque")


@pytest.mark.parametrize("votes", VOTES)
def test_every_order_gives_the_same_classes(votes):
    expected = partition(votes)
    for order in permutations(votes[:6]):
        assert partition([*order, *votes[6:]]) == expected


@given(st.lists(st.sampled_from(TEXTS), min_size=1, max_size=24), st.randoms(use_true_random=False))
@settings(max_examples=150, deadline=None)
def test_permutation_and_duplication_change_nothing(raws, rng):
    expected = partition(raws)
    shuffled = list(raws)
    rng.shuffle(shuffled)
    assert partition(shuffled) == expected
    assert partition(raws + shuffled) == expected


@given(st.lists(st.sampled_from(TEXTS), min_size=3, max_size=3))
@settings(max_examples=200, deadline=None)
def test_a_group_merges_by_key_and_never_two_tags(raws):
    index = classify(raws).index
    for a, b in combinations(range(3), 2):
        same = index[a] == index[b] >= 0
        one, other = canonical(raws[a]), canonical(raws[b])
        if one is None or other is None or (one.kind, one.value) != (other.kind, other.value):
            assert not same
        elif one.tag == other.tag:
            assert same
        elif one.tag and other.tag:
            tags, others = set(one.tag.split("|")), set(other.tag.split("|"))
            assert tags < others or others < tags or not same


@given(st.lists(st.sampled_from(TEXTS), min_size=1, max_size=12))
@settings(max_examples=100, deadline=None)
def test_the_representative_stays_in_its_class(raws):
    c = classify(raws)
    again = classify([*raws, *c.answers])
    assert again.index[: len(raws)] == c.index
    assert again.index[len(raws) :] == tuple(range(len(c.answers)))


def test_no_answer_equals_nothing():
    for none in (None, "", " ", r"\boxed{}", "$$", "..."):
        assert not grade(none, none)
        assert not grade(none, "0")
        assert not grade("0", none)


def test_eight_threads_agree_with_one():
    texts = TEXTS[:: max(1, len(TEXTS) // 250)]
    expected = [canonical(t) for t in texts]
    _cached_math.cache_clear()
    orders = [random.Random(n).sample(texts, len(texts)) for n in range(8)]
    with ThreadPoolExecutor(8) as pool:
        results = list(pool.map(lambda order: {t: canonical(t) for t in order}, orders))
    for result in results:
        assert [result[t] for t in texts] == expected


def test_hash_seeds_do_not_matter():
    code = (
        "import sys, json; from dare_reward.answers import canonical, classify;"
        "texts = json.load(sys.stdin); print([str(canonical(t)) for t in texts], classify(texts))"
    )
    texts, command = json.dumps(TEXTS[:: max(1, len(TEXTS) // 120)]), [sys.executable, "-c", code]
    seeds = ({"PYTHONHASHSEED": seed, "PYTHONPATH": ":".join(sys.path)} for seed in ("0", "4242"))
    assert len({subprocess.check_output(command, input=texts, text=True, env=env) for env in seeds}) == 1


@pytest.mark.parametrize("label", ["1", "x" * 300, None])
def test_a_label_is_read_once_however_many_answers_it_is_compared_with(monkeypatch, label):
    read = []

    def noted(raw, *rest):
        read.append(raw)
        return key_of(raw, *rest)

    monkeypatch.setattr("dare_reward.answers.classes.key_of", noted)
    answers = [None, "1", "1.0", "2", "x" * 300]
    found = grades(answers, label)
    assert read.count(label) <= 1 + answers.count(label)
    assert found == [grade(a, label) for a in answers]
