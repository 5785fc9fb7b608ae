"""Kind `literal`: what a program prints, compared as values of Python and JSON."""

from __future__ import annotations

import ast

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rows import each

from dare_reward.answers import canonical, classify, extract
from dare_reward.answers.literal_values import literal_value, value_text

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8) | st.floats(allow_nan=False, allow_infinity=False),
    lambda inner: st.lists(inner, max_size=3) | st.tuples(inner, inner) | st.dictionaries(st.text(max_size=4), inner),
    max_leaves=6,
)


@each(
    "one, other",
    [
        ("[1, 2]", "[1,2]"), ("{'a': 1, 'b': 2}", '{"b": 2, "a": 1}'), ("null", "None"), ("true", "True"), ("5.0", "5"),
        ("'ab'", '"ab"'), ("'ab'", "ab"), ("{1, 2}", "{2, 1}"), ("(1,)", "( 1, )"), ("'\\d'", "'\\\\d'"), ("''", '""'),
        ("[]", "[ ]"), ("set()", "set( )".replace(" ", "")), ("-3", "- 3"), ("'a\\/b'", "'a/b'"),
    ],
)  # fmt: skip
def test_one_value(one, other):
    assert classify([one, other], kind="literal").index == (0, 0)


@each(
    "one, other",
    [
        ("'5'", "5"), ("[1, 2]", "(1, 2)"), ("True", "1"), ("'a b'", "'a  b'"), ("' a'", "'a'"), ("'A'", "'a'"),
        ("[]", "{}"), ("{}", "set()"), ("''", "[]"), ("None", "'None'"), ("[[1], 2]", "[1, 2]"), ("b'a'", "'a'"),
    ],
)  # fmt: skip
def test_two_values(one, other):
    assert classify([one, other], kind="literal").index == (0, 1)


@given(VALUES, VALUES)
def test_keys_are_values(one, other):
    texts = [value_text(value) for value in (one, other)]
    assert (texts[0] == texts[1]) == (repr(one) == repr(other) or (one == other and value_text(other) == texts[0]))
    assert value_text(literal_value(repr(one))) == texts[0]
    assert ast.literal_eval(repr(one)) == one


@each(
    "text, answer",
    [
        ('{"reasoning": "The answer is 3", "answer": "[]"}', "[]"), ('{"answer": ""}', "''"), ('{"answer": " a "}', "' a '"),
        ('{"answer": "\'a b\'"}', "'a b'"), ('{"answer": [1, {"a": null}]}', '[1, {"a": null}]'), ('{"answer": true}', "true"),
        ("[ANSWER]\nassert f([1]) == [1, 2]\n[/ANSWER]", "[1, 2]"), ("<answer>`'x'`</answer>", "'x'"),
        ("The answer is `True` because it is `True`.", "True"), ("The answer is [1, 2], as shown.", "[1, 2]"),
        ("Answer: hello world", "hello world"), ("The answer is the string 'K z'.", "'K z'"), ("[1, 2]", "[1, 2]"),
        ("The answer is a tuple, as always.", None), ("so\n```python\n{'a': 1}\n```", "{'a': 1}"), ("It may be so.", None),
        ('{"answer": "it is "quoted" here"}', "'it is \"quoted\" here'"), ('{"answer": "[1, 2', None),
    ],
)  # fmt: skip
def test_what_is_read(text, answer):
    assert extract(text, kind="literal").answer == answer


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
