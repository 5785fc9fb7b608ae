"""Two generated tests: a content has one value wherever it stands, and what is not read whole is not read."""

from itertools import combinations

from rows import each

from dare_reward.answers import canonical, extract, grade
from dare_reward.answers.languages import PHRASES

PLACES = {
    "is": "The answer is {}.", "colon": "Answer: {}", "bold": "**Answer:** {}", "heading": "## Final Answer\n\n{}",
    "hash": "#### {}", "tag": "<answer>{}</answer>", "json": '{{"answer": "{}"}}', "sentence": "Therefore, the value of it is {}.",
}  # fmt: skip
CONTENTS = [
    "5", "-5", "−5", "–5", "+5", "5.0", "0.5", ".5", "-.5", "5,000", "1,234.50", "-1,234", "$5", "-$5", "−$5", "$-5", "$5.50", "€5", "5%", "-5%", "–5%", "5°", "-5°C", "1/2", "-1/2", "3½", "½", "-½", "3-1/2",
    "3:45", "3:2", "10^5", "2×10^5", "2e5", "2*3", "3x", "n=5", "x=-5", "five", "twenty-five", "√2", "2√3", "-2√3", "π", "2π", "π/4", "-π/4", "{1,2}", "±5", "5²", "x²", "2^5", "5i", "3+4i", "∞", "-∞",
    "5th", "5k", "12-15", "0", "00", "(5)", "[5]", "**5**", "$5$", "$-5$", r"\(5\)", r"$\frac12$", r"$-\frac{1}{2}$", r"$5\%$", "-1.5", "12√5", "5.50$",
    "5 000", "5.000,5", "5 €", "5 dollars", "USD 5", "5 %", "5 percent", "−5 °C", "5 degrees", "3 1/2", "-3 1/2", "3 ½", "1/2 cup",
    "2/3 of the pie", "5 cm", "-5 cm", "5 cm²", "5 m/s", "5 km/h", "5 hours 20 minutes", "3 : 2", "3 to 2", "3 out of 4", "3 in 4", "2 x 10^5",
    "x = 5", "minus five", "negative 5", "one half", "(3, 4)", "(−3, 4)", "{1, 2}", "[1, 2]", "1, 2", "1 and 2", "1 or 2", "about 5",
    "approximately 5", "3 - 4i", "5:30 pm", "12 apples", "12 more apples", "the 5th", "5 million", "1.5 million", "$5 million", "5 dozen", "10-20 km",
    "$5\\text{ cm}$", "5 squared", "2 over 3", "two and a half", "zero point five", "half of 10", "at least 5",
]  # fmt: skip
BEFORE = [*PHRASES["operates before"], "negative of", "the square root of"]
BETWEEN = [word for word in PHRASES["operates between"] if word not in {"or", "minus"}]
MARKS = "^√²³½¾·×÷*/±<>≤≥≠π"


def value(text):
    """The answer of a text, if it is a value and no words."""
    answer = extract(text).answer
    key = None if answer is None else canonical(answer)
    return None if key is None or key.kind in {"text", "opaque"} else answer


@each("content", CONTENTS)
def test_a_content_has_one_value_wherever_it_stands(content):
    read = {
        place: said
        for place, text in PLACES.items()
        if (said := value(text.format(content.replace("\\", "\\\\") if place == "json" else content))) is not None
    }
    assert [(a, b) for a, b in combinations(read.items(), 2) if not grade(a[1], b[1])] == []


@each("place", PLACES)
@each(
    "words, said",
    [
        *((phrase, f"{phrase} 7") for phrase in BEFORE),
        *((phrase, f"7 {phrase}") for phrase in PHRASES["operates after"]),
        *((phrase, f"7 {phrase} 13") for phrase in BETWEEN),
        *((mark, f"7{mark}13") for mark in MARKS),
        *((mark, f"7 {mark} 13") for mark in MARKS),
    ],
)
def test_a_value_that_touches_what_is_done_to_it_is_never_shortened(words, said, place):
    answer = value(PLACES[place].format(said))
    assert answer is None or not (grade(answer, "7") or grade(answer, "13")), (words, answer)


def test_values_that_nothing_touches_are_read():
    for said in ("7 cm", "$7 more", "7 apples in total", "7 (half of 14)", "7, which is more than 5"):
        assert grade(value(PLACES["is"].format(said)), "7"), said
