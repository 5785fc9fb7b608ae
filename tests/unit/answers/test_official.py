"""The reference extractor of the published TTRL runs, faults included."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dare_reward.answers.ttrl_strings import official_answer, official_key


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("so \\boxed{\\frac{1}{2}}", "\\frac{1}{2}"),
        ("\\boxed{3} then \\boxed{4", "4"),  # never closes: read to the end
        ("\\boxed 5$ is", "5"),
        ("boxed", ""),
        ("The answer is 5.", "5"),
        ("The answer is 5.<|eot_id|>", "5.<|eot_id|>"),
        ("The answer is 5. Or 6.", "5. Or 6"),
        ("Final Answer: The final answer is $7$. I hope it is correct.", "7"),
        ("答案是12\n\n完", "12"),
        ("We get 252. Then subtract", "252"),
        ("We get 1,234 and", "1234"),
        ("a - 3.50", "3.50"),
        ("nothing", ""),
        ("", ""),
        ("<think>\\boxed{3}", "3"),
        ("the answer is: 9/", "9"),
    ],
)
def test_mathematics(text, answer):
    assert official_answer(text, kind="math") == answer


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("The answer is C.", "C"),
        ("The answer is B. That is a good fit.", "A"),  # the article
        ("I think we need more data", "I think we need more data"),
        ("The answer is E.", "The answer is E"),
        ("", ""),
        (": x/.", "x"),
    ],
)
def test_choices(text, answer):
    assert official_answer(text, kind="choice") == answer


@pytest.mark.parametrize(
    ("raw", "key"),
    [
        ("\\dfrac12", "\\frac{1}{2}"),
        ("1/2", "\\frac{1}{2}"),
        ("0.5", "0.5"),
        ("x=5", "5"),
        ("xy=5", "x5"),
        ("abc=5", "abc=5"),
        ("5.00", "5"),
        (".5", "0.5"),
        ("5 cm", "5"),
        ("5 \\text{ cm}", "5"),
        ("\\text{no solution}", "nosolution"),
        ("50\\%", "50"),
        ("90^\\circ", "90"),
        ("\\left(1, 2\\right)", "(1,2)"),
        ("\\sqrt2", "\\sqrt{2}"),
        ("\\frac12 + \\frac3{4}", "\\frac{1}{2}+\\frac{3}{4}"),
        ("\\frac1", "\\frac1"),
        ("007", "7"),
        ("twenty-five", "25"),
        ("two hundred and seven thousand six", "207006"),
        ("and", ""),
        ("3+4j", "3+4i"),
        ("infinity", "\\infty"),
        ("$5$", "5"),
        ("", ""),
    ],
)
def test_vote_string(raw, key):
    assert official_key(raw) == key


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
