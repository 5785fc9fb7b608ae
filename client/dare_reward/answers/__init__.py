"""Answers of language models as equivalence classes: canonical keys, classes of a group, grading.

    >>> from dare_reward.answers import classify
    >>> classify([r"\\frac{1}{2}", "0.5", "2", None]).index
    (0, 0, 1, -1)
"""

from __future__ import annotations

from .classes import Classes, classify, grade
from .keys import ANSWERS_VERSION, Key, KeyKind, Kind, canonical

__all__ = ["ANSWERS_VERSION", "Classes", "Key", "KeyKind", "Kind", "canonical", "classify", "grade"]
