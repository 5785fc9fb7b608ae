"""What an announcement announces: a maths span, a number or expression, or the words to the end of sentence or line."""

from __future__ import annotations

import re
from dataclasses import replace

from ..._pattern import pattern
from ..languages import alternatives, english, every, pointed
from ..literal_values import leading_literal, literal_value
from ..markup import undecorated
from ..number_words import told
from .announcements import Announcement
from .fields import is_placeholder
from .prose_values import COPULA, UNREAD, last_side, plain_content, tail_link, unit_after
from .statements import conclusion_of, items, of_several, said_in_words
from .values import ABBREVIATION, PLAIN, Span, display, sentence, spans

WINDOW = 2_000  # characters of content that are read
_DRESS = pattern(
    r"(?:\s|={3,}|-{3,}|</?(?:b|strong|em|i|u|p|br|span|h[1-6])\s?/?>|[*_`\"“”«»'#:：✅✔→👉\ufe0f]|\\(?:textbf|text|boldsymbol|mathbf)\{(?!\\))*+"
)
_BULLET = pattern(r"(?:[-*•>]|1\.)[^\S\n]++")
_FILLER = pattern(
    rf"(?i)(?:(?:{alternatives('adverb', 'so', 'option')})\.?|(?:{alternatives('is')})(?=\s*+[-−$\\(\d*])"
    r"|given by|equal to|equals|that|≈|~|=|:|：|,|an?(?=\s\d)"
    r"|a total of|the (?:number|value|integer|fraction)(?=\s[-\d$\\]))(?![^\W\d_])\s*+"
)
_NOT = pattern(rf"(?:definitely |certainly |simply )?(?:no longer\b|{alternatives('not')})\s*+", re.IGNORECASE)
_NOT_SO = pattern(r"(?:defined|possible|real|a real|enough|finite|solvable)", re.IGNORECASE)
_INSTEAD = pattern(
    rf"(?i)(?:[\s,;](?:but rather|{alternatives('but')})|[,;.:—–]\s*(?:it is|it's|rather|instead))\s+(?=[-−($\\\d*])"
)
# "The answer is **Lima**, the capital of Peru": the dress before it is off already.
_BOLD_FIRST = pattern(r"([^*\n]++)\*\*(?:\s?[,(]|\s[–—-]\s|\s(?:because|since|which|who|as|for|due)\b)")
# By far the most common content, a number and nothing else on its line: what the long way would find too.
_NUMBER = pattern(r" ?(-?\d++(?:\.\d++)?)\.?[^\S\n]*+(?=\n|\Z)")
_CRY = pattern(r"(\d{1,2}!)\.")  # 5!. is a factorial, "42!" a cry
_FOLLOWS = pattern(r"(?:as follows|the following|given below|simply|therefore|thus)\s*:?\s+", re.IGNORECASE)
_BOX = pattern(r"\\boxed\s*+\{(.{0,60})\}", re.DOTALL)
_FIELD = pattern(r"(?:\\*boxed)?\{+[A-Za-z_]\w++(?:[.:\[(][^{}]{0,40})?\}+[\"')]*+\Z")  # of a template, in code
_VALUE = pattern(r"[-−+($\\\d]|[a-z]\b")
_LEFT_SIDE = pattern(r"[^\W\d_]\s*=|[-−+]|\w\s*\\?in")
_NAME = pattern(r"[A-Za-z]")
_EQUALS = pattern(r"\s*+=\s*+")
_JOINTS = frozenset({",", ", and", ", or", "、", *every("or")})
_REPEATING = pattern(r"[-−]?\d*+\.\d{2,}+(?:\.\.\.|…)(?!\w)")
_ABOUT = pattern(r"\b(?:form|(?:in terms|a multiple|a function|independent) of|divisible by|depend(?:s|ent) on)\Z")
# "Final answer. The area is" before a displayed formula.
_LEADS = pattern(r"\b(?:is|are|equals|equal to)(?:\s(?:therefore|thus|then|given by))?\s*+:?[\s*]*+\Z")
_MODAL = pattern(r"(?:should|must|has to|would|will) be", re.IGNORECASE)
_CONSTRAINT = pattern(rf"(?i)(?:an?\s)?(?:non-?\w+|{english('kinds of value')})\b(?!\s[-\d$\\])|{english('bounds')}")
_WORDED = pattern(r"(?<!\\)[A-Za-z]{2}")
_SAYS = pattern(r"[^\W_]|[∅∞√]")


