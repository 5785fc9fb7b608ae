"""HTML and pictures in a rollout: the tags that only format go, those that end a line end it."""

from __future__ import annotations

import re
import sys

from .._pattern import pattern

_TAG = pattern(
    r"(?i)</?(?:(?P<line>p|div|li|tr|td|th|h[1-6]|br|section|pre|blockquote)"
    r"|b|strong|i|em|u|s|span|code|mark|font|center|big|small|tt|kbd|var|a|html|body|ul|ol|table|tbody)"
    r"(?:\s[^<>]{0,200})?+/?>"
)
_HTML = pattern(r"<(?:/|br)")
_RAISED = pattern(r"<(?P<tag>su[bp])>(?P<inner>[^<>]{1,40})</(?P=tag)>", re.IGNORECASE)


def without_html(text: str) -> str:
    """`text` without formatting tags. One that never closes is mathematics, a<b, and stays: so does all of the text."""
    if "<" not in text or not _HTML.search(text):  # one character is found faster than two
        return text
    if "</su" in text.lower():
        text = _RAISED.sub(lambda m: f"{'^' if m['tag'][-1] in 'pP' else '_'}{{{m['inner']}}}", text)
    return _TAG.sub(lambda m: "\n" if m["line"] else "", text)


_BRACE = pattern(r"\\.|[{}]", re.DOTALL)
# What braces hold, up to four deep, as a part of a pattern: faster than brace by brace.
INSIDE = r"[^{}\\]*+(?:\\.[^{}\\]*+)*+"
for _ in range(3):
    INSIDE = rf"[^{{}}\\]*+(?:(?:\\.|\{{{INSIDE}\}})[^{{}}\\]*+)*+"
_GROUP = pattern(rf"\{{{INSIDE}\}}", re.DOTALL)


def group_end(s: str, start: int, end: int = sys.maxsize) -> int | None:
    """Behind the brace that closes the one at `start`, None where none does; `\\{` and `\\}` are characters."""
    if group := _GROUP.match(s, start, end):
        return group.end()
    depth = 0
    for brace in _BRACE.finditer(s, start, end):
        depth += (brace[0] == "{") - (brace[0] == "}")
        if not depth and brace[0] == "}":
            return brace.end()
    return None


# Emoji, symbols and dingbats, arrows and stars, and what chooses or joins their forms; with more it is a drawing.
_DECORATION = pattern("[\\s\U0001f000-\U0001faff\u2600-\u27bf\u2b00-\u2bff\ufe0e\ufe0f\u200d]{1,80}+\\Z")


def undecorated(text: str) -> str:
    """`text` without emoji and blanks at its end: "45 😊" is 45."""
    found = None if text.isascii() else _DECORATION.search(text, max(0, len(text) - 80))
    return text if found is None else text[: found.start()]
