"""Text that other people wrote, as a terminal or a table may show it."""

from __future__ import annotations


def printable(text: str, *, keep: str = "") -> str:
    """The text with what clears a screen, colours, turns or hides text written out, as `\\x1b`.

    keep   characters of these kinds that stay, such as a line break
    """
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() or c in keep else c.encode("unicode_escape").decode() for c in text)
