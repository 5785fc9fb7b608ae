"""Where a response begins in a query."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dare_service.joins.openrlhf_body import response

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
