"""Texts made to break an extractor: each is read without an error and in time linear in its length."""

from __future__ import annotations

import pytest
from growth import assert_linear
from rows import each

from dare_reward.answers import choice_letter
from dare_reward.answers.extraction.final_answer import extract

KINDS = ("math", "choice", "text", "exact")
SIZE = 32_000  # and 8 times as much: below, finding one character is too quick for its growth to show
LONG = 256_000
PATTERNS = [
    "{", "}", "\\", "$", "$$", "\\(", "\\[", "\\boxed{", "\\boxed{}", "\\boxed ", "\\boxed", "boxed", "oxed", "fbox", "\\boxed{\\text{", "\boxed{",
    "Answer: ", "answer is ", "answer", "answer(", "answer (a", "answer to ", "answer, a", "answer\n", "answer = ", "answer: -", "answer: **",
    "answer is $", "answer is (", "answer is \\(", "answer: $1$ and ", "answer is 1 and ", "answer: \\begin{a}", "answer:\n```\n", "answer is a. ",
    "answer is e.g. ", "| answer | ", "The answer is not 5. ", "5 is the answer ", "$1$ is the answer. ", "# the final answer\n", "if the answer is ",
    "<answer>", "</answer>", "<answer></answer>", "<answer>1</answer>", "<", "<|", "<think>", "</think>", "<|im_end|>", "<|im_start|>", "<|channel|>",
    "<|begin_of_box|>", "</b>", "<b>", "<b ", "<sup>1", "<sup>1</sup>", "<br>", "[answer]", "[/answer]", "[answer]1[/answer]",
    "😊", "answer is 1 😊 ", "E. coli ", "উত্তর ", "คำตอบคือ", "cevap 1 ", "jibu ", "final result ", "\\boxed{{{ab}}}", "\\boxed{\\ }", "◁think▷", "[THINK]", "option A ", "option A is correct. ", "A is ", "(A) is ", "I choose ", "the correct option ", "option ",
    "correct answer is A or ", "closest ", "matches (A) ", "опция ", "ответ — ", "答案", "答", "选", "选A", "A: ", "\na: ", "\n", "####", "#### 1\n",
    "Question:\n", "\nQuestion: ", "\nQ: answer is", "a", "1", "1,", " ", "\t", "*", "_", "```", "\x00", "\ud800", "\u202e", "İ", "ſ", "½",
]  # fmt: skip
# Each of about `n` characters.
WHOLE = {
    "nested braces": lambda n: "\\boxed{" + "{" * (n // 2) + "}" * (n // 2) + "}",
    "nested boxes": lambda n: "\\boxed{" * (n // 8) + "}" * (n // 8),
    "blanks after answer": lambda n: "answer" + " " * n,
    "blanks after answer is": lambda n: "answer is" + " " * n,
    "a huge number": lambda n: "The answer is " + "1" * n,
    "open brackets": lambda n: "The answer is " + "(" * n,
    "abbreviations": lambda n: "The answer is " + "a. " * (n // 3),
    "words": lambda n: "Answer: " + "the " * (n // 4),
    "clauses": lambda n: ("answer to " + "a" * 90) * (n // 100),
    "blanks around a box": lambda n: "\n" + " " * (n // 2) + "\\boxed" + " " * (n // 2),
    "braces in a tag": lambda n: "<answer>" + "{" * n + "</answer>",
    "options in a tag": lambda n: "<answer>" + " option A" * (n // 9) + "</answer>",
    "dollars in a tag": lambda n: "<answer>$" + "$ " * (n // 2) + "</answer>",
    "spans in a tag": lambda n: "<answer>" + "\\(" * (n // 2) + "</answer>",
    "denied options": lambda n: "option (A) is " * (n // 15) + "the answer is " + "not " * (n // 300),
    "many questions": lambda n: "<answer></answer>" * (n // 17) + "\nQuestion: " * 20,
    "questions again": lambda n: "Question: one of many\n" * (n // 22) + "Question: the one\n" * 2,
    "questions between": lambda n: ("answer is $" * (n // 120) + "\nQuestion: ") * 10,
    "equals": lambda n: "The answer is " + "x=" * (n // 2),
    "units": lambda n: "The answer is 1 " + "cm " * (n // 3),
}


def repeated(pattern):
    return lambda n: pattern * (n // len(pattern))


def reader(kind):
    """With the fallback, which comes after all the rest, and with the text as its prompt."""
    return lambda text: extract(text, kind=kind, unmarked="number", prompt=text)


@pytest.mark.parametrize("kind", KINDS)
def test_reading_repeated_patterns_is_linear(kind):
    for pattern in PATTERNS:
        assert_linear(reader(kind), repeated(pattern), SIZE, pattern)


@each("kind", KINDS)
@each("name", WHOLE)
def test_reading_constructed_texts_is_linear(kind, name):
    assert_linear(reader(kind), WHOLE[name], SIZE, name)


@each("name", WHOLE)
def test_reading_given_answers_is_linear(name):
    assert_linear(choice_letter, WHOLE[name], SIZE, name)


def test_hostile_texts_are_not_answers_of_ordinary_problems():
    texts = [*WHOLE.values(), *(repeated(p) for p in PATTERNS if "1" not in p and "5" not in p)]
    for text in (make(LONG) for make in texts):
        answer = extract(text).answer
        assert answer is None or answer not in {"0", "1", "2", "5", "1.0"}
