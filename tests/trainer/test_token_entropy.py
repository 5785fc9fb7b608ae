"""The rank channel and the top-k bounds."""

from types import SimpleNamespace

import numpy as np
import pytest
from fakes import completion
from hypothesis import given, settings
from hypothesis import strategies as st

from dare_reward.topk_entropy import bounds, completion_bounds
from dare_trainer.vllm.token_entropy import FLOOR_BITS, EntropyError, decode, encode, token_entropies


@given(st.lists(st.floats(0, 12, width=32), min_size=1, max_size=50))
def test_entropies_survive_the_rank_column(values):
    ranks = encode(values)
    assert (ranks >= FLOOR_BITS).all()
    assert (decode(ranks.tolist()) == np.maximum(np.array(values, np.float32), np.float32(1e-30))).all()


@pytest.mark.parametrize("ranks", [[1], [200_000], [int(encode([0.3])[0]), 7]])
def test_a_genuine_rank_is_recognised(ranks):
    with pytest.raises(EntropyError, match="plugin is not active"):
        decode(ranks)


def test_nan_logits_are_not_an_entropy():
    bits = int(np.array([np.nan], np.float32).view(np.int32)[0])
    with pytest.raises(EntropyError, match="NaN"):
        decode([bits])
    with pytest.raises(EntropyError, match="without ranks"):
        decode([None])


def test_a_completion_is_read_token_by_token():
    found = token_entropies(completion("ab", 0.5))
    assert found.tolist() == [0.5, 0.5, 0.5]
    with pytest.raises(EntropyError, match="logprobs=0"):
        token_entropies(completion("ab", 0.5, asked=None))


def test_flat_log_probabilities_are_read_at_their_starts():
    first, second = encode([0.25, 1.5]).tolist()
    rows = Flat([0, 2], [first, 1, second, 1])
    assert token_entropies(SimpleNamespace(token_ids=[5, 6], logprobs=rows)).tolist() == [0.25, 1.5]


class Flat:
    def __init__(self, starts, ranks):
        self.start_indices, self.ranks = starts, ranks

    def __len__(self):
        return len(self.start_indices)


def entropy(p):
    p = p[p > 0]
    return float(-(p * np.log(p)).sum())


@settings(max_examples=150, deadline=None)
@given(st.integers(0, 2**32 - 1), st.sampled_from([5, 60, 5000]), st.sampled_from([1, 5, 20]), st.floats(0.05, 12))
def test_bounds_contain_the_entropy(seed, size, k, scale):
    k = min(k, size)
    z = np.random.default_rng(seed).normal(size=size) * scale
    lp = z - z.max() - np.log(np.exp(z - z.max()).sum())
    b = bounds(np.sort(lp)[::-1][:k], size)
    exact = entropy(np.exp(lp))
    assert b.lower - 1e-9 <= exact <= b.upper + 1e-9
    assert b.lower <= b.estimate <= b.upper


def test_bounds_are_attained():
    """Uniform tail: the upper one. Tail packed at the cap: the lower one."""
    size, k = 1000, 4
    head = np.array([0.4, 0.2, 0.2, 0.1])
    uniform = np.concatenate([head, np.full(size - k, 0.1 / (size - k))])
    assert bounds(np.log(head), size).upper == pytest.approx(entropy(uniform), abs=1e-12)
    packed = np.concatenate([head, [0.1]])
    assert bounds(np.log(head), size).lower == pytest.approx(entropy(packed), abs=1e-12)


def test_a_power_law_is_recovered():
    j = np.arange(1, 50_001, dtype=float)
    p = j**-2.0 / (j**-2.0).sum()
    found = bounds(np.log(p[:20]), len(p))
    assert found.estimate == pytest.approx(entropy(p), abs=2e-3)
    assert entropy(p[:20]) < entropy(p) - 0.1  # truncation is far off


def test_the_sampled_token_counts_only_within_the_top():
    row = {
        1: SimpleNamespace(logprob=np.log(0.001)),
        2: SimpleNamespace(logprob=np.log(0.6)),
        3: SimpleNamespace(logprob=np.log(0.3)),
    }
    found = completion_bounds(SimpleNamespace(logprobs=[row]), 100, 2)
    assert found.tail[0] == pytest.approx(0.1)


def test_more_logprobs_than_tokens_is_an_error():
    with pytest.raises(ValueError, match="vocabulary of 2"):
        bounds([0.0, 0.0, 0.0], 2)
