"""Numbers in words: a text with "n apples" is read as n or as nothing, whatever n and its language, and so is its key."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from num2words import num2words
from rows import each

from dare_reward.answers import canonical, classify, extract, grade
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


@each(
    "answers",
    [
        ["18元", "18", "18 元", "十八元"], ["18個", "18"], ["18개", "18", "십팔개"], ["18ドル", "18"], ["18 руб.", "18"],
        ["18 सेब", "18"], ["18 تفاحة", "18"], ["根号3", r"\sqrt{3}"], ["2根號3", r"2\sqrt3"], ["二十五", "25", "이십오"],
        [r"\textbf{(C) } 12", "12", r"(C)\ 12", "C. 12", r"\text{(C)}\ 12", "（C）12"], ["(a) -3", "-3"], ["(b) \\sqrt{2}", r"\sqrt2"],
        ["n2^{n-1}", r"n\cdot 2^{n-1}"], ["k2^k", r"2^k \cdot k"], ["N2^{-N}", r"\frac{N}{2^N}"], ["3n2^n", r"3n\cdot2^n"],
        [r"{1 \over 2}", "1/2"], ["theta^2", r"\theta^2"], ["twenty-five apples", "25 apples", "25"],
        ["2 millions", "2,000,000", "2 million"], ["5万元", "50000元", "50,000"], ["2,5 millones", "2500000", "2.5 million"],
        ["εκατόν είκοσι πέντε", "125"], ["पैंतालीस", "45"], ["एक हज़ार दो सौ", "1200"], ["mia tatu na kumi na tano", "315"],
        ["elfu mbili mia tatu na arobaini na tano", "2345"], ["lapan puluh satu", "81"], ["3 लाख", "300000"],
    ],
)  # fmt: skip
def test_one_answer(answers):
    assert set(classify(answers).index) == {0}


@each(
    "answers",
    [
        ["5 millones", "5"], ["2 millions", "2"], ["5万", "5"], ["18 тысяч", "18"], ["1.234 millones", "1.234"], ["3万5千", "3"],
        ["tres", "3"], ["tres", "60"], ["Lima", "5"], ["twenty and five", "25"], ["만족", "10000"], ["千克", "1000"], ["사과", "4"],
        ["பதினைந்து", "15"], ["پچیس", "25"], ["mẹ́ẹ̀ẹ́dógún", "15"],  # no grammar for these languages: words
    ],
)  # fmt: skip
def test_two_answers(answers):
    assert len(set(classify(answers).index)) == 2


@each(
    ("text", "value"),
    [
        ("The answer is null.", None),
        ("Die Antwort ist null.", "0"),
        ("The answer is sept.", "sept"),
        ("La réponse est sept.", "7"),
        ("Die Antwort ist elf.", "11"),
        ("Answer: elf", "elf"),
    ],
)
def test_a_number_word_that_is_a_word_elsewhere_is_read_in_its_own_language(text, value):
    assert extract(text).answer == value
    assert grade("sept", "7") is grade("null", "0") is False
