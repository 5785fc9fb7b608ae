"""The verdict on an answer that the readers of mathematics give up on."""

from __future__ import annotations


class Unreadable(Exception):  # noqa: N818 - a verdict on the text, not a failure of the program
    """The text is not mathematics that these rooms read, or is over a budget: it is compared as it is written."""
