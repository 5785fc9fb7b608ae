"""Where a response begins, and what a label says."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dare_reward.errors import RequestError
from dare_service.joins.openrlhf_text import read_label, response

CHAT = "<|im_start|>system\nPut it in \\boxed{}.<|im_end|>\n<|im_start|>user\nWhat is 2 + 2 ?<|im_end|>\n<|im_start|>assistant\n"
LONG = "Context. " * 600 + CHAT


@pytest.mark.parametrize(
    ("query", "prompt"),
    [
        (CHAT + "R", CHAT),
        ("<s>" + CHAT + "R", CHAT),
        ("<|begin_of_text|><|begin_of_text|>" + CHAT + "R", CHAT),
        (LONG[-900:] + "R", LONG),
        (LONG[-80:] + "R", LONG),
        (CHAT.replace(" ?", "?").replace("2 + 2", "2+2") + "R", CHAT),
        ("<s> " + " ".join(CHAT.split()) + "R", CHAT),
        ("Q: 1R", "Q: 1"),
        ("R", ""),
    ],
    ids=[
        "verbatim",
        "bos",
        "two bos",
        "cut from the left",
        "cut to its end",
        "spaces cleaned",
        "spaces folded",
        "short",
        "empty",
    ],
)
def test_the_prompt_is_taken_off(query, prompt):
    text, found = response(query, prompt)
    assert (text.lstrip(), found) == ("R", True)


def test_a_response_that_repeats_its_prompt_is_whole():
    assert response(CHAT + "Again: " + CHAT + "R", CHAT) == ("Again: " + CHAT + "R", True)


def test_without_its_prompt_the_last_turn_counts():
    assert response(CHAT + "R", "another prompt altogether") == ("\nR", False)
    assert response("plain R", "another prompt") == ("plain R", False)


@given(st.text(max_size=60), st.text(max_size=60))
def test_what_was_generated_comes_back_exactly(prompt, generated):
    assert response(prompt + generated, prompt) == (generated, True)


@pytest.mark.parametrize(
    ("value", "policy", "answer", "evaluation"),
    [
        ("", "eval", None, False),
        ("  ", "eval", None, False),
        (None, "eval", None, False),
        ("204", "train", "204", False),
        ("204", "eval", "204", True),
        (204, "eval", "204", True),
        ({"answer": "204", "split": "eval"}, "train", "204", True),
        ({"answer": 204, "split": "eval"}, "train", "204", True),
        ('{"answer": "204", "split": "eval"}', "train", "204", True),
        ({"answer": "204", "split": "train"}, "eval", "204", False),
        ({"answer": "204"}, "eval", "204", False),
        ({"ground_truth": "204"}, "eval", None, False),
        ("{x | x > 0}", "train", "{x | x > 0}", False),
        ("{x | x > 0}", "eval", "{x | x > 0}", True),
    ],
)
def test_the_label_decides(value, policy, answer, evaluation):
    label = read_label(value, policy=policy)
    assert (label.answer, label.evaluation) == (answer, evaluation)


@pytest.mark.parametrize(
    "value", [{"split": "eval"}, {"answer": "", "split": "eval"}, {"answer": "1", "split": "test"}]
)
def test_labels_that_mean_nothing_are_refused(value):
    with pytest.raises(RequestError):
        read_label(value, policy="train")


def test_labels_that_are_equal_have_equal_keys():
    keys = [read_label(v, policy="train").key for v in ({"a": 1, "b": 2}, {"b": 2, "a": 1}, "1", 1)]
    assert keys[0] == keys[1]
    assert len(set(keys)) == 3
