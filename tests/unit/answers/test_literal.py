"""Kind `literal`: what a program prints, compared as values of Python and JSON."""

from __future__ import annotations

import ast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dare_reward.answers import canonical
from dare_reward.answers.literal_values import literal_value, value_text

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8) | st.floats(allow_nan=False, allow_infinity=False),
    lambda inner: st.lists(inner, max_size=3) | st.tuples(inner, inner) | st.dictionaries(st.text(max_size=4), inner),
    max_leaves=6,
)


@given(VALUES, VALUES)
def test_keys_are_values(one, other):
    texts = [value_text(value) for value in (one, other)]
    assert (texts[0] == texts[1]) == (repr(one) == repr(other) or (one == other and value_text(other) == texts[0]))
    assert value_text(literal_value(repr(one))) == texts[0]
    assert ast.literal_eval(repr(one)) == one


@pytest.mark.parametrize(
    "text",
    [
        "[" * 5_000 + "]" * 5_000,
        "-" * 50_000 + "1",
        "(" * 50_000,
        "9" * 20_000,
        "{[]: 1}",
        "'" * 9_999,
        "__import__('os')",
    ],
)
def test_nothing_is_run_and_nothing_hangs(text):
    key = canonical(text, kind="literal")
    assert key is not None
    assert key == canonical(text, kind="literal")
