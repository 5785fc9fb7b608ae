"""Labels as data sets ship them: a bare answer, a solution that ends in one, or a list of accepted ones."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from itertools import chain
from typing import Any, Final

from .choices import option_letters
from .classes import Labels, listed
from .extraction.final_answer import extract
from .extraction.letters import bare_letter
from .keys import is_answer
from .kinds import Kind
from .tables import listed as table

# What a label that is more than its answer holds: GSM8K's last line, a box, a field, an announcement.
_MARKS = ("####", "boxed{", "nswer", "答", "</")

# Under which keys an object of a data set holds the answer, in the order in which they are tried.
KEYS: Final = table("label_keys")


def read_label(label: str, *, kind: Kind = "math", options: Sequence[str] | None = None) -> str:
    r"""The answer that a label holds, read as a rollout's is; the label itself where it announces none.

    >>> read_label("48/2 = 24\n#### 72"), read_label(r"We get \boxed{1056}."), read_label("3/4")
    ('72', '1056', '3/4')
    """
    if kind in {"exact", "literal"} or not any(mark in label for mark in _MARKS):
        return label
    if kind == "choice" and bare_letter(label, option_letters(options)) is not None:
        return label
    found = extract(label, kind=kind, options=options, unmarked="none").answer
    return label if found is None else found


def read_labels(label: Labels, *, kind: Kind = "math", options: Sequence[str] | None = None) -> list[str]:
    """The answers that a label accepts, each as `read_label` reads it; those of a JSON text are `unpacked`.

    What no rollout can answer is none: a blank, `$$`, a lone surrogate, of a choice what is no letter of the options.
    """
    texts = chain.from_iterable(unpacked(one, kind) for one in listed(label))
    read = (read_label(one, kind=kind, options=options) for one in texts)
    return [one for one in read if is_unicode(one) and is_answer(one, kind, options)]


def unpacked(label: str, kind: Kind = "math") -> Sequence[str]:
    """The labels in a JSON list of strings, or in a JSON object, that a data set wrote as text; else the label itself.

    A list of numbers is an answer: `[0, 1]` is an interval, or a list that a rollout has to name.
    """
    if kind in {"exact", "literal"} or not label.lstrip().startswith(("[", "{")):
        return (label,)
    try:
        value = json.loads(label)
    except (ValueError, RecursionError):
        return (label,)
    value = content_of_label(value) if isinstance(value, Mapping) else value
    if isinstance(value, list) and value and all(isinstance(one, str) for one in value):
        return value
    is_answer_of_object = label.lstrip().startswith("{") and isinstance(value, str | int | float)
    return (str(value),) if is_answer_of_object and not isinstance(value, bool) else (label,)


def content_of_label(label: Mapping[str, Any]) -> Any:
    """What an object of a data set holds as the answer; None where none of KEYS is there."""
    return next((label[key] for key in KEYS if label.get(key) is not None), None)


def is_unicode(text: str) -> bool:
    """It holds no lone surrogate, which no JSON parser takes."""
    return text.isascii() or text.encode("utf-8", "replace").decode() == text
