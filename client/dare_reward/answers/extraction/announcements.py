"""The words with which a text announces its final answer ("The answer is", "Answer:", "答案是", "####").

Scanned from the end, so that the last announcement comes first. Every scan is a `rfind` or a match with possessive
quantifiers at one place, and the number of places tried is bounded: time is linear in the text, whatever it holds.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from typing import Literal

from ..._pattern import pattern
from ..languages import JOINED, LANGUAGES, VERB_LAST, alternatives, english, every

Link = Literal["is", "colon", "equals", "heading", "cell", "hash", "line"]
TRIES = 48
NEAR = 500  # characters at the end in which the last announcement mostly stands: searched before the rest
LONGEST = 16  # no stem is longer
SOON = 80  # characters behind an announcement in which it is taken back, and behind that for what
_EN = (
    r"(?:s|e?d)?+(?![a-z])(?:\s(?:choice|option|letter)(?![a-z]))?+"
    r"[\"'*_`}\])]{0,6}+(?:[^\S\n]*+\((?![A-Za-z]\))[^()\n]{0,60}\))?+"
    r"(?:,(?!\s*+[-−$\\(\d])[^.\n:]{0,60}?,|\s(?:to|for|of|in|as|after|from|we|i|that|you|here|value|rounded"
    r"|when|based)(?![a-z])[^.:\n?!]{0,100}?(?=\s(?:is|are|equals)\s|\s*[:：]))?"
    r"(?:[^\S\n]*+\**+[^\S\n]*+(?P<colon>[:：]|[-=]>|→)|(?P<dot>\.\**+[^\S\n]++(?=\S))|(?P<dash>[^\S\n]++[-–—][^\S\n]++)"
    r"|\s++(?P<neg>(?:can(?:no|')t|could(?:n't| not)|would(?:n't| not)|should(?:n't| not)) be|(?:is|are"
    r"|was)(?:n['’]t| not))(?![a-z])"
    r"|\s++(?P<is>(?:is|are|was|will be|would be|would then be|should be|must be|has to be|equals?"
    r"|comes out to(?: be)?|remains|(?:seems|appears) to be|can be (?:written|expressed) as"
    r"|turns out to be|becomes)(?![a-z'’])\s*+:?+)"
    r"|[^\S\n]*+(?P<equals>=)(?![=>])|(?P<cell>[^\S\n]*+\|)|(?P<heading>[^\S\n]*+[*_#]*+[^\S\n]*+(?=\n))"
    r"|(?P<of>(?:(?:(?<=')|['’])s|\s++(?:of|as))\s++(?=[-−(\[$\\]*\d)|(?:(?<=')|['’])s\s++(?=\(?[b-j]\)?(?![a-z])))|(?P<alone>[^\S\n]++(?=[-−$\\(]{0,3}+\d[\d.,/]{0,40}+[$)\\]{0,3}+\.?\s*+\Z))|(?P<bare>\s++(?=[-−(\[$\\]*\d)))"
)


def _tail(stem: str) -> str:
    """What follows a word for the answer outside English: right, then a link, a line's end, a value or a letter."""
    forms = [word for word in every("answer") if word.startswith(stem)]
    codes = [code for code, language in LANGUAGES.items() if not set(forms).isdisjoint(language["answer"])]
    joined = not JOINED.isdisjoint(codes)
    links, right = (
        "|".join(sorted({word for code in codes for word in LANGUAGES[code][field]}, key=len, reverse=True))
        for field in ("is", "correct")
    )
    end = "" if joined else r"(?![^\W\d_])"
    then = ""
    if not VERB_LAST.isdisjoint(codes):
        then = r"(?=\s*+[:：*(\[$\\\d-]|\s*+[a-j](?![^\W\d_]))"  # else a clause follows
    blank = r"\s*+" if joined else r"\s++"
    endings = "|".join(word.removeprefix(stem) for word in forms)
    return (
        rf"(?:{endings})[*_`\"'”」】）)}}]{{0,4}}+(?:{blank}(?:{right}){end})?+[*_`\"']{{0,4}}+"
        rf"(?:[^\S\n]*+(?P<colon>[:：])|\s*+(?P<is>(?:[—–-]|{links}){end}{then}[、,]?+\s*+[:：]?+)"
        r"|(?P<next>\s++(?=[*(\[-]*+\d|\*{0,2}\$|\*{0,2}\\\()"
        rf"|(?<=】)(?=\S)|\s++(?=[*(]{{0,3}}[a-j][)*]{{0,3}}(?:['’.,।]|\s*+(?:\n|\Z|(?:{links})\s*+(?:[.।]|\n|\Z)))))"
        r"|[^\S\n]*+(?P<equals>[=＝])|(?P<heading>[^\S\n]*+[*_#]*+[^\S\n]*+(?=\n)))"
    )


