"""What a rollout says that a program prints or returns: kind `literal`."""

from __future__ import annotations

import re

from ..._pattern import pattern
from ..literal_values import UNPARSED, leading_literal, literal_value
from .announcements import Announcement
from .fields import Mark, is_placeholder

WINDOW = 4_000
LINE = 400
_FENCED = pattern(r"```\w*\n(?P<inner>.*?)\n?[ \t]*```", re.DOTALL)
_CODE = pattern(r"(?P<ticks>`{1,3})(?P<inner>[^`\n]++)(?P=ticks)")
_QUOTED = pattern(r"(?<!\w)(?=[\[({'\"])")
_AFTER = pattern(r"[.,;:!)*`]*+(?:\s|\Z)")
_ASSERTION = pattern(r"(?:assert\s.*==\s*+|\w+\(.*\)\s==\s)(?P<value>.*)\Z", re.DOTALL)
_DRESS = pattern(r"(?:\s|\*\*|__(?!\w))*+")


def marked_literal(mark: Mark) -> str:
    """The content of a field as a literal. A string of JSON that writes none is that string, with its blanks."""
    said = mark.content or ""
    if mark.source == "string":
        return repr(said) if not said.strip() or literal_value(said) is UNPARSED else said.strip()
    return _bare(said)


def lone_literal(text: str) -> str | None:
    """A reply, a last code block or a last line that is a literal."""
    reply = text.strip()
    fences = [m["inner"] for m in _FENCED.finditer(reply, max(0, len(reply) - WINDOW))]
    line = reply.rpartition("\n")[2]
    for said in (reply, *fences[-1:], line):
        if (bare := _bare(said)) and len(said) < WINDOW and literal_value(bare) is not UNPARSED:
            return bare
    return None


def literal_phrase(text: str, announcement: Announcement) -> str | None:
    """The literal that an announcement has."""
    at = _DRESS.match(text, announcement.end)
    rest = text[at.end() if at else announcement.end :][:WINDOW]
    if fence := _FENCED.match(rest):
        return _bare(fence["inner"])
    if code := _CODE.match(rest):
        return _bare(code["inner"])
    if (found := leading_literal(rest)) is not None and _AFTER.match(rest, len(found)):
        return found
    line = rest.partition("\n")[0][:LINE].rstrip()
    inside = {_bare(m["inner"]) for m in _CODE.finditer(line)}
    inside = inside or {said for m in _QUOTED.finditer(line) if (said := leading_literal(line[m.start() :]))}
    if len(inside) == 1:
        return inside.pop()
    if announcement.link not in {"colon", "hash"} or is_placeholder(line):
        return None
    return line.rstrip("*").rstrip()


def _bare(said: str) -> str:
    """`said` without a code block, dollars or an assertion around its value."""
    said = said.strip()
    if fence := _FENCED.fullmatch(said):
        said = fence["inner"].strip()
    if code := _CODE.fullmatch(said):
        said = code["inner"].strip()
    found = _ASSERTION.match(said)
    return found["value"].strip() if found else said
