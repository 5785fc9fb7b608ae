"""Texts made to break an extractor: each is read without an error and in bounded time."""

from __future__ import annotations

import time

import pytest

from dare_reward.answers.choices import choice_letter
from dare_reward.answers.extraction.final_answer import extract
from dare_reward.answers.ttrl_strings import official_answer, official_key

KINDS = ("math", "choice", "text", "exact")
SIZE = 256_000
LIMIT = 0.05
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
WHOLE = {
    "nested braces": "\\boxed{" + "{" * 10_000 + "}" * 10_000 + "}",
    "nested boxes": "\\boxed{" * 10_000 + "}" * 10_000,
    "nested empty boxes": "\\boxed{" * 4_000 + "}" * 4_000,
    "blanks after answer": "answer" + " " * SIZE,
    "blanks after answer is": "answer is" + " " * SIZE,
    "a huge number": "The answer is " + "1" * SIZE,
    "open brackets": "The answer is " + "(" * SIZE,
    "abbreviations": "The answer is " + "a. " * 80_000,
    "words": "Answer: " + "the " * 60_000,
    "clauses": ("answer to " + "a" * 90) * 2_500,
    "blanks around a box": "\n" + " " * SIZE + "\\boxed" + " " * SIZE,
    "braces in a tag": "<answer>" + "{" * SIZE + "</answer>",
    "options in a tag": "<answer>" + " option A" * 20_000 + "</answer>",
    "dollars in a tag": "<answer>$" + "$ " * SIZE + "</answer>",
    "spans in a tag": "<answer>" + "\\(" * SIZE + "</answer>",
    "denied options": "option (A) is " * 20_000 + "the answer is " + "not " * 1_000,
    "many questions": "<answer></answer>" * 15_000 + "\nQuestion: " * 20,
    "questions between": ("answer is $" * 2_000 + "\nQuestion: ") * 10,
    "equals": "The answer is " + "x=" * 100_000,
    "units": "The answer is 1 " + "cm " * 80_000,
}


def fastest(call) -> float:
    """The best of twelve: other work on the machine must not fail a test."""
    best = float("inf")
    for _ in range(12):
        start = time.thread_time()
        call()
        best = min(best, time.thread_time() - start)
        if best < LIMIT / 2:
            break
    return best


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("fallback", [False, True])
def test_repeated_patterns(kind, fallback):
    for pattern in PATTERNS:
        text = pattern * (SIZE // len(pattern))
        assert fastest(lambda text=text: extract(text, kind=kind, fallback=fallback)) < LIMIT, pattern


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", WHOLE)
def test_constructed_texts(kind, name):
    assert fastest(lambda: extract(WHOLE[name], kind=kind, fallback=True)) < LIMIT


@pytest.mark.parametrize("name", WHOLE)
def test_given_answers(name):
    assert fastest(lambda: choice_letter(WHOLE[name])) < LIMIT


def test_time_grows_no_faster_than_the_text():
    for pattern in ("answer is $", "\\boxed{}", "option A ", "<answer></answer>", "The answer is not 5. "):
        times = [fastest(lambda n=n, p=pattern: extract(p * (n // len(p)), kind="choice")) for n in (64_000, 512_000)]
        assert times[1] < 40 * times[0] + 0.005, pattern


@pytest.mark.parametrize("kind", ["math", "choice"])
def test_the_reference_survives_too(kind):
    for pattern in PATTERNS:
        text = pattern * (SIZE // len(pattern))
        assert fastest(lambda text=text: official_key(official_answer(text, kind=kind), kind=kind)) < 2 * LIMIT, pattern


def test_hostile_texts_are_not_answers_of_ordinary_problems():
    for text in [*WHOLE.values(), *(p * (SIZE // len(p)) for p in PATTERNS if "1" not in p and "5" not in p)]:
        answer = extract(text).answer
        assert answer is None or answer not in {"0", "1", "2", "5", "1.0"}
