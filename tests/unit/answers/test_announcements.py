"""English announcements, phrases of the tables, tokens of a turn, and budgets at their edges.

Other languages: test_languages.py, which is made from their table.
"""

from functools import partial

from rows import each

from dare_reward.answers import choice_letter
from dare_reward.answers import extract as extract_all
from dare_reward.answers.extraction.frame import _THINK
from dare_reward.answers.languages import PHRASES, every
from dare_reward.answers.tables import listed

extract = partial(extract_all, unmarked="none")  # announcements, and nothing else


def split(table):
    return [row.replace("\\n", "\n") for line in table.strip().splitlines() for row in line.split("|") if row.strip()]


def phrases(name):
    return [phrase.removesuffix("-") for phrase in PHRASES[name]]


# what announces, in all its endings; {} is where the content stands
ANNOUNCED = r"""
The answer is {}|The answer: {}|The answer = {}|The answers are {}|Answer: {}|The answer was {}|The answer will be {}
The answer would be {}|The answer would then be {}|The answer should be {}|The answer must be {}|The answer has to be {}
The answer equals {}|The answer comes out to {}|The answer comes out to be {}|The answer turns out to be {}
The answer becomes {}|The answer -> {}|The answer => {}|The answer → {}|The answer of the sum is {}|The answer to it is {}
The answer for n is {}|The answer in cm is {}|The answer as asked is {}|The answer we want is {}|The answer I get is {}
The answer, as we saw, is {}|The answer (rounded) is {}|**Answer:** {}|**Answer**: {}|Answer - {}|Final answer. {}
The answer can be written as {}|The answer can be expressed as {}|the answer of {}|Final Answer\n{}
## Answer\n{}|Step 3. Final Answer\n\n{}|\textbf{Answer:} {}|The answer choice is {}|The answer value is {}|Ans: {}|Ans. {}
答：{}|#### {}|A: {}|**A:** {}|Work.\nA: {}|Work.\n**A**: {}
"""


@each("row", [*split(ANNOUNCED), "| Answer | {} |"])
def test_announced_numbers(row):
    # 37 stands before it, so that no fallback can be right
    assert extract("We tried 37 and then went on.\n" + row.replace("{}", "42")).answer == "42"
    assert extract(row.replace("{}", "42")).source == "phrase"


LEADS = split("given by|equal to|that|≈|~|=|:|a total of|the number|the value|the integer")


@each("filler", [*every("adverb", "so"), *LEADS])
def test_words_between_announcement_and_number(filler):
    assert extract(f"We tried 37.\nThe answer is {filler} 42.").answer == "42"
    assert extract(f"We tried 37.\nThe answer is {filler} $42$, as 5 < 6.").answer == "42"


@each("denial", [*every("not"), "definitely not", "certainly not", "simply not", "no longer"])
@each("instead", [", but ", " but rather ", ", rather ", ", instead ", ". It is ", ", it's ", ", sondern ", ", mais "])
def test_denied_and_said_instead(denial, instead):
    assert extract(f"The answer is {denial} 42.").answer is None
    assert extract(f"The answer is {denial} 42{instead}43.").answer == "43"


@each("phrase", phrases("explains"))
def test_words_that_begin_an_explanation(phrase):
    assert extract(f"Answer: {phrase} Lima").answer is None


@each("unit", listed("unit_letters"))
def test_units_behind_a_number(unit):
    if unit not in {"square", "cubic", "sq"}:
        assert extract(f"So the answer is 5 {unit}.").answer == f"5 {unit}"
        assert extract(f"So the answer is $5$ {unit}.").answer == f"5 {unit}"
    assert extract("So the answer is 5 frogs.").answer == "5"


@each("function", [name for name in listed("functions") if name in listed("function_letters")])
def test_functions_are_no_prose(function):
    assert extract(f"The answer is 2 {function}(3) + 1.").answer == f"2 {function}(3) + 1"


# --- choices ---------------------------------------------------------------------------------------------------------

CHOSEN = r"""
Eliminating the others leaves {}|Excluding them, leaving {}|They fail; we are left with {}|The closest is {}|Response: {}
Ruling those out leaves only {}|The others were discarded, which leaves us with {}|The response is {}|The best one is {}
The correct one would be {}|The most likely one is {}|The answer is {}|({}) is the correct answer|({}) seems appropriate
Option {} is better|{} is the closest|({}) is the most likely|{} must be correct|{} should be right|{} appears to be correct
Thus, {}.|Hence ({}).|So it must be {}.|Therefore, that is {}.|It is {}.|Only ({}) satisfies both.|Only {} works.
The answer is the second option, {}|The answer is the last choice, {}|The answer is 5 m ({}).
The answer is 5 m, which is option {}.|The answer is not A but {}|The answer is not A, rather {}
The answer is not option A; it is {}|The answer is \text{{}}|The answer is **{}**|The answer is `{}`
The answer is $\mathrm{{}}$|The answer is ({}) 5 m|The answer is {}. Because of this|The answer is [{}]|The answer is "{}"
The text matches ({}).|This corresponds to ({}).|The answer is （{}）|Answer: ✅ {}|Answer → {}|选{}|选择{}|選{}|選択{}
"""
NOUNS = [f"The {noun} {verb} {{}}" for noun in PHRASES["nouns"] for verb in ("is", "would be", "must be", "will be")]
VERBS = [f"{who} {verb} {{}}" for verb in PHRASES["verbs"] for who in ("I", "We", "I'd", "I am")]
FILLS = [f"The answer is {fill} {{}}" for fill in phrases("fills")]
BEST = [f"({{}}) is the most {word}" for word in phrases("endorses with most")]


