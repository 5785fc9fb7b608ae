"""The reference extractor of the published TTRL runs, faults included."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from dare_reward.answers.ttrl_strings import official_answer, official_key


def test_choices_are_voted_as_extracted():
    assert official_key("I think so", kind="choice") == "I think so"


def test_the_faults_that_the_mode_is_there_to_reproduce():
    truncated = ["and so on"] * 5 + ["\\boxed{3}"] * 3
    votes = Counter(official_key(official_answer(t, kind="math")) for t in truncated)
    assert votes.most_common(1) == [("", 5)]
    split = ["\\boxed{\\frac{1}{2}}"] * 3 + ["\\boxed{0.5}"] * 3 + ["\\boxed{2}"] * 4
    assert Counter(official_key(official_answer(t, kind="math")) for t in split).most_common(1) == [("2", 4)]
    article = ["The answer is B. That is a good fit."] * 4 + ["The answer is C."] * 3
    assert Counter(official_answer(t, kind="choice") for t in article).most_common(1) == [("A", 4)]


@given(st.text(), st.sampled_from(["math", "choice", "text", "exact"]))
def test_always_a_string(text, kind):
    assert isinstance(official_key(official_answer(text, kind=kind), kind=kind), str)
