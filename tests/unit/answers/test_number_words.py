"""Numbers in words: a text with "n apples" is read as n or as nothing, whatever n and its language, and so is its key."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from num2words import num2words
from rows import each

from dare_reward.answers import canonical, classify, extract
from dare_reward.answers.languages import LANGUAGES
from dare_reward.answers.number_words import POWERS, cardinal, chinese_number

# The languages of the table that the library num2words can spell, and those of them that we read in numerals.
SPELLED = "ar bn cs da de en es fa fi fr he hu id it nl no pl pt ro ru sv te th tr uk vi"
NUMERALS = ("ja", "ko")
SOME = [*range(130), *range(130, 10_000, 37)]
UNREAD = {"ar": 5, "it": 45, "te": 15}  # forms of num2words that nobody writes, and centotto


def spelled(n: int, code: str) -> str:
    return num2words(n, lang=code).lower().replace(",", "")


def number(answer: str | None) -> str | None:
    """The number that an answer is, without its unit; None if it is none."""
    key = None if answer is None else canonical(answer)
    return key.value if key and key.kind == "exact" else None


@each("code", SPELLED.split())
def test_a_number_in_words_is_read_as_it_is_spelled(code):
    read = {n: cardinal(spelled(n, code)) for n in SOME if n > 19 or code == "en"}
    assert {n: value for n, value in read.items() if value not in {n, None}} == {}
    missing = [spelled(n, code) for n, value in read.items() if value is None and n not in {60, 100, 1_000}]
    assert len(missing) <= UNREAD.get(code, 0), missing


@pytest.mark.parametrize("code", NUMERALS)
def test_numerals(code):
    assert {n: chinese_number(num2words(n, lang=code)) for n in SOME[10:]} == {n: n for n in SOME[10:]}


@each("code", [*SPELLED.split(), *NUMERALS])
def test_a_number_with_a_noun_is_no_other_number(code):
    answer, noun = LANGUAGES[code]["answer"][0], LANGUAGES[code]["option"][0]
    texts = {n: f"... 7 ...\n{answer}: {spelled(n, code)} {noun}" for n in SOME[::3]}
    assert {n: read for n, text in texts.items() if (read := number(extract(text).answer)) not in {str(n), None}} == {}


@given(
    st.integers(0, 9_999), st.booleans(), st.booleans(),
    st.sampled_from(["", " apples", " dollars", " red marbles", " of them", " more people than before"]),
    st.sampled_from(["The answer is {}.", "Answer: {}", "So there are {}.", "We know 7. Therefore the total is {}."]),
)  # fmt: skip
def test_an_english_number_is_read_whole_or_not_at_all(n, hyphen, joint, noun, form):
    said = spelled(n, "en").replace("-", "-" if hyphen else " ").replace(" and ", " and " if joint else " ")
    assert number(extract(form.format(said + noun)).answer) in {str(n), None}


@given(st.integers(2, 9_999), st.sampled_from(["apples", "dollars", ""]))
def test_words_and_digits_are_one_answer(n, noun):
    assert len(set(classify([f"{spelled(n, 'en')} {noun}".strip(), f"{n} {noun}".strip()]).index)) == 1


@each("word", sorted(POWERS))
def test_a_number_before_a_power_of_ten_is_multiplied_or_none(word):
    for text in (f"5 {word}", f"2,5 {word}", f"1.234 {word}", f"1,234,000 {word}"):
        assert number(text) in {str(5 * POWERS[word]), str(5 * POWERS[word] // 2), None} or word in EASY, text
    assert number(f"5 {word}") == str(5 * POWERS[word])


EASY = {"thousand", "million", "billion", "trillion"}  # of English, in which a point is decimal
