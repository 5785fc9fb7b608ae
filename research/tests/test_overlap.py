"""Overlap of rollouts against the definitions, pair by pair."""

from collections import Counter
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dare_research.analysis import overlap
from dare_research.analysis.overlap import KINDS, every_overlap


def ratio(part, whole):
    return part / whole if whole else 1.0


def grams(a):
    return {tuple(a[i : i + 4]) for i in range(len(a) - 3)}


def pair(a, b):
    common = sum((Counter(a) & Counter(b)).values())
    prefix = next((i for i, (x, y) in enumerate(zip(a, b)) if x != y), min(len(a), len(b)))
    return {
        "jaccard": ratio(len(set(a) & set(b)), len(set(a) | set(b))),
        "multiset": ratio(common, max(len(a), len(b))),
        "dice": ratio(2 * common, len(a) + len(b)),
        "positional": ratio(sum(x == y for x, y in zip(a, b)), max(len(a), len(b))),
        "prefix": ratio(prefix, max(len(a), len(b))),
        "ngram": ratio(len(grams(a) & grams(b)), len(grams(a) | grams(b))),
    }


TOKENS = st.lists(st.lists(st.integers(0, 3), max_size=12), min_size=2, max_size=6)


@settings(deadline=None)  # the first call may be slow; tests assert no durations
@given(rollouts=TOKENS)
def test_by_definition(rollouts):
    found = every_overlap([np.array(r, np.int64) for r in rollouts])
    pairs = [pair(a, b) for a, b in combinations(rollouts, 2)]
    assert found == {k: pytest.approx(np.mean([p[k] for p in pairs])) for k in KINDS}


def test_wide_vocabularies_are_counted_in_pieces(monkeypatch):
    rng = np.random.default_rng(0)
    rollouts = [rng.integers(0, 400, 300) for _ in range(5)]
    whole = every_overlap(rollouts)
    monkeypatch.setattr(overlap, "CHUNK", 7)
    assert every_overlap(rollouts) == whole


def test_extremes():
    same = np.arange(9)
    assert set(every_overlap([same, same, same]).values()) == {1.0}
    assert set(every_overlap([same, same + 100]).values()) == {0.0}
    assert every_overlap([same]) == {}
