"""The words with which a text announces its final answer ("The answer is", "Answer:", "答案是", "####").

Scanned from the end, so that the last announcement comes first. Every scan is a `rfind` or a match with possessive
quantifiers at one place, and the number of places tried is bounded: time is linear in the text, whatever it holds.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache
from typing import TYPE_CHECKING, Literal, NamedTuple

from ..._pattern import pattern
from ..languages import JOINED, LANGUAGES, VERB_LAST, alternatives, english, every

if TYPE_CHECKING:
    import re
    from collections.abc import Iterable, Iterator, Mapping

Link = Literal["is", "colon", "equals", "heading", "cell", "hash", "line", "option"]
READ = 400  # characters behind a word in which it is linked
TRIES = 48
NEAR = 500  # characters at the end in which the last announcement mostly stands: searched before the rest
LONGEST = 16  # no stem is longer
WORD, ANYWHERE = pattern(r"(?<![^\W\d_])\Z"), pattern(r"\Z")


class Tail(NamedTuple):
    """What must stand behind words that announce, and in the characters `near` before them."""

    after: re.Pattern[str]
    before: re.Pattern[str]
    near: int = 24


_EN = (
    r"(?:s|e?d)?+(?![a-z])(?:\s(?:choice|option|letter)(?![a-z]))?+"
    r"[\"'*_`}\])]{0,6}+(?:[^\S\n]*+\((?![A-Za-z]\))[^()\n]{0,60}\))?+"
    r"(?:,(?!\s*+[-−$\\(\d])[^.\n:]{0,60}?,|\s(?:to|for|of|in|as|after|from|we|i|that|you|here|value|rounded"
    r"|when|based)(?![a-z])[^.:\n?!]{0,100}?(?=\s(?:is|are|equals)\s|\s*[:：]))?"
    r"(?:[^\S\n]*+\**+[^\S\n]*+(?P<colon>[:：]|[-=]>|→)|(?P<dot>\.\**+[^\S\n]++(?=\S))|(?P<dash>[^\S\n]++[-–—][^\S\n]++)"
    r"|\s++(?P<neg>(?:can(?:no|')t|could(?:n't| not)|would(?:n't| not)|should(?:n't| not)) be|(?:is|are"
    r"|was)(?:n['’]t| not))(?![a-z])"
    r"|\s++(?P<is>(?:is|are|was|will be|would be|would then be|should be|must be|has to be|equals?"
    r"|comes out to(?: be)?|can be (?:written|expressed) as|turns out to be|becomes)(?![a-z'’])\s*+:?+)"
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
# `A: 26` on a line of its own, unless it is the first of a list of options.
_LINE = Tail(
    pattern(r"(?:(?<=:)|(?:\*\*)?:)(?:\*\*)?[^\S\n]++(?![^\n]*+\n\s*+(?:\*\*)?b(?:\*\*)?[:.)])(?P<line>)"), ANYWHERE
)
_ANSWERS = (
    {stem: Tail(pattern(_tail(stem)), WORD if stem.isascii() or stem == "답" else ANYWHERE) for stem in _STEMS}
    | {stem: Tail(pattern(tail), WORD if stem.isascii() else ANYWHERE) for stem, tail in _ENGLISH.items()}
    # GSM8K's `#### 42`; a Markdown heading of the fourth level looks the same and is sorted out by its content.
    | {"####": Tail(pattern(r"(?!#)[^\S\n]*+(?P<hash>)"), pattern(r"(?:\A|[\n ])\Z")), "\na:": _LINE, "\n**a": _LINE}
)
_LINKS: dict[str, Link] = {"neg": "is", "is": "is", "of": "is", "next": "is"}
_LINKS |= {"colon": "colon", "hash": "hash", "line": "line"}
_THE = r"(?:(?:that|the|my|this|our|final|correct|right)\s++){0,4}+"
# Who is not sure, who cites others, and who says how to answer: `e.g., "answer": "C"`, "Reply with "The answer is".
_NOT_SAID = pattern(
    rf"(?:(?<![a-z])(?:(?:{english('unsure')})\s++{_THE}|(?:{english('of others')})[^\S\n]++)"
    r"|(?:\be\.g\.,?|\bfor example,?|\bsuch as|\b(?:format|form|output|response|reply)\s(?:should|must) be"
    r"|\b(?:end|finish|reply|respond|conclude)\s(?:(?:your|my|the|this)\s)?(?:\w+\s)?with)[:\s]*[\"“'`]{1,2}"
    rf"{_THE}|\baccording to (?:the|my|your|a) \w{{3,12}},? {_THE}"
    r"|\b(?:many|some|most|people|students|others)\b[^.\n]{0,24}\b(?:think|say|believe|guess|assume|argue)\s"
    rf"{_THE})\Z"
)
_HEAD = pattern(
    r"(?:[\s#*_>\-=|]|\d++[.)]|step\s++\d++[:.]?+|\\(?:textbf|text|boldsymbol|mathbf|section|subsection)\*?\{"
    r"|\\\["
    rf"|(?:my|short|exact|numerical|{alternatives('article', 'correct', 'so')})[\s,_]*+|【|「)*+"
)
# What holds under a condition, "if x were 2", or of a part, in brackets.
_CONDITION = pattern(
    r"(?:\A|[.!?:\n(]\s*+)(?:(?:note|if|unless|without|suppose|supposing|assuming|had|were|under|for)\s(?![^\n]*\bthen\b)"
    r"[^.!?\n]{1,80}?,?\s|(?<=\())(?:the|our|my)\s(?:final\s|correct\s)?\Z"
)


@dataclass(frozen=True, slots=True)
class Announcement:
    """One announcement: where it starts, where its content starts, how it links, what holds it.

    negated      it says what is *not* so
    conditional  it holds under a condition, or of a part: it counts only where no other does
    """

    start: int
    end: int
    link: Link
    negated: bool = False
    conditional: bool = False


@dataclass(frozen=True, slots=True)
class Phrase:
    """What an announcement says, None for several options or one that is none; `denied`: that this is not the answer.

    `start` and `end` are its places in the text, where somebody asks for them.
    """

    content: str | None
    denied: bool = False
    conditional: bool = False
    start: int = 0
    end: int = 0


def holding(said: Iterable[Phrase]) -> Phrase | None:
    """Of what announcements say, last first, the last that nothing takes back, and no conditional one if another is."""
    denied, spare = set[str | None](), None
    for phrase in said:
        if phrase.denied:
            denied.add(phrase.content)
        elif phrase.content is None or phrase.content not in denied:
            if not phrase.conditional:
                return phrase
            spare = spare or phrase
    return spare


def lowered(text: str) -> str:
    """`text` in lower case, place for place."""
    return (text.replace("İ", "I") if "İ" in text else text).lower()


def descending(
    low: str, stems: tuple[str, ...], tries: int, start: int = 0, end: int | None = None
) -> Iterator[tuple[int, str]]:
    """The last `tries` places from `start` on and before `end` where one of `stems` stands in `low`, last first."""
    if low.isascii():
        stems = _ascii(stems)
    part = low[start:] if end is None else low[start : end + LONGEST]
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


@cache
def _ascii(stems: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(stem for stem in stems if stem.isascii())


def announcements(
    low: str, start: int = 0, end: int | None = None, tails: Mapping[str, Tail] = _ANSWERS
) -> Iterator[Announcement]:
    """The announcements from `start` on and before `end`, last first; `low` is the text, `lowered`.

    `tails`: of other words than those for an answer.
    """
    for at, stem in descending(low, tuple(tails), TRIES, start, end):
        if (found := _announcement(low, at, stem, tails[stem])) is not None:
            yield found
    if not start and tails is _ANSWERS and low.startswith(("a:", "**a")):
        first = _announcement("\n" + low[:READ], 0, "\na:" if low[0] == "a" else "\n**a", _LINE)
        if first is not None:
            yield replace(first, end=first.end - 1)


def _announcement(low: str, at: int, stem: str, tail: Tail) -> Announcement | None:
    match = tail.after.match(low, at + len(stem), at + len(stem) + READ)
    if (
        match is None
        or not tail.before.search(low, max(0, at - tail.near), at)
        or _NOT_SAID.search(low[max(0, at - 48) : at])
    ):
        return None
    link = _link(low, at, match.lastgroup)
    conditional = link is not None and _CONDITION.search(low, max(0, at - 120), at) is not None
    return None if link is None else Announcement(at, match.end(), link, match.lastgroup == "neg", conditional)


def _link(low: str, at: int, name: str | None) -> Link | None:
    """What links the word at `at` to its content; None where the place says that it announces nothing."""
    if name is None or name in _LINKS:
        return _LINKS[name] if name else "option"
    if name == "equals":
        code = low.count("```", 0, at) % 2 or low[max(0, at - 5) : at] in {"\n    ", "\n\t"}
        return None if code else "equals"  # an assignment in code is no announcement
    if name in {"bare", "alone"} and low[max(0, at - 1) : at] == "[":
        return "is"
    line = low[low.rfind("\n", max(0, at - 200), at) + 1 : at]
    if name == "cell":
        return "cell" if "|" in line else None
    if name == "bare" or not (_HEAD.fullmatch(line) or (name == "dot" and line.endswith("**"))):
        return None
    return "is" if name == "alone" else "heading"
