"""Answers of language models: extraction from text, canonical keys, classes of a group, grading.

    extraction/            what does this rollout claim?  `extract`; choices: which letter does a short text name?
    algebra/               what is this expression worth?  tokens -> tree -> value -> key
    forms/                 what else can an answer be?  lists, intervals, equations, units, dates, formulas, prose
    keys, rules, cleanup   when are two texts one answer?  `canonical`; the judgement calls that a request may change
    classes                which answers of a group are one?  `classify`, `grade`

>>> from dare_reward.answers import classify, extract
>>> extract(r"So the total is \\boxed{\\frac{1}{2}}.").answer
'\\\\frac{1}{2}'
>>> classify([r"\\frac{1}{2}", "0.5", "2", None]).index
(0, 0, 1, -1)
"""

from __future__ import annotations

from .choices import option_letters
from .classes import Classes, classify, grade
from .extraction.final_answer import Extraction, Unmarked, extract
from .extraction.letters import choice_letter
from .keys import ANSWERS_VERSION, Key, canonical
from .kinds import KeyKind, Kind
from .labels import read_label
from .spans import Span, answer_span, outside_span, span_tokens

__all__ = [
    "ANSWERS_VERSION",
    "Classes",
    "Extraction",
    "Key",
    "KeyKind",
    "Kind",
    "Span",
    "Unmarked",
    "answer_span",
    "canonical",
    "choice_letter",
    "classify",
    "extract",
    "grade",
    "option_letters",
    "outside_span",
    "read_label",
    "span_tokens",
]
