"""ttrl and empo beyond the golden cases."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

import dare_reward
from dare_reward.groups import Groups

ANSWERS = st.lists(st.sampled_from(["1", "2", "10", "x", None]), min_size=1, max_size=30)


def rewards(answers, **params):
    return list(dare_reward.estimate(Groups.of([answers]), **params).groups[0].rewards)


@given(ANSWERS)
def test_ttrl_clean_is_a_counter_without_none(answers):
    votes = Counter(a for a in answers if a is not None)
    label = votes.most_common(1)[0][0] if votes else object()
    assert rewards(answers, method="ttrl") == [float(a == label) for a in answers]


@given(ANSWERS)
def test_ttrl_official_is_a_counter_with_the_empty_string(answers):
    label = Counter("" if a is None else a for a in answers).most_common(1)[0][0]
    assert rewards(answers, method="ttrl", no_answer="official") == [float((a or "") == label) for a in answers]


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


def test_five_truncated_traces_win_the_official_vote():
    """The trap of the released code, reproduced on request and never by default."""
    answers = [None] * 5 + ["3"] * 3
    official = dare_reward.estimate(Groups.of([answers]), method="ttrl", no_answer="official").groups[0]
    assert official.rewards == (1.0,) * 5 + (0.0,) * 3
    assert "no_answer_label" in official.flags
    assert official.pseudo_label is None
    clean = dare_reward.estimate(Groups.of([answers]), method="ttrl").groups[0]
    assert clean.rewards == (0.0,) * 5 + (1.0,) * 3
    assert clean.pseudo_label == "3"
    assert "no_answer_label" not in clean.flags


@given(ANSWERS)
def test_empo_is_the_share(answers):
    votes = Counter(a for a in answers if a is not None)
    assert rewards(answers, method="empo") == pytest.approx(
        [votes[a] / len(answers) if a is not None else 0 for a in answers]
    )
    valid = sum(votes.values())
    found = rewards(answers, method="empo", share_of="valid")
    assert found == pytest.approx([votes[a] / valid if a is not None else 0 for a in answers])


def test_methods_without_entropy_say_so():
    for method in ("ttrl", "empo"):
        group = dare_reward.estimate([{"rollouts": [{"answer": "1", "mean_entropy": 0.3}]}], method=method).groups[0]
        assert group.entropy_source == "none"
        assert group.support[0].uncertainty is None
        assert group.support[0].bonus is None
