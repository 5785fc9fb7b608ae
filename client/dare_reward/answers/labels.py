"""Labels as data sets ship them: a bare answer, a solution that ends in one, or a list of accepted ones."""

from __future__ import annotations

from collections.abc import Sequence

from .choices import choice_letter
from .classes import Labels, listed
from .extraction.final_answer import extract
from .keys import is_answer
from .kinds import Kind

# What a label that is more than its answer holds: GSM8K's last line, a box, a field, an announcement.
_MARKS = ("####", "boxed{", "nswer", "答", "</")


def read_label(label: str, *, kind: Kind = "math", options: Sequence[str] | None = None) -> str:
    r"""The answer that a label holds, read as a rollout's is; the label itself where it announces none.

    >>> read_label("48/2 = 24\n#### 72"), read_label(r"We get \boxed{1056}."), read_label("3/4")
    ('72', '1056', '3/4')
    """
    if kind in {"exact", "literal"} or not any(mark in label for mark in _MARKS):
        return label
    if kind == "choice" and choice_letter(label, options) is not None:
        return label
    found = extract(label, kind=kind, options=options, unmarked="none").answer
    return label if found is None else found


def read_labels(label: Labels, *, kind: Kind = "math", options: Sequence[str] | None = None) -> list[str]:
    """The answers that a label accepts, each as `read_label` reads it.

    What no rollout can answer is none: a blank, `$$`, a lone surrogate, of a choice what is no letter of the options.
    """
    read = (read_label(one, kind=kind, options=options) for one in listed(label))
    return [one for one in read if is_unicode(one) and is_answer(one, kind, options)]


def is_unicode(text: str) -> bool:
    """It holds no lone surrogate, which no JSON parser takes."""
    return text.isascii() or text.encode("utf-8", "replace").decode() == text