_ENGLISH = {
    "answer": _EN,
    "ans": r"[*_`]{0,3}+(?:\.?+[^\S\n]*+(?P<colon>[:：=])|\.(?P<is>[^\S\n]++(?=[-$(\\]*(?:\d|[a-z]\b)))"
    r"|(?P<next>[^\S\n]++(?=\((?:[a-j]|\d{1,9})\))))",
    "final result": _EN,
    "答": r"[*_`]{0,3}+[^\S\n]*+(?P<colon>[:：])",
}
_STEMS = [w for w in every("answer") if not any(w != shorter and w.startswith(shorter) for shorter in every("answer"))]
_TAIL = {stem: pattern(tail) for stem, tail in ({stem: _tail(stem) for stem in _STEMS} | _ENGLISH).items()}
_HEAD = pattern(
    r"(?:[\s#*_>\-=|]|\d++[.)]|step\s++\d++[:.]?+|\\(?:textbf|text|boldsymbol|mathbf|section|subsection)\*?\{"
    r"|\\\["
    rf"|(?:my|short|exact|numerical|{alternatives('article', 'correct', 'so')})[\s,_]*+|【|「)*+"
)
# `e.g., "answer": "C"` and "The output should be "The answer is (A)"" say how to answer.
SHOWN = r"\be\.g\.,?|\bfor example,?|\bsuch as|\b(?:format|form|output|response|reply)\s(?:should|must) be"
# What is not said to be the answer: what is asked or shown, and what others say.
_NOT_SAID = pattern(
    rf"(?:(?<![a-z])(?:{english('unsure')})\s++(?:that\s++)?+(?:the\s++|my\s++|this\s++|our\s++)?+(?:(?:final|correct)\s++)?+"
    rf"|(?<![a-z])(?:{english('of others')})[^\S\n]++"
    rf"|(?:{SHOWN}|\b(?:end|finish|reply|respond|conclude)\s(?:(?:your|my|the|this)\s)?(?:\w+\s)?with)[:\s]*[\"“'`]{{1,2}}"
    r"(?:(?:the|my|final|correct)\s)*"
    r"|\baccording to (?:the|my|your|a) \w{3,12},? the\s(?:(?:correct|right|final)\s)?"
    r"|\b(?:many|some|most|people|students|others)\b[^.\n]{0,24}\b(?:think|say|believe|guess|assume|argue)\s(?:that\s)?"
    r"(?:the\s)?(?:(?:correct|right|final)\s)?)\Z"
)
# What holds under a condition, "if x were 2", or of a part, in brackets.
_CONDITION = pattern(
    r"(?:\A|[.!?:\n(]\s*+)(?:(?:note|if|unless|without|suppose|supposing|assuming|had|were|under|for)\s(?![^\n]*\bthen\b)"
    r"[^.!?\n]{1,80}?,?\s|(?<=\())(?:the|our|my)\s(?:final\s|correct\s)?\Z"
)
# "The answer is 5. Wait, it is 6.": taken back for another value or letter, whose own words say whether it holds. A box
# is taken back for nothing, too: "Wait, that is wrong."
_RETRACTED = (
    rf"(?:[.!…?\n][\s*_$)\]}}]*+|,\s)(?i:(?:no,?\s)?(?:{english('retracts')})).{{0,{SOON}}}?"
    r"(?:\d|(?<![\w'’])(?:[B-HJ](?![\w'’])|[AI](?=\W*(?:[.!\n]|\Z)))"
)
_RETRACTS = pattern(rf"{_RETRACTED})", re.DOTALL)
_RETRACTS_BOX = pattern(rf"{_RETRACTED}|\b(?:{english('denies itself')}))", re.DOTALL)
# `A: 26` on a line of its own, unless it is the first of a list of options. A Markdown heading of the fourth level
# looks like GSM8K's `#### 42` and is sorted out by its content.
_LINE = r"(?:\*\*)?[^\S\n]++(?![^\n]*+\n\s*+(?:\*\*)?b(?:\*\*)?[:.)])"
_MARKS: dict[str, tuple[Link, re.Pattern[str]]] = {
    "####": ("hash", pattern(r"(?<![^\n ]####)(?!#)[^\S\n]*+")),
    "\na:": ("line", pattern(_LINE)),
    "\n**a": ("line", pattern(rf"(?:\*\*)?:{_LINE}")),
}
_FIRST_LINE = pattern(rf"(?:\*\*)?a(?:\*\*)?:{_LINE}")
_ALL_STEMS = (*_TAIL, *_MARKS)


