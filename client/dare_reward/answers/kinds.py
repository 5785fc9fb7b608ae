"""The kinds of questions and the kinds of keys."""

from __future__ import annotations

from typing import Literal

# How the answers to a question are read and compared.
Kind = Literal["math", "choice", "text", "exact", "literal"]

# What a key is made of, and with it how sure two equal keys are: docs/answers.md has a table.
KeyKind = Literal["exact", "structured", "fingerprint", "text", "opaque"]
