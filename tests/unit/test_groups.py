"""The arrays that every estimator sees."""

import numpy as np
import pytest

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
    for array in (groups.sizes_P, groups.answer_R, groups.support_P):
        assert array.dtype == np.int64
    assert groups.columns["mean_entropy"].dtype == np.float64


def test_columns_may_hold_integers_and_none():
    column = Groups.of([["a", "b"]], mean_entropy=[[1, None]]).columns["mean_entropy"]
    assert column[0] == 1
    assert np.isnan(column[1])


def test_answers_of_any_type_that_equals(groups):
    found = Groups.of([[1, 1.0, "1", (2,), True]])
    assert found.answer_R.tolist() == [0, 0, 1, 2, 0]
    assert found.text_A == ("1", "1", "(2,)")


def test_no_groups():
    empty = Groups.of([])
    assert (empty.sizes_P.tolist(), empty.answer_R.tolist(), empty.support_P.tolist()) == ([], [], [])
    assert empty.sum_by_group(empty.votes_A).tolist() == []
    assert empty.max_by_group(empty.votes_A).tolist() == []
    assert empty.first_max(empty.votes_A).tolist() == []


def test_membership(groups):
    assert groups.group_R.tolist() == [0, 0, 0, 0, 2, 2, 3, 4]
    assert groups.group_A.tolist() == [0, 0, 2, 2, 4]
    assert groups.valid_R.tolist() == [True, False, True, True, True, True, False, True]
    assert groups.votes_A.tolist() == [2, 1, 1, 1, 1]


def test_sums_and_maxima(groups):
    values_R = np.arange(1.0, 9.0)
    assert groups.sum_by_answer(values_R).tolist() == [1 + 4, 3, 5, 6, 8]
    assert groups.sum_rollouts(values_R).tolist() == [10, 0, 11, 7, 8]
    values_A = np.array([-3.0, -2, 5, 5, -9])
    assert groups.sum_by_group(values_A).tolist() == [-5, 0, 10, 0, -9]
    assert groups.max_by_group(values_A).tolist() == [-2, -np.inf, 5, -np.inf, -9]
    assert groups.first_max(values_A).tolist() == [False, True, True, False, True]
    for found in (
        groups.sum_by_answer(groups.valid_R),
        groups.sum_by_group(np.ones(5, bool)),
        groups.sum_rollouts(groups.valid_R),
        groups.max_by_group(values_A),
    ):
        assert found.dtype == np.float64
    assert groups.first_max(values_A).dtype == bool


def test_sums_reach_the_last_group_and_answer():
    tail = Groups.of([["a"], [None], []])
    assert tail.sum_by_group(np.ones(1)).tolist() == [1, 0, 0]
    assert tail.sum_rollouts(np.ones(2)).tolist() == [1, 1, 0]
    silent = Groups(np.array([1]), np.array([-1]), np.array([1]), ("nobody's",))
    assert silent.sum_by_answer(np.ones(1)).tolist() == [0]


@pytest.mark.parametrize("kind", [float, bool, int])
def test_spreading(groups, kind):
    values = np.array([1, 0, 1, 1, 0]).astype(kind)
    found = groups.spread(values)
    assert found.dtype == values.dtype
    assert found.tolist() == [1, 0, 0, 1, 1, 1, 0, 0]
    assert groups.spread(values, fill=1).tolist() == [1, 1, 0, 1, 1, 1, 1, 0]


def test_a_column_that_is_not_there_is_missing_everywhere(groups):
    assert np.isnan(groups.column("num_tokens")).tolist() == [True] * 8
    assert groups.column("mean_entropy") is groups.columns["mean_entropy"]
    tokens = Ragged(np.ones(3), np.array([1, 0, 0, 0, 2, 0, 0, 0]))
    assert np.isnan(groups.with_column("token_entropies", tokens).column("token_entropies")).tolist() == [True] * 8


def test_another_column(groups):
    more = groups.with_column("num_tokens", np.arange(8.0))
    assert more.columns.keys() == {"mean_entropy", "num_tokens"}
    assert more.column("num_tokens").tolist() == list(range(8))
    assert groups.columns.keys() == {"mean_entropy"}
    assert more.answer_R is groups.answer_R
    other = more.with_column("num_tokens", np.zeros(8))
    assert other.column("num_tokens").tolist() == [0] * 8


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


def test_without_columns_there_is_nothing_to_change():
    groups = Groups(np.array([1]), np.array([0]), np.array([1]), ("a",))
    with pytest.raises(TypeError):
        groups.columns["mean_entropy"] = np.zeros(1)


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
    assert rich.has("mean_entropy").tolist() == [True, False, True, True]
    assert rich.has("token_entropies").tolist() == [True, False, True, True]
    assert rich.has("ref_token_probs").tolist() == [False, True, False, False]
    assert rich.has("embedding").tolist() == [True, False, True, True]
    assert rich.has("pass_rate").tolist() == [False] * 4
    for name in ("mean_entropy", "token_entropies", "embedding", "pass_rate"):
        assert rich.has(name).dtype == bool


def test_a_ragged_input_that_is_not_there_has_length_0(rich):
    for name in ("token_self_certainty", "mean_entropy"):
        found = rich.ragged(name)
        assert (found.values.tolist(), found.lengths.tolist(), found.lengths.dtype) == ([], [0] * 4, np.int64)
    assert rich.ragged("token_entropies") is rich.columns["token_entropies"]


def test_generated_tokens_are_those_of_the_mask(rich):
    entropies = rich.generated("token_entropies")
    assert entropies.values.tolist() == [0.1, 0.3, 0.5, 0.6]
    assert (entropies.lengths.tolist(), entropies.lengths.dtype) == ([1, 0, 1, 2], np.int64)
    logprobs = rich.generated("token_logprobs")
    assert logprobs.values.tolist() == [-1.0, -5.0, -6.0]
    assert (logprobs.lengths.tolist(), logprobs.lengths.dtype) == ([1, 0, 0, 2], np.int64)


def test_without_a_mask_every_token_was_generated():
    column = tokens([0.1, 0.2], [2])
    assert Groups.of([["a"]]).with_column("token_entropies", column).generated("token_entropies") is column


def test_means_over_chosen_rollouts():
    groups = Groups.of([["a", "b", None], ["c"], ["d", "d"], []])
    values_R = np.array([1.0, 2.0, 4.0, np.nan, 3.0, 5.0])
    chosen_R = np.array([True, False, True, False, True, False])
    assert groups.mean_rollouts(values_R, chosen_R).tolist() == [2.5, 0, 3, 0]


def test_the_greatest_of_the_rollouts():
    assert Groups.of([["a", None], [], ["b"]]).max_rollouts(np.array([-3.0, -2, 7])).tolist() == [-2, -np.inf, 7]


def test_who_trains_and_what_a_prompt_weighs(groups):
    assert groups.trains_R.tolist() == [True] * 8
    assert groups.trains_R.dtype == bool
    assert np.isnan(groups.column_P("prompt_weight")).tolist() == [True] * 5
    own = Groups(
        np.array([1]),
        np.array([0]),
        np.array([1]),
        ("a",),
        {},
        np.array([False]),
        columns_P={"prompt_weight": np.ones(1)},
    )
    assert (own.trains_R.tolist(), own.column_P("prompt_weight").tolist()) == ([False], [1.0])