@dataclass(frozen=True, slots=True)
class Announcement:
    """One announcement: where it starts, where its content starts, how it links, what holds it, and what it says.

    negated      it says what is *not* so
    conditional  it holds under a condition, or of a part: it counts only where no other does
    content      a value or a letter once it is read, up to `end` then; None: several, or no option
    """

    start: int
    end: int
    link: Link = "is"
    negated: bool = False
    conditional: bool = False
    content: str | None = None


def holding(text: str, announced: Iterable[Announcement]) -> Announcement | None:
    """Of what is announced, last first, what nothing behind it denies: the last unconditional one, else the last.

    None where the text takes back the last of all and announces nothing more.
    """
    denied, spare = set[str | None](), None
    for n, one in enumerate(announced):
        if not n and _RETRACTS.search(text, one.end, one.end + 2 * SOON):
            return None
        if one.negated:
            denied.add(one.content)
        elif one.content is None or one.content not in denied:
            if not one.conditional:
                return one
            spare = spare or one
    return spare


def box_is_taken_back(text: str, end: int) -> bool:
    """Whether what follows a box that ends at `end` takes it back."""
    return _RETRACTS_BOX.search(text, end, end + 2 * SOON) is not None


def lowered(text: str) -> str:
    """`text` in lower case, place for place."""
    return (text.replace("İ", "I") if "İ" in text else text).lower()


@cache
def _ascii(stems: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(filter(str.isascii, stems))


def descending(
    low: str, stems: tuple[str, ...], tries: int, start: int = 0, end: int | None = None
) -> Iterator[tuple[int, str]]:
    """The last `tries` places from `start` on and before `end` where one of `stems` stands in `low`, last first."""
    part = low[start:] if end is None else low[start : end + LONGEST]
    stems = _ascii(stems) if part.isascii() else stems
    places = {stem: at for stem in stems if (at := part.rfind(stem)) >= 0}
    size = len(part) if end is None else end - start
    while places and tries:
        stem = max(places, key=places.__getitem__)
        at = places[stem]
        if at < size:
            yield start + at, stem
            tries -= 1
        before = part.rfind(stem, 0, at)
        if before < 0:
            del places[stem]
        else:
            places[stem] = before


def announcements(text: str, low: str, start: int = 0, end: int | None = None) -> Iterator[Announcement]:
    """The announcements of `text` that begin from `start` on and before `end`, last first; `low` is `lowered(text)`."""
    for at, stem in descending(low, _ALL_STEMS, TRIES, start, end):
        if stem in _TAIL:
            if (one := _word(low, at, stem)) is not None:
                yield one
            continue
        link, tail = _MARKS[stem]
        if match := tail.match(low, at + len(stem), at + 400):
            yield Announcement(at, match.end(), link)
    if not start and (match := _FIRST_LINE.match(low, 0, 400)):
        yield Announcement(0, match.end(), "line")


def _word(low: str, at: int, stem: str) -> Announcement | None:
    if at and low[at - 1].isalpha() and (stem.isascii() or stem == "답"):
        return None
    match = _TAIL[stem].match(low, at + len(stem), at + len(stem) + 400)
    before = low[max(0, at - 48) : at]
    if match is None or _NOT_SAID.search(before):
        return None
    link = _link(low, at, before, match.lastgroup or "")
    if link is None:
        return None
    conditional = _CONDITION.search(low, max(0, at - 120), at) is not None
    return Announcement(at, match.end(), link, match.lastgroup == "neg", conditional)


def _link(low: str, at: int, before: str, led: str) -> Link | None:
    """What links the word at `at`, which `led` to its content; None where the place says that it announces nothing."""
    link: Link | None = None
    line = low[low.rfind("\n", max(0, at - 200), at) + 1 : at]
    if led in {"neg", "is", "of", "next"} or (led in {"bare", "alone"} and before.endswith("[")):
        link = "is"
    elif led == "colon":
        link = "colon"
    elif led == "equals":
        code = low.count("```", 0, at) % 2 or low[max(0, at - 5) : at] in {"\n    ", "\n\t"}
        link = None if code else "equals"  # an assignment in code is no announcement
    elif led == "cell":
        link = "cell" if "|" in line else None
    elif led != "bare" and (_HEAD.fullmatch(line) or (led == "dot" and before.endswith("**"))):
        link = "is" if led == "alone" else "heading"
    return link