def math_phrase(text: str, announcement: Announcement) -> Announcement | None:
    """A `$…$` or `\\(…\\)` span, else an expression or number, else few words to the end of the sentence."""
    plain = announcement.link in {"is", "colon"} and not announcement.negated
    if plain and (number := _NUMBER.match(text, announcement.end)):
        return replace(announcement, content=number[1])
    said = _math_words(text, announcement)
    if said is None or said.content is None:
        return said
    lead = text[announcement.start : announcement.end]
    content = told(pointed(said.content, lead), lead)
    return None if content == "null" and not said.negated else replace(said, content=content)  # of code


def _math_words(text: str, announcement: Announcement) -> Announcement | None:
    body, fresh = _body(text, announcement)
    if not announcement.negated and (repeating := _REPEATING.match(body)):
        return replace(announcement, content=repeating[0])
    if cry := _CRY.match(body):
        return replace(announcement, content=cry[1])
    if body.startswith(("['", '["')) and isinstance(strings := literal_value(leading_literal(body) or ""), list):
        return replace(announcement, content=", ".join(map(str, strings)))
    if body.startswith(("\\[", "$$", "\\begin{")):
        shown = display(body)
        return replace(announcement, content=last_side(shown), negated=False) if shown else None
    if fresh and (listed := _items(text, announcement)) is not None:
        return replace(announcement, content=listed)
    line = _line(body, announcement)
    found = spans(line)
    said, asked = sentence(line, found)
    if asked:
        return None
    after = body[len(line) :].lstrip()
    shows = not found and announcement.link != "cell" and after.startswith(("\\[", "$$")) and _LEADS.search(line)
    if shows and (shown := display(after)):
        return replace(announcement, content=last_side(shown), negated=False)
    start = _fillers(said)
    modal = announcement.link == "is" and _MODAL.search(text[announcement.start : announcement.end])
    if modal and _CONSTRAINT.match(said, start):
        return None  # "the answer must be even" says only what it is like
    return _from_sentence(text, announcement, line, start, fresh=fresh, alone=not _SAYS.search(body, len(said)))


def _items(text: str, announcement: Announcement) -> str | None:
    """The values of a list below an announcement."""
    lines = text[announcement.end : announcement.end + WINDOW].strip(" \t\n:*_").split("\n")
    end = next((i for i, line in enumerate(lines) if not line.strip()), len(lines))
    return items(lines[:end]) if end > 1 else None


def _from_sentence(
    text: str, announcement: Announcement, line: str, start: int, *, fresh: bool, alone: bool
) -> Announcement | None:
    """What the sentence that opens `line` announces or denies from `start` on."""
    found = spans(line)
    said, denied = sentence(line, found)[0], announcement.negated
    if announcement.link == "is" and (no := _NOT.match(said, start)) and _VALUE.match(said, no.end()):
        denied, start = True, no.end()
    if denied and _NOT_SO.match(said, start):
        word = "cannot be " if "can" in text[announcement.start : announcement.end].lower() else "not "
        # "is not defined" denies nothing
        return replace(announcement, content=word + said[start:].strip(), negated=False)
    content = _span_content(said, start, found)
    if content is None:
        content = conclusion_of(line[start:]) if _WORDED.match(said, start) else None
        content = content or _plain(said[start:], announcement, fresh=fresh, alone=alone)
        if content == UNREAD:
            return replace(announcement, content=UNREAD, negated=denied)
    if not content or _is_empty(content) or is_placeholder(content) or _FIELD.match(content):
        return None
    whole = len(content) >= len(line.strip(" .*$")) - 8 and re.match(r"\d+\.\s+\S", line) is None
    if announcement.link == "hash" and not whole and not _is_last(text, announcement):
        return None  # a heading, where GSM8K's last line is its result and nothing else
    if denied and (instead := _INSTEAD.search(line, start, start + 80)) is not None:
        said = sentence(line[instead.end() :], [])[0]
        content = _span_content(said, 0, spans(said)) or plain_content(said) or content
        denied = False
    return replace(announcement, content=content, negated=denied)


