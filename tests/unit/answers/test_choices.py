"""Choice letters of boxes, tags and given answers."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from refusals import refusal
from rows import each

from dare_reward.answers import choice_letter, option_letters


@each(("options", "letters"), [(None, "ABCDEFGHIJ"), (4, "ABCD"), (1, "A"), (["A", "C"], "AC"), (("Z", "Y"), "ZY")])
def test_option_letters(options, letters):
    assert option_letters(options) == tuple(letters)


@each("options", [0, 27, -1, True, [], ["a"], ["A", "A"], ["AB"], [""], [1], ["Ä"], 2.0, [["A"]], {"A": 1}])
def test_bad_options_are_named(options):
    caught = refusal(option_letters, options)
    assert (caught.loc, caught.code) == (("options",), "options")


@given(st.text())
def test_any_text_gives_an_option_or_none(raw):
    assert choice_letter(raw) in {*option_letters(None), None}


@given(
    st.sampled_from("ABCDEFGHIJ"),
    st.sampled_from(["{}", "({})", "**{}**", "Option {}", "\\text{{{}}}", "{}.", "$ {} $"]),
)
def test_dress_does_not_change_the_letter(letter, dress):
    assert choice_letter(dress.format(letter)) == letter
    assert choice_letter(dress.format(letter), [x for x in "ABCDEFGHIJ" if x != letter]) is None
