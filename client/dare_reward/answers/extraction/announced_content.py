"""What an announcement announces: a maths span, a number or expression, or the words to the end of sentence or line."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from ..._pattern import pattern
from ..languages import alternatives, english
from ..markup import undecorated
from .announcements import Phrase
from .fields import is_placeholder
from .lines import ABBREVIATION, display, sentence, spans
from .prose_values import COPULA, UNREAD, last_side, plain_content
from .statements import conclusion, items

if TYPE_CHECKING:
    from .announcements import Announcement

WINDOW = 2_000  # characters of content that are read
_DRESS = pattern(
    r"(?:\s|={3,}|-{3,}|</?(?:b|strong|em|i|u|p|br|span|h[1-6])\s?/?>|[*_`\"“”«»'#:：✅✔→👉\ufe0f]|\\(?:textbf|text|boldsymbol|mathbf)\{(?!\\))*+"
)
_BULLET = pattern(r"(?:[-*•>]|1\.)[^\S\n]++")
_FILLER = pattern(
    rf"(?:(?:{alternatives('adverb', 'so', 'option')})\.?|(?:{alternatives('is')})(?=\s*+[-−$\\(\d*])"
    r"|given by|equal to|equals|that|≈|~|=|:|：|,|an?(?=\s\d)"
    r"|a total of|the (?:number|value|integer|fraction)(?=\s[-\d$\\]))(?![^\W\d_])\s*+",
    re.IGNORECASE,
)
_NOT = pattern(rf"(?:definitely |certainly |simply )?(?:no longer\b|{alternatives('not')})\s*+", re.IGNORECASE)
_NOT_SO = pattern(r"(?:defined|possible|real|a real|enough|determin|finite|solvable)", re.IGNORECASE)
_INSTEAD = pattern(
    rf"(?:[\s,;](?:but rather|{alternatives('but')})|[,;.:—–]\s*(?:it is|it's|rather|instead))\s+(?=[-−($\\\d*])",
    re.IGNORECASE,
)
# "The answer is **Lima**, the capital of Peru": the dress before it is off already.
_BOLD_FIRST = pattern(r"([^*\n]++)\*\*(?:\s?[,(]|\s[–—-]\s|\s(?:because|since|which|who|as|for|due)\b)")
# By far the most common content, a number and nothing else on its line: what the long way would find too.
_NUMBER = pattern(r" ?(-?\d++(?:\.\d++)?)\.?[^\S\n]*+(?=\n|\Z)")
_FOLLOWS = pattern(r"(?:as follows|the following|given below|simply|therefore|thus)\s*:?\s+", re.IGNORECASE)
_VALUE = pattern(r"[-−+($\\\d]|[a-z]\b")
_REPEATING = pattern(r"[-−]?\d*+\.\d{2,}+(?:\.\.\.|…)(?!\w)")
_OF_FORM = pattern(r"(?:of|in) the form\b")
_DISPLAYS = ("\\[", "$$", "\\begin{")
_MODAL = pattern(r"(?:should|must|has to|would|will) be", re.IGNORECASE)
_CONSTRAINT = pattern(
    rf"(?:an?\s)?(?:non-?\w+|{english('kinds of value')})\b(?!\s[-\d$\\])|{english('bounds')}", re.IGNORECASE
)
_SAYS = pattern(r"[^\W_]|[∅∞√]")


def math_phrase(text: str, announcement: Announcement) -> Phrase | None:
    """A `$…$` or `\\(…\\)` span, else an expression or number, else few words to the end of the sentence."""
    link, denied = announcement.link, announcement.negated
    if link in {"is", "colon"} and not denied and (number := _NUMBER.match(text, announcement.end)):
        return Phrase(number[1])
    body, fresh = _body(text, announcement)
    if repeating := _REPEATING.match(body):
        return Phrase(repeating[0])
    if body.startswith(_DISPLAYS):
        return Phrase(last_side(shown)) if (shown := display(body)) else None
    if fresh and (listed := _items(text, announcement)) is not None:
        return Phrase(listed, denied)
    line = _line(body, announcement)
    found = spans(line)
    said, asked = sentence(line, found)
    below = body[len(line) :].lstrip()
    if not found and link != "cell" and below.startswith(_DISPLAYS) and (shown := display(below)):
        return Phrase(last_side(shown))
    start = _fillers(said)
    if asked or _is_form(text, announcement, said, start):
        return None
    return _from_sentence(text, announcement, line, start, alone=not _SAYS.search(body, len(said)))


def _items(text: str, announcement: Announcement) -> str | None:
    """The values of a list below an announcement."""
    lines = text[announcement.end : announcement.end + WINDOW].strip(" \t\n:*_").split("\n")
    end = next((i for i, line in enumerate(lines) if not line.strip()), len(lines))
    return items(lines[:end]) if end > 1 else None


def _is_form(text: str, announcement: Announcement, said: str, start: int) -> bool:
    """Whether "the answer must be even" says only what it is like, or "is of the form" what it looks like."""
    must = announcement.link == "is" and _MODAL.search(text, announcement.start, announcement.end)
    return _OF_FORM.match(said, start) is not None or bool(must and _CONSTRAINT.match(said, start))


def _from_sentence(text: str, announcement: Announcement, line: str, start: int, *, alone: bool) -> Phrase | None:
    """What the sentence that opens `line` announces or denies from `start` on."""
    said, denied = sentence(line, spans(line))[0], announcement.negated
    if announcement.link == "is" and (no := _NOT.match(said, start)) and _VALUE.match(said, no.end()):
        denied, start = True, no.end()
    if denied and _NOT_SO.match(said, start):
        can = "can" in text[announcement.start : announcement.end].lower()
        return Phrase(("cannot be " if can else "not ") + said[start:].strip())  # "is not defined" denies nothing
    content = conclusion(line[start:], strict=announcement.link in {"equals", "hash", "line"}, alone=alone)
    if content is None or (content != UNREAD and is_placeholder(content)):
        return None
    if announcement.link == "hash" and not (
        len(content) >= len(line.strip(" .*$")) - 8 or _is_last(text, announcement)
    ):
        return None  # a Markdown heading
    if denied and (instead := _INSTEAD.search(line, start, start + 80)) is not None:
        content = plain_content(sentence(line[instead.end() :], [])[0]) or content
        denied = False
    return Phrase(content, denied)


def text_phrase(text: str, announcement: Announcement) -> Phrase | None:
    """The line after a colon, the sentence after "is", without markup around it."""
    if announcement.link == "equals" or (announcement.link == "hash" and not _is_last(text, announcement)):
        return None
    body, _ = _body(text, announcement)
    line = _line(body, announcement)
    found = spans(line)
    if announcement.link == "is":
        said, asked = sentence(line, found)
        if asked:
            return None
        line = _FOLLOWS.sub("", said.strip(), count=1) if _FOLLOWS.match(said.strip()) else said
    if line.count("**") % 2 and (bold := _BOLD_FIRST.match(line)):
        line = bold[1]
    line = _undressed(COPULA.sub("", undecorated(line.strip()).rstrip("。।")))
    if line.endswith(".") and not line.endswith("..") and not ABBREVIATION.search(line[:-1]):
        line = line[:-1].rstrip().rstrip('*_`"”»').rstrip()
    if len(found) == 1 and line.startswith(("$", "\\(")) and line.endswith(("$", "\\)")):
        line = found[0][2]
    if (announcement.link == "heading" and line.endswith(":")) or not _SAYS.search(line):
        return None
    return Phrase(line, announcement.negated)


def exact_phrase(text: str, announcement: Announcement) -> Phrase | None:
    """The rest of the line, or the next line, code point for code point, except blanks around it."""
    if announcement.link == "equals" or (announcement.link == "hash" and not _is_last(text, announcement)):
        return None
    rest = text[announcement.end : announcement.end + WINDOW]
    dressed = re.match(r"[*_`]{1,3}+(?=\s)", rest)
    if dressed:
        rest = rest[dressed.end() :]
    line = _line(rest.lstrip(), announcement).strip()
    if line.endswith("**") and line.count("**") % 2:
        line = line[:-2].rstrip()  # the label's: **Answer: foo**
    return Phrase(line, announcement.negated) if line else None


def _line(body: str, announcement: Announcement) -> str:
    line = body.partition("\n")[0]
    return line.partition("|")[0] if announcement.link == "cell" else line


def _undressed(line: str) -> str:
    line = line.strip().strip('*_`"“”«»').strip()
    return line.replace("**", "", 1) if line.count("**") % 2 else line


def _body(text: str, announcement: Announcement) -> tuple[str, bool]:
    """The content's text without dress before it, and whether it starts on a new line."""
    rest = text[announcement.end : announcement.end + WINDOW]
    at = rest.index("}") + 1 if rest.lstrip().startswith("}") else 0  # \\textbf{Answer:} 42
    dress = _DRESS.match(rest, at)
    assert dress is not None
    fresh, at = "\n" in dress[0], dress.end()
    if fresh and (bullet := _BULLET.match(rest, at)):
        dress = _DRESS.match(rest, bullet.end())
        assert dress is not None
        at = dress.end()
    return rest[at:], fresh


def _fillers(said: str) -> int:
    """Where the words end that lead over to the content: "approximately", "therefore"."""
    at = 0
    for _ in range(4):
        while at < len(said) and said[at] in " \t*_:：":
            at += 1
        filler = _FILLER.match(said, at)
        if filler is None:
            break
        at = filler.end()
    return at


def _is_last(text: str, announcement: Announcement) -> bool:
    line_end = text.find("\n", announcement.end)
    return line_end < 0 or not text[line_end : line_end + WINDOW].strip()
