"""Boxes, and the last of all the places where a model was told to put its answer."""

from __future__ import annotations

import re

from ..._pattern import pattern
from ..languages import alternatives, pointed
from ..markup import INSIDE, group_end
from .announcements import box_is_taken_back
from .fields import DIGITS, Mark, ends_field, is_placeholder, is_undecided, last_heading, last_key, last_tag

# The longest content that is read; a box that has not closed by then is treated as one that never does.
LONGEST = 32_000
# How many empty or placeholder boxes ("put it in \boxed{}") are stepped over before giving up.
SKIPPED = 16
_OPEN = pattern(r"\s*+\{")
# A box, and what stands behind it: all that closes its formula and its sentence, else prose in which no field ends.
_PLAIN = pattern(
    rf"\\boxed\s*+\{{(?P<said>{INSIDE})\}}"
    rf"(?:[\s$.\\\])*]*+(?:(?P<closed>\Z)|(?P<prose>[^\]>}}\"'】]*+\Z)))?+",
    re.DOTALL,
)
# `\boxed 5`, `\boxed\frac12`: without braces TeX boxes one token; models mean all up to a blank or a dollar.
_BARE = pattern(r"(?:[ \t]++|(?=[\\\d]))(?P<content>(?:[-+−]?\d|[-+−]?\\(?![()\[\]])|[A-Za-z](?![A-Za-z]))[^\s$]*)")
_FORM = pattern(r"\banswers?\s(?:as|in|within|using|of)?\s?(?:the\s)?form(?:at)?(?:\sof)?\s?:?[\s$`\"'(\[]{0,4}\\?\Z")
NEAR = 40  # characters between two boxes that are one list
LED = 40  # characters before a box in which an announcement names its language
_JOINT = pattern(
    rf"\}}[\s$*)\]\\.]{{0,8}}+(?:,(?:\s?and)?|,?\s?(?:\\text\s?\{{\s?)?(?P<or>{alternatives('or')})(?:\s?\}})?"
    r"|(?<=\n)(?:[*_]{2})?\(?[b-h]\)[*_]{0,2})[\s$*(\[\\]{0,8}(?:[A-Za-z]\s?=[\s\\]{0,3})?f?"
)


def last_mark(text: str) -> Mark | None:
    """The last box, tag or key that holds something, if there is one; its content is None where it was cut off."""
    box = found[0] if (found := boxes(text, 1)) else None
    if box is not None and box.content is not None and not ends_field(text, box.end - len(box.content), box.end):
        return box  # what stands before it cannot win, and most texts end with it
    tag = last_tag(text)
    for field in (last_key(text), last_heading(text)):
        if field is not None and all(mark is None or mark.end <= field.end for mark in (tag, box)):
            return field
    if tag is None or box is None:
        return tag or box
    if tag.content is None:
        # `<answer>\boxed{5}` without the closing tag: the box is complete all the same.
        return box if box.end > tag.end else tag
    if box.content is None and box.end <= tag.end:
        return tag
    return box if box.end >= tag.end - len(tag.content) else tag


def plain_box(text: str) -> str | None:
    """What the last box says, if it decides, and no other box or field may: by far the most common text."""
    at = text.rfind("box")
    if at < 1 or (
        text.find("box", at - NEAR if at > NEAR else 0, at) >= 0 and _JOINT.fullmatch(text, text.rfind("}", 0, at), at)
    ):
        return None
    box = _PLAIN.match(text, at - 1)
    if box is None:
        return None
    said, behind = box["said"], box.lastgroup
    if len(said) > LONGEST // 2 or (
        behind != "closed" and (behind != "prose" or "]" in said or ">" in said) and ends_field(text, *box.span("said"))
    ):
        return None
    if behind == "prose" and box_is_taken_back(text, box.end("said")):
        return None
    content = said.strip()
    if content[:1] not in DIGITS and (is_placeholder(content) or is_undecided(content) or _is_form(text, at, content)):
        return None
    return _pointed(content, text, box.end("said") - len(content)) if "," in content else content


def boxes(text: str, count: int) -> list[Mark]:
    """The last `count` boxes with something in them, last first; the list ends at one that never closes."""
    found: list[Mark] = []
    at, skipped = len(text), 0
    while len(found) < count and skipped < SKIPPED and (at := text.rfind("box", 0, at)) >= 0:
        framed = text[at - 1 : at] == "f"
        if not framed and not text.startswith("ed", at + 3):
            continue  # a word
        mark = _box(text, at + (3 if framed else 5))
        if mark is None or _is_form(text, at, mark.content):
            skipped += 1
            continue
        found.append(mark)
        if mark.content is None:
            break
    return found


def listed(text: str, last: Mark) -> str:
    r"""The content of the last box, with those that commas, "and" or "or" join to it: "\boxed{1} and \boxed{-2}"."""
    content, after = last.content or "", last
    said, start = content, last.end - len(content)
    others = boxes(text, SKIPPED)[1:] if text.count("box", max(0, start - NEAR), last.end) > 1 else ()
    for box in others:
        at = text.rfind("box", box.end, after.end - len(after.content or ""))
        if box.content is None or at - box.end > NEAR or not (joint := _JOINT.fullmatch(text, box.end, at)):
            break
        said = box.content + (" or " if joint["or"] == "or" else ", ") + said
        after = box
    return _pointed(said, text, start) if "," in said else said


def _pointed(content: str, text: str, start: int) -> str:
    return pointed(content, text[max(0, start - LED) : start])


def _is_form(text: str, at: int, content: str | None) -> bool:
    """Whether a box shows how the answer is to be written: "the final answer in the form \\boxed{m+n}"."""
    if content is None or len(content) > 20 or content[0] in DIGITS or any(map(str.isdigit, content)):
        return False
    return _FORM.search(text, max(0, at - 60), at) is not None


def _box(text: str, at: int) -> Mark | None:
    """The box whose command ends at `at`; None if it holds nothing."""
    opening = _OPEN.match(text, at)
    if opening is None:
        bare = _BARE.match(text, at, at + 200)
        content = bare["content"].rstrip(".,;:)*") if bare else ""
        if content:
            return Mark(content, "box", at + len(content))
        cut_off = "\\" in text[max(0, at - 6) : at] and not text[at:].strip()  # else the word "boxed"
        return Mark(None, "box", at) if cut_off else None
    start = opening.end()
    end = group_end(text, start - 1, start + LONGEST)
    if end is None:
        return Mark(None, "box", start)
    content = text[start : end - 1].strip()
    return None if is_placeholder(content) else Mark(content, "box", end - 1)
