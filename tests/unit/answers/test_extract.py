"""The final answer of a text: the whole set of endings, and what holds for all texts."""

from __future__ import annotations

import json
import random
from functools import partial
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st
from jsonl import read_lines
from refusals import refusal
from rows import each

import dare_reward
from dare_reward.answers import grade
from dare_reward.answers.extraction.final_answer import Extraction
from dare_reward.answers.extraction.final_answer import extract as extract_all

extract = partial(extract_all, unmarked="none")  # announcements, and nothing else

DATA = Path(__file__).parents[2] / "data"
ENDINGS, BLIND = (read_lines(DATA / name) for name in ("answer_endings.jsonl", "answer_endings_blind.jsonl.gz"))
KINDS = ("math", "choice", "text", "exact")
WORK = "First, note that $a+b=12$ and (A) is given. We compute 3*4 = 12, hence x = 12.\n"


def read(ending, text=None):
    how = {name: ending[name] for name in ("kind", "options", "closed_only") if name in ending}
    return extract(ending["text"] if text is None else text, **how)


@each("ending", ENDINGS)
def test_endings(ending):
    """And work before them changes nothing."""
    found = read(ending)
    assert (found.answer, found.source == "none") == (ending["expect"], ending["expect"] is None)
    if ending["kind"] in {"math", "text"} and ending["category"] not in {"think", "turn"}:
        assert read(ending, WORK * 20 + "\n" + ending["text"]).answer == ending["expect"]


def test_the_set_is_large_and_says_why():
    assert len(ENDINGS) >= 250
    assert {e["kind"] for e in ENDINGS} == set(KINDS)
    assert all(e["reason"] and e["category"] for e in ENDINGS)
    assert len({(e["text"], e["kind"], e.get("closed_only"), str(e.get("options"))) for e in ENDINGS}) == len(ENDINGS)
    assert len(BLIND) >= 2_100
    assert sum(e["expect"] is not None for e in BLIND) > 1_000


@each("ending", BLIND)
def test_blind_endings(ending):
    """Written by someone who had not seen the extractor; an extraction is right if it grades equal."""
    answer, kind = read(ending).answer, ending["kind"]
    assert answer == ending["expect"] or (kind != "choice" and grade(answer, ending["expect"], kind=kind))


def test_options_are_checked():
    assert refusal(extract, "", kind="choice", options=["a"]).code == "options"


def test_a_long_box_is_read_and_an_endless_one_is_not():
    assert extract("\\boxed{" + "1" * 30_000 + "}").answer == "1" * 30_000
    assert extract("\\boxed{" + "1" * 40_000 + "}").answer is None


balanced = st.recursive(
    st.text(alphabet="abcxyz0123456789+-*/=()[],.^_ \\$|<>é√", max_size=12).map(lambda s: s.replace("\\", "\\frac ")),
    lambda inner: st.tuples(inner, inner).map(lambda t: f"{t[0]}{{{t[1]}}}"),
    max_leaves=5,
)


@given(
    balanced,
    st.sampled_from(["", "The answer is ", "$", "<think>7</think>"]),
    st.sampled_from(["", ".", "$ as wanted.", "\n"]),
)
def test_a_balanced_box_gives_its_content(content, before, after):
    found = extract(f"{before}\\boxed{{x{content}y}}{after}")
    assert found == Extraction(f"x{content}y".strip(), "box")


UNMARKED = ("none", "sentence", "number")


@given(st.text(), st.sampled_from(KINDS), st.booleans(), st.sampled_from(UNMARKED), st.booleans())
def test_any_text_gives_a_piece_of_it_or_none(text, kind, closed_only, unmarked, open_think):
    found = extract(text, kind=kind, closed_only=closed_only, unmarked=unmarked, open_think=open_think)
    assert (found.answer is None) == (found.source == "none")
    assert found.answer is None or found.answer.strip()
    assert found == extract(text, kind=kind, closed_only=closed_only, unmarked=unmarked, open_think=open_think)


PIECES = [
    "\\boxed{", "}", "{", "\\fbox{", "<answer>", "</answer>", "<think>", "</think>", "The answer is ", "Answer: ", "answer", " is ", "not ",
    "$", "\\(", "\\)", "\\[", "\\]", "$$", "5", "-3.5", "1,000", "(C)", "C", "A", "B or C", "option ", "correct", ".", "\n", " ", "####", "A: ",
    "答案是", "정답은 ", "Ответ: ", "उत्तर ", "|", "*", "**", "`", "```", "<|im_end|>", "<|begin_of_box|>", "<|end_of_box|>", "Question:", "İ",
    "\ud800", "\x00", "\u202e", "\\b", "\b", "oxed{", "final ", "is the answer", "because ", "=", "/", "%", " cm", "!", "?", ":", "I", "if ",
]  # fmt: skip


@given(st.lists(st.sampled_from(PIECES), max_size=30).map("".join), st.sampled_from(KINDS), st.sampled_from(UNMARKED))
def test_any_mixture_of_markers_is_read_without_error(text, kind, unmarked):
    found = extract(text, kind=kind, unmarked=unmarked)
    assert found.answer is None or found.answer.strip()
    if kind == "choice" and found.answer is not None:
        assert found.answer in "ABCDEFGHIJ"
    if found.source in {"box", "tag"} and kind != "choice":
        closed = extract(text, kind=kind, closed_only=True)  # a tag that never closes is read where the text has ended
        assert closed == found or (found.source == "tag" and closed.reason == "cut_off")


@given(st.lists(st.sampled_from(PIECES), max_size=20).map("".join), st.sampled_from(KINDS))
def test_a_last_box_wins_over_everything_before_it(text, kind):
    text = text.replace("<|", "").replace("think", "").replace("Question", "").replace("<", "")
    assert extract(text + "\n\\boxed{C}", kind=kind) == Extraction("C", "box")


def test_extractions_do_not_depend_on_what_was_read_before():
    endings = list(ENDINGS)
    alone = {json.dumps(e, sort_keys=True): read(e) for e in endings}
    random.Random(1).shuffle(endings)
    assert all(read(e) == alone[json.dumps(e, sort_keys=True)] for e in endings)


WHY = {"<think>hm": "thinking", "so \\boxed{5": "closes", "I do not know.": "announces"}


def test_an_extraction_says_why_there_is_no_answer():
    for text, why in WHY.items():
        assert why in extract_all(text).why
    assert "limit" in extract_all("The answer is 5.", closed_only=True).why
    assert "option" in extract_all(r"\boxed{A, B}", kind="choice").why


def test_a_reply_counts_why_there_is_no_answer():
    texts = [r"so \boxed{1}", "perhaps", "<think> first", "", "still none"]
    groups = [{"rollouts": [{"text": text} for text in texts]}]
    (group,) = dare_reward.estimate(groups, method="ttrl").groups
    assert group.diagnostics["no_answer"] == {"empty": 1, "thinking": 1, "unannounced": 2}
    assert sum(group.diagnostics["no_answer"].values()) == group.valid.count(False)
