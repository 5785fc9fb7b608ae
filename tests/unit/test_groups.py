"""The arrays that every estimator sees."""

import numpy as np
import pytest
from refusals import refusal

from dare_reward.groups import Groups, Ragged

ANSWERS = [["a", None, "b", "a"], [], ["a", "c"], [None], ["c"]]
VALUES = [[0.1, 0.2, 0.3, 0.4], [], [0.5, 0.6], [0.7], [0.8]]


@pytest.fixture
def groups():
    return Groups.of(ANSWERS, mean_entropy=VALUES)


def test_answers_are_numbered_in_first_seen_order_in_each_group(groups):
    assert groups.sizes_P.tolist() == [4, 0, 2, 1, 1]
    assert groups.answer_R.tolist() == [0, -1, 1, 0, 2, 3, -1, 4]
    assert groups.support_P.tolist() == [2, 0, 2, 0, 1]
    assert groups.text_A == ("a", "b", "a", "c", "c")
    assert groups.columns["mean_entropy"].tolist() == [x for row in VALUES for x in row]
    assert groups.group_R.tolist() == [0, 0, 0, 0, 2, 2, 3, 4]
    assert groups.group_A.tolist() == [0, 0, 2, 2, 4]
    assert groups.votes_A.tolist() == [2, 1, 1, 1, 1]
    mixed = Groups.of([[1, 1.0, "1", (2,), True]], mean_entropy=[[1, None, 0, 0, 0]])
    assert (mixed.answer_R.tolist(), mixed.text_A) == ([0, 0, 1, 2, 0], ("1", "1", "(2,)"))
    assert np.isnan(mixed.columns["mean_entropy"]).tolist() == [False, True, False, False, False]


def test_a_number_of_another_group_s_rollout_is_nobody_s():
    for rows in ([[0.1], [0.2, 0.3]], [[0.1, 0.2]], [[0.1, 0.2], []]):
        refused = refusal(Groups.of, [["a", "b"], ["c"]], mean_entropy=rows)
        assert (refused.code, refused.loc) == ("length", ("mean_entropy",))


def test_no_groups():
    empty = Groups.of([])
    made = [of(empty.votes_A) for of in (empty.sum_by_group, empty.max_by_group, empty.first_max)]
    assert [len(x) for x in (empty.sizes_P, empty.answer_R, empty.support_P, *made)] == [0] * 6


def test_sums_and_maxima(groups):
    values_R = np.arange(1.0, 9.0)
    assert groups.sum_by_answer(values_R).tolist() == [1 + 4, 3, 5, 6, 8]
    assert groups.sum_rollouts(values_R).tolist() == [10, 0, 11, 7, 8]
    assert groups.max_rollouts(values_R).tolist() == [4, -np.inf, 6, 7, 8]
    assert groups.mean_rollouts(values_R, groups.valid_R).tolist() == [8 / 3, 0, 5.5, 0, 8]
    values_A = np.array([-3.0, -2, 5, 5, -9])
    assert groups.sum_by_group(values_A).tolist() == [-5, 0, 10, 0, -9]
    assert groups.max_by_group(values_A).tolist() == [-2, -np.inf, 5, -np.inf, -9]
    assert groups.first_max(values_A).tolist() == [False, True, True, False, True]
    for found in (groups.sum_by_answer(groups.valid_R), groups.sum_by_group(np.ones(5, bool))):
        assert found.dtype == np.float64


def test_sums_reach_the_last_group_and_answer():
    tail = Groups.of([["a"], [None], []])
    assert tail.sum_by_group(np.ones(1)).tolist() == [1, 0, 0]
    assert tail.sum_rollouts(np.ones(2)).tolist() == [1, 1, 0]
    silent = Groups(np.array([1]), np.array([-1]), np.array([1]), ("nobody's",))
    assert silent.sum_by_answer(np.ones(1)).tolist() == [0]


@pytest.mark.parametrize("kind", [float, bool, int])
def test_spreading(groups, kind):
    values = np.array([1, 0, 1, 1, 0]).astype(kind)
    assert groups.spread(values).dtype == values.dtype
    assert groups.spread(values).tolist() == [1, 0, 0, 1, 1, 1, 0, 0]
    assert groups.spread(values, fill=1).tolist() == [1, 1, 0, 1, 1, 1, 1, 0]


def test_vectors_are_found_by_rollout(groups):
    rows = np.array([[1.0, 2.0], [3.0, 4.0]])
    dense = np.full((8, 2), np.nan)
    dense[[2, 5]] = rows
    for column in (dense, Ragged(rows, np.array([0, 0, 1, 0, 0, 1, 0, 0]))):
        given = groups.with_column("embedding", column)
        place_R, values = given.vectors("embedding")
        assert np.flatnonzero(given.has("embedding")).tolist() == [2, 5]
        assert values[place_R[[2, 5]]].tolist() == rows.tolist()
    assert len(groups.vectors("embedding")[1]) == 0


def tokens(values, lengths):
    return Ragged(np.array(values), np.array(lengths))


@pytest.fixture
def rich():
    """Rollouts of 2, 0, 1, 3 tokens; the mask is for those with entropies, log-probabilities lack for the third."""
    return Groups(
        np.array([3, 1]),
        np.array([0, -1, 1, 2]),
        np.array([2, 1]),
        ("a", "b", "c"),
        {
            "mean_entropy": np.array([0.1, np.nan, 0.3, 0.4]),
            "token_entropies": tokens([0.1, 0.2, 0.3, 0.4, 0.5, 0.6], [2, 0, 1, 3]),
            "token_mask": tokens([True, False, True, False, True, True], [2, 0, 1, 3]),
            "token_logprobs": tokens([-1.0, -2.0, -4.0, -5.0, -6.0], [2, 0, 0, 3]),
            "ref_token_probs": tokens([0.5], [0, 1, 0, 0]),
            "embedding": np.array([[1.0, np.nan], [np.nan, 1.0], [0.0, 0.0], [1.0, 1.0]]),
        },
    )


def test_which_rollouts_have_an_input(rich):
    for name in ("mean_entropy", "token_entropies", "embedding"):
        assert rich.has(name).tolist() == [True, False, True, True]
    assert rich.has("ref_token_probs").tolist() == [False, True, False, False]
    assert rich.has("pass_rate").tolist() == [False] * 4


def test_an_input_that_is_not_there_is_missing_everywhere(rich):
    """So is one of another shape."""
    for name in ("token_self_certainty", "mean_entropy"):
        found = rich.ragged(name)
        assert (found.values.tolist(), found.lengths.tolist(), found.lengths.dtype) == ([], [0] * 4, np.int64)
    for name in ("num_tokens", "token_entropies"):
        assert np.isnan(rich.column(name)).tolist() == [True] * 4
    assert rich.trains_R.tolist() == [True] * 4
    assert np.isnan(rich.column_P("prompt_weight")).tolist() == [True] * 2


def test_generated_tokens_are_those_of_the_mask(rich):
    expected = {"entropies": ([0.1, 0.3, 0.5, 0.6], [1, 0, 1, 2]), "logprobs": ([-1.0, -5.0, -6.0], [1, 0, 0, 2])}
    for name, (values, lengths) in expected.items():
        found = rich.generated(f"token_{name}")
        assert (found.values.tolist(), found.lengths.tolist(), found.lengths.dtype) == (values, lengths, np.int64)
