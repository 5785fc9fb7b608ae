"""The kinds of questions and of keys, and the verdict on an answer that the readers of mathematics give up on."""

from __future__ import annotations

from typing import Literal

# How the answers to a question are read and compared.
Kind = Literal["math", "choice", "text", "exact", "literal"]

# What a key is made of, and with it how sure two equal keys are: docs/answers.md has a table.
KeyKind = Literal["exact", "structured", "fingerprint", "text", "opaque"]


class Unreadable(Exception):  # noqa: N818 - a verdict on the text, not a failure of the program
    """The text is not mathematics that these rooms read, or is over a budget: it is compared as it is written."""
