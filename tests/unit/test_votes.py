"""ttrl and empo beyond the golden cases."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st
from said import exact, said, scored

import dare_reward
from dare_reward.estimators.empo import empo
from dare_reward.estimators.ttrl import _with_blank, ttrl
from dare_reward.groups import Groups

ANSWERS = st.lists(st.sampled_from(["1", "2", "10", "x", None]), min_size=1, max_size=30)


def rewards(answers, **params):
    return list(scored(said(answers), **params).rewards)


@given(ANSWERS)
def test_ttrl_official_ties(answers):
    votes = Counter("" if a is None else a for a in answers)
    best = [a for a, n in votes.items() if n == max(votes.values())]
    found = rewards(answers, method="ttrl", no_answer="official", tie="all")
    assert found == [float((a or "") in best) for a in answers]
    found = rewards(answers, method="ttrl", no_answer="official", tie="none")
    assert found == [float(len(best) == 1 and (a or "") == best[0]) for a in answers]
    found = rewards(answers, method="ttrl", no_answer="official", tie="lexicographic")
    assert found == [float((a or "") == min(best)) for a in answers]
    # Strings as Python compares them: NumPy's own strings would drop the NUL and see a tie.
    assert rewards(["a\0", "a", "b"], method="ttrl", tie="lexicographic") == [0, 1, 0]


def test_methods_without_entropy_say_so():
    for method in ("ttrl", "empo"):
        group = scored(said("1", mean_entropy=[0.3]), method)
        assert (group.entropy_source, group.support[0].uncertainty, group.support[0].bonus) == ("none", None, None)


def batch():
    return Groups.of([["b", "a", None, "a", "b", None, None], [None], ["c", "d", "d"], [], ["e"]])


def test_ttrl_says_what_it_did():
    clean, official = ttrl(batch()), ttrl(batch(), no_answer="official")
    assert clean.rewards_R.tolist() == [1, 0, 0, 0, 1, 0, 0, 0, 0, 1, 1, 1]
    assert clean.support_A["reward"].tolist() == [1, 0, 0, 1, 1]
    assert clean.flags_P["no_answer_label"].tolist() == [False] * 5
    assert clean.label_A.tolist() == [True, False, False, True, True]
    assert official.rewards_R.tolist() == [0, 0, 1, 0, 0, 1, 1, 1, 0, 1, 1, 1]
    assert official.support_A["reward"].tolist() == [0, 0, 0, 1, 1]
    assert official.flags_P["no_answer_label"].tolist() == [True, True, False, False, False]
    assert official.label_A.tolist() == [False, False, False, True, True]
    for found in (clean, official):
        assert found.keep_R.tolist() == batch().valid_R.tolist()
        assert found.support_A["p_hat"].tolist() == found.support_A["p"].tolist() == [0.5, 0.5, 1 / 3, 2 / 3, 1]
        assert found.support_A["kept"].tolist() == [True] * 5
        assert found.used_entropy_P.tolist() == [False] * 5


@pytest.mark.parametrize(
    ("tie", "clean", "official"),
    [
        ("first", ["b"], ["b"]),
        ("lexicographic", ["a"], [None]),
        ("all", ["a", "b"], ["a", "b", None]),
        ("none", [], []),
    ],
)
def test_ties_of_two_answers_and_silence(tie, clean, official):
    answers = ["b", "a", None, "a", "b", None]
    neighbours = ["0", "z", "z"]
    sent = exact([neighbours, answers, neighbours])
    for no_answer, winners in (("clean", clean), ("official", official)):
        found = dare_reward.estimate(sent, method="ttrl", tie=tie, no_answer=no_answer).groups
        assert found[1].rewards == tuple(float(a in winners) for a in answers)
        assert found[0].rewards == found[2].rewards == (0.0, 1.0, 1.0)
        assert ("no_answer_label" in found[1].flags) == (None in winners)


def test_the_empty_string_takes_its_place_among_the_answers():
    """Its number is that of its first rollout, in each group by itself."""
    groups = Groups.of([["a"], [None, "b", "a", "b"], ["a", None, "b"], []])
    voting, place_A = _with_blank(groups)
    assert voting.text_A == ("a", "", "b", "a", "a", "", "b")
    assert voting.answer_R.tolist() == [0, 1, 2, 3, 2, 4, 5, 6]
    assert voting.support_P.tolist() == [1, 3, 3, 0]
    assert voting.sizes_P.tolist() == [1, 4, 3, 0]
    assert place_A.tolist() == [0, 2, 3, 4, 6]


@pytest.mark.parametrize(
    ("params", "first"),
    [
        ({}, [2 / 7, 2 / 7, 0, 2 / 7, 2 / 7, 0, 0, 0]),
        ({"share_of": "valid"}, [0.5, 0.5, 0, 0.5, 0.5, 0, 0, 0]),
        ({"no_answer": "singleton"}, [2 / 7, 2 / 7, 1 / 7, 2 / 7, 2 / 7, 1 / 7, 1 / 7, 1]),
        ({"share_of": "valid", "no_answer": "singleton"}, [0.5, 0.5, 0.25, 0.5, 0.5, 0.25, 0.25, 1]),
    ],
)
def test_empo_says_what_it_did(params, first):
    found = empo(batch(), **params)
    assert found.rewards_R.tolist() == [*first, 1 / 3, 2 / 3, 2 / 3, 1]
    assert found.keep_R.tolist() == batch().valid_R.tolist()
    assert found.support_A.keys() == {"p_hat", "p", "reward", "kept"}
    for name in ("p_hat", "p", "reward"):
        assert found.support_A[name].tolist() == [first[0], first[1], 1 / 3, 2 / 3, 1]
    assert found.support_A["kept"].tolist() == [True] * 5
    assert found.used_entropy_P.tolist() == [False] * 5
