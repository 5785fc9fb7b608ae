import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dare_reward import segments
from dare_reward.segments import blocks, offsets, segment_means, segment_quantiles, segment_sort, segment_sums

LENGTHS = st.lists(st.integers(0, 9), min_size=1, max_size=30)


@given(LENGTHS, st.integers(1, 12))
def test_blocks_cover_every_segment_once_and_whole(lengths, size):
    ends = offsets(np.array(lengths))
    at = 0
    for part, elements in blocks(np.array(lengths), size=size):
        assert part.start == at
        assert part.stop > part.start
        assert (elements.start, elements.stop) == (ends[part.start], ends[part.stop])
        assert elements.stop - elements.start <= size or part.stop == part.start + 1
        at = part.stop
    assert at == len(lengths)


@given(LENGTHS, st.randoms(use_true_random=False))
def test_sums_are_those_of_each_segment_alone(lengths, random):
    rows = [np.array([random.random() for _ in range(n)], np.float32) for n in lengths]
    sums = segment_sums(np.concatenate(rows), np.array(lengths))
    alone = [segment_sums(row, np.array([len(row)]))[0] for row in rows]
    assert sums.tolist() == alone
    np.testing.assert_allclose(sums, [row.astype(np.float64).sum() for row in rows], rtol=1e-15)


def test_blocks_do_not_change_a_bit(monkeypatch):
    rng = np.random.default_rng(0)
    lengths = rng.integers(0, 50, 400)
    values = rng.gamma(0.3, 1, int(lengths.sum())).astype(np.float32)
    whole = segment_sums(values, lengths)
    monkeypatch.setattr(segments, "BLOCK", 64)
    monkeypatch.setattr(segments.blocks, "__kwdefaults__", {"size": 64})
    assert segment_sums(values, lengths).tolist() == whole.tolist()


def test_empty_segments_do_not_take_a_neighbours_value():
    sums = segment_sums(np.array([1.0, 2, 4]), np.array([0, 1, 0, 0, 2, 0]))
    assert sums.tolist() == [0, 1, 0, 0, 6, 0]
    assert segment_sums(np.zeros(0, np.float32), np.zeros(0, np.int64)).tolist() == []
    assert segment_sums(np.array([1e8, 1, -1e8], np.float32), np.array([3])) == 1, "float32 is summed in float64"


@pytest.mark.parametrize(("mask", "counted"), [(None, [2, 1, 0]), ([True, True, False], [2, 0, 0])])
def test_means_are_of_the_tokens_that_the_mask_leaves(mask, counted):
    values = np.array([1, 2, 4], np.float32)
    means = segment_means(values, np.array([2, 1, 0], np.int32), mask_T=mask and np.array(mask))
    assert means.dtype == np.float64
    assert means[np.array(counted) > 0].tolist() == [1.5, 4][: np.count_nonzero(counted)]
    assert np.isnan(means).tolist() == [n == 0 for n in counted]
    assert values.tolist() == [1, 2, 4]


def test_offsets():
    assert offsets(np.array([2, 0, 3])).tolist() == [0, 2, 2, 5]
    assert offsets(np.array([], np.int64)).tolist() == [0]
    assert offsets(np.array([200, 100], np.uint8)).tolist() == [0, 200, 300]
    assert offsets(np.array([1], np.int32)).dtype == np.int64


def test_blocks_are_as_large_as_they_may_be():
    found = list(blocks(np.array([3, 3, 3, 20, 1, 0, 9]), size=6))
    assert [(p.start, p.stop) for p, _ in found] == [(0, 2), (2, 3), (3, 4), (4, 6), (6, 7)]
    assert [(e.start, e.stop) for _, e in found] == [(0, 6), (6, 9), (9, 29), (29, 30), (30, 39)]
    assert list(blocks(np.array([], np.int64))) == []
    whole = list(blocks(np.full(2, segments.BLOCK // 2)))
    assert [(p.start, p.stop) for p, _ in whole] == [(0, 2)]


ROWS = [[3, 1, 2], [], [5], [9, 9, 1, 4], [], [7, -2]]


def flat(rows):
    return np.array([x for row in rows for x in row], np.float32), np.array([len(row) for row in rows])


def test_sorting_each_segment(monkeypatch):
    values, lengths = flat(ROWS)
    found = segment_sort(values, lengths)
    assert found.dtype == np.float64
    assert found.tolist() == [x for row in ROWS for x in sorted(row)]
    assert values.tolist() == [x for row in ROWS for x in row]
    monkeypatch.setattr(segments.blocks, "__kwdefaults__", {"size": 2})
    assert segment_sort(values, lengths).tolist() == found.tolist()
    assert segment_sort(np.zeros(0), np.zeros(2, np.int64)).tolist() == []


@pytest.mark.parametrize("q", [0.0, 0.1, 0.25, 0.5, 0.9, 1.0])
def test_quantiles_of_each_segment(q):
    found = segment_quantiles(*flat(ROWS), q)
    assert found.dtype == np.float64
    for row, value in zip(ROWS, found, strict=True):
        assert value == pytest.approx(np.quantile(row, q)) if row else np.isnan(value)