@each("row", [*split(CHOSEN), *NOUNS, *VERBS, *FILLS, *BEST])
def test_chosen_letters(row):
    for before in ("We read the text.\n", ""):
        assert extract(before + row.replace("{}", "C"), kind="choice").answer == "C"
    assert extract("We read the text.\n" + row.replace("{}", "Q"), kind="choice").answer is None


@each("again", [*phrases("takes back"), *every("but"), "最终"])
def test_taken_back(again):
    assert extract(f"The answer is B. {again}, the answer is C.", kind="choice").answer == "C"


@each("word", every("or"))
def test_two_boxes_joined_are_no_choice(word):
    assert extract(rf"\boxed{{A}} {word} \boxed{{B}}", kind="choice").answer is None
    assert extract(rf"$\boxed{{A}}$, {word} $\boxed{{A}}$", kind="choice").answer == "A"
    assert extract(r"\boxed{A} then \boxed{B}", kind="choice").answer == "B"


# --- turns, boxes, tags ----------------------------------------------------------------------------------------------


@each("token", listed("turn_ends"))
def test_end_of_turn(token):
    assert extract(rf"So \boxed{{5}}.{token} and \boxed{{6}}").answer == "5"


@each(
    "opening",
    ["<|im_start|>assistant\n", "<|endoftext|>", "<|begin_of_text|>", "<|assistant|>", "<s>", "<start_of_turn>model\n", "<｜begin▁of▁sentence｜>",
     "<｜Assistant｜>", "<|start_header_id|>assistant<|end_header_id|>\n\n", "<s><|im_start|>assistant\n", "<|begin_of_text|><|im_start|>model "],
)  # fmt: skip
def test_opening_of_a_turn(opening):
    assert extract(opening + "5", kind="math").answer == "5"
    assert extract(opening + "B", kind="choice").answer == "B"


CHANNELS = ("<|channel|>analysis<|message|>", "<|end|><|channel|>final<|message|>")


@each(("opening", "closing"), [CHANNELS, *_THINK])
def test_thinking(opening, closing):
    assert extract(rf"{opening}\boxed{{4}}{closing} 5").answer == "5"
    assert extract(rf"{opening}\boxed{{4}}{closing}").answer is None
    assert extract(rf"{opening}\boxed{{4}}").answer is None
    assert extract(rf"{opening}\boxed{{4}}", open_think=True).answer == "4"
    assert extract(rf"\boxed{{4}}{closing}\boxed{{5}}").answer == "5"


@each(
    "line",
    ["Question:", "Q:", "Problem 2:", "Exercise:", "Human:", "User:", "Instruction:", "Input:", "问题：", "题目：", "Frage:", "### Question:",
     "**Question 3**:", "# Problem 2\n", "**Problem 2**\n", "## Question 2.\n", "## Exercise 3\n", "## Example 3\n", "> Question 5 :"],
)  # fmt: skip
def test_further_question(line):
    assert extract(f"The answer is 5.\n{line} What is 2+2?\nThe answer is 4.").answer == "5" or line.endswith("\n")
    assert extract(f"The answer is 5.\n{line}\nWhat is 2+2?\nThe answer is 4.").answer == "5"
    assert extract(f"Well.\n{line}\nWhat is 2+2?\nThe answer is 4.").answer == "4"


@each(
    "nothing",
    ["", " ", "...", "…", "?", "_", "~", ",", ":", "$", r"\,", r"\;", r"\:", r"\!", r"\_", r"\dots", r"\ldots", r"\cdots", r"\vdots", r"\quad",
     r"\qquad", r"\square", r"\phantom{}", r"\hspace{}", r"\underline{}", r"\text{answer}", r"\mathrm{answer}", "answer", "your answer", "the answer",
     "final answer", "insert answer here", "<answer>", "[answer]", "ANSWER", "result", "your final result here"],
)  # fmt: skip
def test_boxes_that_hold_nothing(nothing):
    assert extract(rf"So \boxed{{5}}. Put it in \boxed{{{nothing}}}.").answer == "5"
    assert extract(rf"So \boxed{{5{nothing}}}.").answer.startswith("5")


# --- budgets: at the limit and one beyond; what is asked for ---------------------------------------------------------


def test_budgets():
    for more, letter in (
        (0, True),
        (1, False),
    ):  # a reply that is one option: 200 characters; a last line, a letter: 24
        for text in ("B. " + "x" * (197 + more), "Text.\n\n(C" + " " * (21 + more) + ")"):
            assert (extract(text, kind="choice").answer in {"B", "C"}) == letter
    assert choice_letter("C. " + "x" * 3_995 + " D)") == "C"  # what is read ends before the second letter
    assert choice_letter("C. " + "x" * 3_994 + " D)") is None
    asked = "".join(f"\nQuestion: {n}?" for n in range(7))
    assert extract(asked + "\nQuestion: a?\nThe answer is 5.\nQuestion: b?\nThe answer is 6.").answer == "6"
    assert extract("First." + "\nQuestion: a?" * 6 + "\nThe answer is 5.\nQuestion: b?\nThe answer is 6.").answer == "5"
    for filler, answer in ((102, None), (103, "C")):  # contradictions are near
        assert extract(f"The answer is B. {'x' * filler} The answer is C.", kind="choice").answer == answer
    assert extract("The answer is " + "word " * 11 + "word.").answer == ("word " * 12).strip()
    assert extract("The answer is " + "word " * 12 + "word.").answer is None
    assert extract("The answer is " + "word " * 34 + "just 5 only.").answer is None
