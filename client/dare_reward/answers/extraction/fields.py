r"""Boxes and fields: places that name themselves the answer and say where it ends, so that no rule of prose is needed.

    {"reasoning": "...", "answer": "12"}    JSON, as models write it: quotes and line ends unescaped, commas that hang
    \boxed{12}  <answer>12</answer>  [ANSWER]12[/ANSWER]  <|begin_of_box|>12<|end_of_box|>  【答案】12

A value of JSON is given as it is written, a string without its quotes; `source` "string" says that it had some.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Literal, NamedTuple

from ..._pattern import pattern
from ..languages import alternatives, english, pointed
from ..literal_values import leading_literal
from ..markup import INSIDE, group_end
from .announcements import SHOWN, box_is_taken_back

WINDOW = 32_000  # characters of a value; a box that has not closed by then never does
TRIES = 8  # keys that are looked at, from the end
_KEY = pattern(r"answer\\?[\"']\s*+:\s*+|答案\\?[\"']\s*+[:：]\s*+", re.IGNORECASE)
# What a key or tag ends with, by its last character: of an expression, the one thing that is searched at full speed.
_KEY_ENDS = {
    '"': pattern(r"\"(?:(?<=nswer\")|(?<=NSWER\")|(?<=nswer\\\")|(?<=答案\")|(?<=答案\\\"))"),
    "'": pattern(r"'(?<=nswer')"),
}
_OPENED = pattern(r"(?P<escaped>\\?)(?P<quote>[\"'])[\w ]{0,24}\Z")
# `e.g., "answer": "C"` and `the output should be {"answer": ...}` say how to answer.
_EXAMPLE = pattern(rf"(?:{SHOWN})[:\s{{]*\Z")
_CLOSING = pattern(r"[\s$.\\\])*]*+\Z")
_ENDS = pattern(r"\s*+(?:,\s*+)?(?:[}\]\n`]|\\n|\Z)|\s*+,\s*+[\"']")
_BARE = pattern(r"[^\n,}]*+")
_TAG_ENDS = {
    ">": pattern(
        r">(?:(?<=(?:nswer|NSWER)>)|(?<=_of_box\|>)|(?<=</ans>)|(?<=</final>)|(?<=</result>)|(?<=(?:olution|OLUTION)>))"
    ),
    "]": pattern(r"\](?<=(?:nswer|NSWER)\])"),
}
_TAG = pattern(
    r"(?i)[<\[](?P<close>/|end |)(?:(?:final[_-]?)?answer|solution|final|result|ans)[>\]]"
    r"|<\|(?P<box>begin|end)_of_box\|>"
)
# What a template of some model ends a part with: <eoa>, <|close|>, </response>.
_HEADING = pattern(
    r"(?i)【[^\S\n]*+(?:最终|正确|参考|标准)?(?:答案|解答|答え|정답|answer)[^\S\n]*+】(?P<content>[^\n【]{0,200})"
)
_TAGS = frozenset({"answer", "final_answer", "solution", "final", "result", "ans", "begin_of_box", "end_of_box"})
_STRING = pattern(r"\"(?:[^\"\\]|\\.)*+\"|'(?:[^'\\]|\\.)*+'", re.DOTALL)
_ESCAPE = pattern(r"\\([\"'\\/])")
_BRACKET = pattern(r"[\[\]{}]")
_STRAY = pattern(r"<(?P<name>[|/]?[A-Za-z][\w|]{1,23})>[ \t]*+(?=\n|\Z)")
_PLACEHOLDER = pattern(
    r"(?:[\s.…?_~,:$]|\\[ ,;:!_]|\\(?:l|c|v)?dots(?![a-z])|\\q?quad|\\(?:square|phantom|hspace|underline|text"
    r"|mathrm)(?![a-z])|\\\Z|\{|\}|<?\[?(?i:(?:your |the |final |insert )*+(?:answer|result)(?: here)?)\]?>?)*+"
)
# `f"\\boxed{{{total}}}"`, in code that was written and not run.
_TEMPLATE = pattern(r"\{\{[A-Za-z_]\w++(?:\([^(){}]*+\))?\}\}")
_UNDECIDED = pattern(rf"(?<![^\W\d_])(?:{alternatives('undecided')})")
_SAID = pattern(r"\\[A-Za-z]++|[{}*$\"“”`\\]|\A[\s(]++")
# How many empty or placeholder boxes ("put it in \boxed{}") are stepped over before giving up.
SKIPPED = 16
_OPEN = pattern(r"\s*+\{")
# A box, and what stands behind it: all that closes its formula and its sentence, else prose in which no field ends.
_PLAIN = pattern(
    rf"(?s)\\boxed\s*+\{{(?P<said>{INSIDE})\}}"
    rf"(?:[\s$.\\\])*]*+(?:(?P<closed>\Z)|(?P<prose>[^\]>}}\"'】]*+\Z)))?+"
)
# `\boxed 5`, `\boxed\frac12`: without braces TeX boxes one token; models mean all up to a blank or a dollar.
_BARE_BOX = pattern(r"(?:[ \t]++|(?=[\\\d]))(?P<content>(?:[-+−]?\d|[-+−]?\\(?![()\[\]])|[A-Za-z](?![A-Za-z]))[^\s$]*)")
_FORM = pattern(r"\banswers?\s(?:as|in|within|using|of)?\s?(?:the\s)?form(?:at)?(?:\sof)?\s?:?[\s$`\"'(\[]{0,4}\\?\Z")
NEAR = 40  # characters between two boxes that are one list
LED = 40  # characters before a box in which an announcement names its language
_JOINT = pattern(
    rf"\}}[\s$*)\]\\.]{{0,8}}+(?:,(?:\s?and)?|,?\s?(?:\\text\s?\{{\s?)?(?P<or>{alternatives('or')})(?:\s?\}})?(?:\s(?:{english('hopes')}))?"
    r"|(?<=\n)(?:[*_]{2})?\(?[b-h]\)[*_]{0,2})[\s$*(\[\\]{0,8}(?:[A-Za-z]\s?=[\s\\]{0,3})?f?"
)
DIGITS = frozenset("0123456789-")


class Mark(NamedTuple):
    """A marked answer: its content (None: it never closes), what marks it, and where it ends."""

    content: str | None
    source: Literal["box", "tag", "string", "value"]
    end: int


def is_placeholder(content: str) -> bool:
    """Nothing, dots, a question mark, blanks to fill, "your answer", the field of a template: no answer itself."""
    return not content or (
        len(content) < 80
        and content[0] not in DIGITS
        and (_PLACEHOLDER.fullmatch(content) is not None or _TEMPLATE.fullmatch(content) is not None)
    )


def is_undecided(content: str) -> bool:
    """Whether a box, field or sentence says that there is no answer: "cannot be determined", "either A or D"."""
    if content[:1] in DIGITS or (len(content) < 10 and not content[:1].isalpha()):
        return False  # by far the most common
    return _undecided(content)


@lru_cache(maxsize=4_096)
def _undecided(content: str) -> bool:
    said = _SAID.sub("", content).lower()
    found = _UNDECIDED.search(said)
    return found is not None and (not found.start() or not any(c.isdigit() or c == "=" for c in said))


def last_key(text: str) -> Mark | None:
    """The value of the last key of JSON that ends in "answer"."""
    ends = [m.start() for quote, key in _KEY_ENDS.items() if quote in text for m in key.finditer(text)]
    for end in sorted(ends)[: -TRIES - 1 : -1]:
        word = end - (text[end - 1] == "\\")
        start = max(0, word - (2 if text[word - 1] == "案" else 6))
        key = _KEY.match(text, start)
        opened = key and _OPENED.search(text, max(0, start - 26), start)
        if key and opened and not _EXAMPLE.search(text, max(0, opened.start() - 40), opened.start()):
            return _value(text, key.end(), escaped=bool(opened["escaped"]))
    return None


def _value(text: str, at: int, *, escaped: bool) -> Mark:
    window = text[at : at + WINDOW]
    if escaped:
        window = window.replace('\\"', '"')
    if window[:1] in {'"', "'"}:
        close = _close(window)
        said = None if close is None else _ESCAPE.sub(r"\1", window[1:close])
        return Mark(said, "string", at + (close or 0))
    if window[:1] in {"[", "{"}:
        end = len(leading_literal(window) or "") or _closing(window)
    else:
        bare = _BARE.match(window)
        end = bare.end() if bare else 0
    said = window[:end].strip()
    return Mark("" if said == "null" else said, "value", at + end)


def _close(window: str) -> int | None:
    """Where the string that `window` begins with closes, quotes in it escaped or not; None if it never does."""
    strict = _STRING.match(window)
    if strict and _ENDS.match(window, strict.end()):
        return strict.end() - 1
    line = window.find("\n") if "\n" in window else len(window)
    last = window.rfind(window[0], 1, line)
    if last > 0 and _ENDS.match(window, last + 1):
        return last
    return None if strict is None else strict.end() - 1


def _closing(window: str) -> int:
    """Where the bracket that `window` begins with closes, else its line ends: `[\\frac{1}{2}, 3]` is no literal."""
    depth = 0
    for match in _BRACKET.finditer(window):
        depth += 1 if match[0] in "[{" else -1
        if not depth:
            return match.end()
    return len(window.partition("\n")[0])


def _holds(text: str, ends: Mapping[str, re.Pattern[str]], start: int = 0) -> bool:
    return any(text.find(c, start) >= 0 and end.search(text, start) for c, end in ends.items())


def ends_field(text: str, start: int, end: int) -> bool:
    """Whether a tag or heading may end behind `start`, or a value of JSON close behind `end`."""
    if _CLOSING.match(text, end + 1):
        return False  # by far the most common
    behind = text[end + 1 :]
    if "】" in behind or _holds(text, _TAG_ENDS, start):
        return True
    if '"' not in behind and "'" not in behind and "}" not in behind:
        return False
    return _holds(text, _KEY_ENDS, max(0, start - WINDOW - 80))


def last_tag(text: str) -> Mark | None:
    """The last answer tag, or box of tokens, that holds something."""
    if not _holds(text, _TAG_ENDS):
        return None
    opened: int | None = None
    found: Mark | None = None
    last = len(text.rstrip())  # a tag that opens there closes
    brackets = text.rfind("[/") >= 0  # else [Answer] is a heading
    for tag in _TAG.finditer(text):
        if tag[0][0] == "[" and not brackets:
            continue
        if not tag["close"] and tag["box"] != "end" and (opened is None or tag.end() < last):
            opened = tag.end()
        elif opened is not None:
            inside = text[opened : tag.start()].strip()
            if not is_placeholder(inside):
                found = Mark(inside, "box" if tag["box"] else "tag", tag.start())
            opened = None
    if opened is not None and not is_placeholder(text[opened:].strip()):
        return Mark(None, "tag", opened)
    return found


def last_heading(text: str) -> Mark | None:
    """What stands on one line with the last heading 【答案】, up to a further heading."""
    said = [Mark(heading["content"].strip(" :：*"), "tag", heading.end()) for heading in _HEADING.finditer(text)]
    return next((mark for mark in reversed(said) if not is_placeholder(mark.content or "")), None)


def without_stray_tags(text: str) -> str:
    """`text` without tags at the ends of lines that close nothing: "【答案】B<eoa>" is "【答案】B"."""
    kept, at = list[str](), 0
    for stray in _STRAY.finditer(text):
        name = stray["name"].strip("|/")
        if name.lower() in _TAGS or (stray["name"][0] == "/" and text.rfind(f"<{name}>") >= 0):
            continue
        kept.append(text[at : stray.start()].rstrip(" \t"))
        at = stray.end()
    return "".join([*kept, text[at:]]) if kept else text


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
    # `<answer>\boxed{5}` without the closing tag: the box is complete all the same.
    wins = box.end > tag.end or (None not in {tag.content, box.content} and box.end >= tag.end - len(tag.content or ""))
    return box if wins else tag


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
    if len(said) > WINDOW // 2 or (
        behind != "closed" and (behind != "prose" or "]" in said or ">" in said) and ends_field(text, *box.span("said"))
    ):
        return None
    if behind != "closed" and box_is_taken_back(text, box.end("said")):
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
        bare = _BARE_BOX.match(text, at, at + 200)
        content = bare["content"].rstrip(".,;:)*") if bare else ""
        if content:
            return Mark(content, "box", at + len(content))
        cut_off = "\\" in text[max(0, at - 6) : at] and not text[at:].strip()  # else the word "boxed"
        return Mark(None, "box", at) if cut_off else None
    start = opening.end()
    end = group_end(text, start - 1, start + WINDOW)
    if end is None:
        return Mark(None, "box", start)
    content = text[start : end - 1].strip()
    return None if is_placeholder(content) else Mark(content, "box", end - 1)