def _plain(said: str, announcement: Announcement, *, fresh: bool, alone: bool) -> str | None:
    """What a sentence in plain characters says: of several values the one that it states, else what it begins with."""
    strict = announcement.link in {"equals", "hash", "line"}
    worded = not strict and _WORDED.search(said) is not None
    content = (of_several(said) if worded else None) or plain_content(said, strict=strict)
    return said_in_words(said, fresh=fresh, alone=alone) if content is None and not strict else content


def text_phrase(text: str, announcement: Announcement) -> str | None:
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
    line = COPULA.sub("", undecorated(line.strip()).rstrip("。।")).strip().strip('*_`"“”«»').strip()
    line = line.replace("**", "", 1) if line.count("**") % 2 else line
    if line.endswith(".") and not line.endswith("..") and not ABBREVIATION.search(line[:-1]):
        line = line[:-1].rstrip().rstrip('*_`"”»').rstrip()
    if len(found) == 1 and line.startswith(("$", "\\(")) and line.endswith(("$", "\\)")):
        line = found[0][2]
    return None if (announcement.link == "heading" and line.endswith(":")) or not _SAYS.search(line) else line


def exact_phrase(text: str, announcement: Announcement) -> str | None:
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
    return line or None


def _line(body: str, announcement: Announcement) -> str:
    line = body.partition("\n")[0]
    unopened = line.count("\\[") + line.count("\\(") < line.count("\\]") + line.count("\\)")
    if unopened and line.rstrip().endswith(("\\]", "\\)")):
        line = line.rstrip()[:-2]  # \[Answer: 68\]
    return line.partition("|")[0] if announcement.link == "cell" else line


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


def _span_content(said: str, start: int, found: list[Span]) -> str | None:
    """The span at the start, or the one that the words lead to; spans joined by "and" are a list."""
    inside = [span for span in found if start <= span[0] < len(said) and not _is_empty(span[2])]
    if not inside:
        return None
    first, lead = inside[0], said[start : inside[0][0]].strip(" *_`\"'([")
    if lead:
        if _LEFT_SIDE.fullmatch(lead):
            return f"{lead} {first[2]}" if lead.endswith("=") else lead + first[2]
        if PLAIN.match(lead) or _ABOUT.search(lead):
            return None
        linked = 0 <= tail_link(said[: first[0]], start) == first[0]
        if _NAME.fullmatch(first[2]) and not linked and not _EQUALS.match(said, first[1]):
            return None  # "The largest $n$ is 34": the value comes later
        link = tail_link(said, start)
        first = next((span for span in inside if 0 <= link <= span[0]), first)
    parts, end = [first[2]], first[1]
    for here, stop, content in inside[inside.index(first) + 1 :]:
        if said[end:here].strip().lower() not in _JOINTS:
            break
        parts.append(content)
        end = stop
    if len(parts) > 1:
        return ", ".join(parts)
    if _NAME.fullmatch(parts[0]) and (equals := _EQUALS.match(said, end)):
        value = plain_content(said[equals.end() :])
        return f"{parts[0]} = {value}" if value else parts[0]
    content = last_side(parts[0])
    unit = unit_after(said[end:]) if any(c.isdigit() for c in content) else ""
    return f"{content} {unit}" if unit else content


def _is_empty(content: str) -> bool:
    """Whether a maths span is a box with nothing in it, `\\boxed{}` or `\\boxed{?}`."""
    box = _BOX.fullmatch(content)
    return box is not None and is_placeholder(box[1].strip())


def _is_last(text: str, announcement: Announcement) -> bool:
    line_end = text.find("\n", announcement.end)
    return line_end < 0 or not text[line_end : line_end + WINDOW].strip()
