"""Where a response begins in a query."""

from __future__ import annotations

import re

import pytest
from growth import assert_calls
from hypothesis import example, given
from hypothesis import strategies as st
from rows import each

from dare_service.joins.response_start import PIECE, response_start

CHAT = "<|im_start|>system\nPut it in \\boxed{}.<|im_end|>\n<|im_start|>user\nWhat is 2 + 2 ?<|im_end|>\n<|im_start|>assistant\n"
LONG = "Context. " * 600 + CHAT


def response(query, prompt):
    start, found = response_start(query, prompt)
    return query[start:], found


@each(
    ("query", "prompt"),
    [
        (CHAT + "R", CHAT),
        ("<s>" + CHAT + "R", CHAT),
        ("<|begin_of_text|><|begin_of_text|>" + CHAT + "R", CHAT),
        (LONG[-900:] + "R", LONG),
        (LONG[-80:] + "R", LONG),
        (CHAT.replace(" ?", "?").replace("2 + 2", "2+2") + "R", CHAT),
        ("<s> " + " ".join(CHAT.split()) + "R", CHAT),
        ("<s>" + CHAT + "4" + CHAT + "R", CHAT + "4" + CHAT),  # whose last characters it holds twice
        ("Q: 1R", "Q: 1"),
        ("R", ""),
    ],
)
def test_the_prompt_is_taken_off(query, prompt):
    text, found = response(query, prompt)
    assert (text.lstrip(), found) == ("R", True)


def test_without_its_prompt_the_last_turn_counts():
    assert response(CHAT + "R", "another prompt altogether") == ("\nR", False)
    assert response("plain R", "another prompt") == ("plain R", False)
    assert response(CHAT + "Again: " + CHAT + "R", CHAT) == ("Again: " + CHAT + "R", True)


HOLDS = {
    "spaces between marks": ("a " * 20_000 + "c", "a" * 63 + "c"),
    "never the last mark": (("a" + " " * 400) * 63 + "b", "a" * 63 + "c"),
    "almost": ("ab" * 20_000, "ab" * 40 + "c"),
}


@given(st.text("ab c\n", max_size=40), st.text("ab c", max_size=6), st.integers(1, 9))
@example("ab", "", 1)
@example(*HOLDS["spaces between marks"], PIECE)
@example(*HOLDS["never the last mark"], PIECE)
@example(*HOLDS["almost"], PIECE)
def test_the_search_is_what_a_regular_expression_would_find_whatever_the_pieces(query, prompt, piece):
    marks = "".join(prompt.split())[-64:]
    found = re.search(r"\s*".join(map(re.escape, marks)), query) if marks else None
    expected = (len(prompt), True) if query.startswith(prompt) else (found.end(), True) if found else (0, False)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("dare_service.joins.response_start.PIECE", piece)
        assert response_start(query, prompt) == expected


def test_between_two_pieces_other_threads_run():
    """No call of C looks at more than a piece of the text, and the pieces are as many as the text is long."""
    for query, prompt in HOLDS.values():
        long = query.replace("c", "b") * (1 + 3_000_000 // len(query))  # nothing of it is found
        assert_calls(lambda: response_start(long, prompt), 40 * (1 + len(long) // PIECE), prompt)  # noqa: B023
