"""Where a response begins in a query."""

from __future__ import annotations

import re

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from rows import each

from dare_service.joins import response
from dare_service.joins.response import response_of

CHAT = "<|im_start|>system\nPut it in \\boxed{}.<|im_end|>\n<|im_start|>user\nWhat is 2 + 2 ?<|im_end|>\n<|im_start|>assistant\n"
LONG = "Context. " * 600 + CHAT


def read(query, prompt):
    return response_of(query, prompt, 1 << 18)


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
    text, found = read(query, prompt)
    assert (text.lstrip(), found) == ("R", True)


def test_without_its_prompt_the_last_turn_counts():
    assert read(CHAT + "R", "another prompt altogether") == ("\nR", False)
    assert read("plain R", "another prompt") == ("plain R", False)
    assert read(CHAT + "Again: " + CHAT + "R", CHAT) == ("Again: " + CHAT + "R", True)


HOLDS = {
    "spaces between marks": ("a " * 20_000 + "c", "a" * 63 + "c"),
    "never the last mark": (("a" + " " * 400) * 63 + "b", "a" * 63 + "c"),
    "almost": ("ab" * 20_000, "ab" * 40 + "c"),
}


@given(st.text("ab c\n", max_size=40), st.text("ab c", max_size=6))
@example("ab", "")
@example(*HOLDS["spaces between marks"])
@example(*HOLDS["never the last mark"])
@example(*HOLDS["almost"])
def test_the_search_is_what_a_regular_expression_would_find(query, prompt):
    marks = "".join(prompt.split())[-64:]
    found = re.search(r"\s*".join(map(re.escape, marks)), query) if marks else None
    start = len(prompt) if query.startswith(prompt) else found.end() if found else 0
    expected = query[start:], query.startswith(prompt) or found is not None
    assert response_of(query, prompt, 1 << 20) == expected
    assert response_of(query, prompt, 3) == (expected[0][-3:], expected[1])


@pytest.mark.parametrize(("query", "prompt"), HOLDS.values())
def test_other_threads_wait_for_no_long_query(query, prompt, monkeypatch):
    """No call of C looks at more of it than at a multiple of the prompt."""
    seen = []
    monkeypatch.setattr(response, "_bare", lambda text: seen.append(len(text)) or "".join(text.split()))
    long = query.replace("c", "b") * (1 + 3_000_000 // len(query))  # nothing of it is found
    assert read(long, prompt)[1] is False
    assert max(seen) == 2 * len(prompt) + response.MARGIN
