r"""Fields: places that name themselves the answer and say where it ends, so that no rule of prose is needed.

    {"reasoning": "...", "answer": "12"}    JSON, as models write it: quotes and line ends unescaped, commas that hang
    <answer>12</answer>  [ANSWER]12[/ANSWER]  <|begin_of_box|>12<|end_of_box|>  【答案】12

A value of JSON is given as it is written, a string without its quotes; `source` "string" says that it had some.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Literal, NamedTuple

from ..._pattern import pattern
from ..languages import alternatives
from ..literal_values import leading_literal

WINDOW = 32_000  # characters of a value
TRIES = 8  # keys that are looked at, from the end
_KEY = pattern(r"answer\\?[\"']\s*+:\s*+|答案\\?[\"']\s*+[:：]\s*+", re.IGNORECASE)
# What a key or tag ends with, by its last character: of an expression, the one thing that is searched at full speed.
_KEY_ENDS = {
    '"': pattern(r"\"(?:(?<=nswer\")|(?<=NSWER\")|(?<=nswer\\\")|(?<=答案\")|(?<=答案\\\"))"),
    "'": pattern(r"'(?<=nswer')"),
}
_OPENED = pattern(r"(?P<escaped>\\?)(?P<quote>[\"'])[\w ]{0,24}\Z")
# `e.g., "answer": "C"` and `the output should be {"answer": ...}` say how to answer.
_EXAMPLE = pattern(
    r"(?:\be\.g\.,?|\bfor example,?|\bsuch as|\b(?:format|form|output|response|reply)\s(?:should|must) be)[:\s{]*\Z"
)
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
    r"[<\[](?P<close>/|end |)(?:(?:final[_-]?)?answer|solution|final|result|ans)[>\]]|<\|(?P<box>begin|end)_of_box\|>",
    re.IGNORECASE,
)
# What a template of some model ends a part with: <eoa>, <|close|>, </response>.
_HEADING = pattern(
    r"【[^\S\n]*+(?:最终|正确|参考|标准)?(?:答案|解答|答え|정답|answer)[^\S\n]*+】(?P<content>[^\n【]{0,200})",
    re.IGNORECASE,
)
_TAGS = frozenset({"answer", "final_answer", "solution", "final", "result", "ans", "begin_of_box", "end_of_box"})
_STRING = pattern(r"\"(?:[^\"\\]|\\.)*+\"|'(?:[^'\\]|\\.)*+'", re.DOTALL)
_ESCAPE = pattern(r"\\([\"'\\/])")
_BRACKET = pattern(r"[\[\]{}]")
_STRAY = pattern(r"<(?P<name>[|/]?[A-Za-z][\w|]{1,23})>[ \t]*+(?=\n|\Z)")
_PLACEHOLDER = pattern(
    r"(?:[\s.…?_~,:$]|\\[ ,;:!_]|\\(?:l|c|v)?dots(?![a-z])|\\q?quad|\\(?:square|phantom|hspace|underline|text"
    r"|mathrm)(?![a-z])|\\\Z|\{|\}|<?\[?(?:your |the |final |insert )*+(?:answer|ANSWER|result)(?: here)?\]?>?)*+"
)
# `f"\\boxed{{{total}}}"`, in code that was written and not run.
_TEMPLATE = pattern(r"\{\{[A-Za-z_]\w++(?:\([^(){}]*+\))?\}\}")
_UNDECIDED = pattern(rf"(?<![^\W\d_])(?:{alternatives('undecided')})")
_SAID = pattern(r"\\[A-Za-z]++|[{}*$\"“”`\\]|\A[\s(]++")
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
    if "】" not in text:
        return None
    found = None
    for heading in _HEADING.finditer(text):
        content = heading["content"].strip(" :：*")
        if content and not is_placeholder(content):
            found = Mark(content, "tag", heading.end())
    return found


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
