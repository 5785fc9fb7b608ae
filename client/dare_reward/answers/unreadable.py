"""The verdict on an answer that the readers of mathematics give up on."""

from __future__ import annotations

__all__ = ["Cancelled", "Unreadable"]


class Unreadable(Exception):  # noqa: N818 - a verdict on the text, not a failure of the program
    """The text is not mathematics that these rooms read, or is over a budget: it is compared as it is written."""


class Cancelled(Unreadable):
    """The difference of two numbers so large, in bits, that their digits do not show what is left of them."""

    def __init__(self, bits: int) -> None:
        super().__init__("a difference of large numbers")
        self.bits = bits
