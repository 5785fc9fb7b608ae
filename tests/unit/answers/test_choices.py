"""Choice letters of boxes, tags and given answers."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from refusals import refusal
from rows import each

from dare_reward.answers import choice_letter, option_letters

C = [
    "C", "(C)", "C.", "**C**", "Option C", "\\boxed{C}", "\\text{C}", "C) text", "C: Newton", "c", "(c)", "$C$", "\\(C\\)",
    "\\textbf{(C) }12", "\\text{(C)}", "Answer: C", "The answer is (C)", "the correct answer is C.", "C. Vitamin A", "（Ｃ）",
    "【C】", "答案是C", "选C", "选项C", "C、牛顿", '"C"', "`C`", "C - Newton", "C – Newton", "C (Newton)", "[C]", "{C}", "option c",
    "c) 5 m", "\\boxed{\\textbf{(C)}\\ 12}", "C\n\nBecause of x", "C. C", "C is the correct answer", "Antwort: C", "<C>", "C, because",
    "C) A good fit", "C) F = ma", "C. I think so", "(C", "C)", "D. Both A and B"[:0] + "C. Both A and B", "\u202eC", "  C\n", "Ⓒ",
]  # fmt: skip
NONE = [
    "", "  ", "()", "A or B", "A, C", "A/B", "A;B", "A|B", "A & B", "A B", "AB", "A+B", "not B", "Not A", "A and C", "both A and B",
    "A good fit", "a good fit", "A^2", "A_1", "C = 12", "None of the above", "5", "I and II", "I, II", "K", "A-B", "C-14", "B-cells",
    "Based on", "Cannot", "A) 5 B) 6", "\\sqrt{C}", "A, B, C", "(A) or (B)", "(A)(B)", "\x00", "\ud800", "a b", "В", "(A, B)",
    "A \\text{ or } B", "C \\cup D", "neither A nor B", "a. text", "option", "Answer:", "?", "...",
]  # fmt: skip


@each("raw", C)
def test_one_letter(raw):
    assert choice_letter(raw) == "C"


@each("raw", NONE)
def test_no_letter(raw):
    assert choice_letter(raw) is None


def test_letters_outside_the_options_are_none():
    assert choice_letter("E", ["A", "B", "C", "D"]) is None
    assert choice_letter("E", ["A", "B", "C", "D", "E"]) == "E"
    assert choice_letter("X", ["X", "Y"]) == "X"
    assert choice_letter("C) X", ["C", "X"]) is None  # two of the options
    assert choice_letter("C) X", ["C", "D"]) == "C"


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


def test_species_have_an_epithet_in_small_letters():
    assert choice_letter("E. coliform") == choice_letter("E. Coli") == "E"
    assert choice_letter("E. coli cells") is None
