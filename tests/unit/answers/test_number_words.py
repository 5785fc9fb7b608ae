"""Numbers in words: a text with "n apples" is read as n or as nothing, whatever n, and so is its key."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from rows import each

from dare_reward.answers import canonical, classify, extract

SMALL = [
    "zero",
    "one",
    "two",
    "three",
    "four",
    "five",
    "six",
    "seven",
    "eight",
    "nine",
    "ten",
    "eleven",
    "twelve",
    "thirteen",
    "fourteen",
    "fifteen",
    "sixteen",
    "seventeen",
    "eighteen",
    "nineteen",
]
TENS = ["_", "_", "twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety"]


def spelled(n: int, hyphen: str = "-", joint: str = " and ") -> str:
    if n < 20:
        return SMALL[n]
    if n < 100:
        return TENS[n // 10] + (hyphen + SMALL[n % 10] if n % 10 else "")
    base, name = (100, "hundred") if n < 1_000 else (1_000, "thousand")
    rest = spelled(n % base, hyphen, joint)
    return f"{spelled(n // base)} {name}" + ((joint if n % base < 100 else " ") + rest if n % base else "")


@given(
    st.integers(0, 9_999), st.sampled_from("- "), st.sampled_from([" and ", " "]),
    st.sampled_from(["", " apples", " dollars", " red marbles", " of them", " more people than before"]),
    st.sampled_from(["The answer is {}.", "Answer: {}", "So there are {}.", "We know 7. Therefore the total is {}."]),
)  # fmt: skip
def test_a_number_in_words_is_read_whole_or_not_at_all(n, hyphen, joint, noun, form):
    answer = extract(form.format(spelled(n, hyphen, joint) + noun)).answer
    if answer is not None:
        key = canonical(answer)
        assert key is None or key.kind != "exact" or key.value == str(n), answer


@given(st.integers(2, 9_999), st.sampled_from(["apples", "dollars", ""]))
def test_words_and_digits_are_one_answer(n, noun):
    assert len(set(classify([f"{spelled(n)} {noun}".strip(), f"{n} {noun}".strip()]).index)) == 1


@each(
    "answers",
    [
        ["18元", "18", "18 元", "十八元"], ["18個", "18"], ["18개", "18"], ["18ドル", "18"], ["18 руб.", "18"], ["18 सेब", "18"],
        ["18 تفاحة", "18"], ["根号3", r"\sqrt{3}"], ["2根號3", r"2\sqrt3"], ["二十五", "25"],
        [r"\textbf{(C) } 12", "12", r"(C)\ 12", "C. 12", r"\text{(C)}\ 12", "（C）12"], ["(a) -3", "-3"], ["(b) \\sqrt{2}", r"\sqrt2"],
        ["n2^{n-1}", r"n\cdot 2^{n-1}"], ["k2^k", r"2^k \cdot k"], ["N2^{-N}", r"\frac{N}{2^N}"], ["3n2^n", r"3n\cdot2^n"],
        [r"{1 \over 2}", "1/2"], ["theta^2", r"\theta^2"], ["twenty-five apples", "25 apples", "25"],
    ],
)  # fmt: skip
def test_one_answer(answers):
    assert set(classify(answers).index) == {0}
