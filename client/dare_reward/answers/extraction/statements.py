r"""The one value that a sentence states: "Each of the 10 guests had 18 cookies" says 18.

Of the numbers and formulas in the sentence, the first of these rules that leaves exactly one names the value; where
none does, the sentence states no single value, and nothing is guessed:

1. what stands in bold;
2. the last side of the last equation;
3. what follows "is", "are", "was", "were" or "be";
4. what is left without the numbers that only say when, with what or of which: behind a preposition ("in 40 seconds"),
   behind "the", "his", "remaining" (known before: "the 10 guests"), in brackets, or right behind another number.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from ..._pattern import pattern
from ..languages import english
from ..markup import undecorated
from ..number_words import spoken_runs
from .lines import spans
from .prose_values import COPULA, NUMBER, TAIL_JUNK, WORDS, last_side, plain_content, unit_after

LONGEST = 600  # characters of a sentence that is read
MOST = 12  # values in it

_EXPLAINS = pattern(
    rf"(?:{english('explains')}|an? (?:integer|number|whole|fraction|multiple|positive|negative|single|real|rational"
    r"|decimal|prime|list)\b|at (?!least|most)"
    r"|(?:[a-z]{2,}ed|hidden|shown|given|known|taken|chosen|drawn) (?:by|in|from|with|using|through|via|on|if)\b)",
    re.IGNORECASE,
)
_REAL = pattern(
    r"there (?:is|are|exists?) no\b|it (?:is|can(?:no|')t)|there does|no\b|none\b|cannot|can't|undefined|not\b"
    r"|impossible",
    re.IGNORECASE,
)
_CLAUSES = pattern(
    r",?\s(?:since|because|as|so that|due to|given that|where|which(?!\s(?:is|are|equals|gives))|i\.e)\b"
    r"|,\s(?:so|not|and so|but|it|they|that)\b"
)
_VERDICT = pattern(r"(?:yes|no|true|false)(?=[,:;])", re.IGNORECASE)
_SUBJECT = pattern(
    r"(?:she|he|it|they|there|this|each)\b(?!.*\bto (?:find|get|solve|determine|compute)\b)", re.IGNORECASE
)
_CUT_OFF = pattern(r"[\s*_]*+(?:\\[(\[a-z]|\$(?![\d.]))")  # a formula that never closes
_WHO = pattern(r",\s(?:it|they)\Z")  # "Together, they found 665"
_DOLLARS = pattern(r"(?<!\\)\$(?!\d)")  # of formulas, not of money
_RESULT = pattern(r"=[\s$\\(*]*[-−]?\d[\d.,]*%?(?:\s(?!and\b|then\b|so\b|which\b|but\b)[^\W\d_]+){0,3}\s*\Z")
_WORDED = pattern(r"[^\W\d_]{3,}")
_ENDS = (".", "!", "**", "$", "\\)", "∎")
_SENTENCES = pattern(r"(?<=[.!?])\s+(?=[A-Z$\\*])")
_HEDGES = pattern(rf"\b(?:{english('hedges')})|:$", re.IGNORECASE)
_STEP = pattern(r"(?:[-*•]\s+|\(?\d{1,2}[.)]\s+|step\s\d{1,2}\s*[:.]\s*)+", re.IGNORECASE)
_DENIES = pattern(
    r"[?？]|n['’]t\b|\b(?:not|never|cannot|neither|nor|let(?:['’]s|\sme|\sus)?|at least|at most|no more than"
    r"|to (?:find|determine|calculate|solve|compute|know)|error|incorrect|wrong|contradict\w*)\b",
    re.IGNORECASE,
)
_WHICH = pattern(r"\b(?:who|which|that)\b", re.IGNORECASE)  # "20 kids who are not allergic" denies nothing
_BRACKETS = pattern(r"\s\([^()]{0,80}\)")
_BOLD = pattern(r"\*\*\s*(?:\$|\\\()?\s*\Z")
_BOLD_END = pattern(r"[^*\d]{0,40}(?:\*\*|\Z)")
_SO = pattern(r"(?:\A|[\s,;.])(?:so|thus|hence|therefore|then)\b(?!\sthat),?\s", re.IGNORECASE)
_LINK = pattern(
    r"\b(?:is|are|was|were|be|been)\b[\s*]*+(?:(?:now|therefore|thus|then|equal to|approximately|about|exactly|only"
    r"|also"
    r"|a total of|an average of|at)\s)*+(?:US)?[-\\$€£¥*\s(]*\Z",
    re.IGNORECASE,
)
_BESIDE = pattern(
    r"\b(?:in|with|by|for|after|before|every|from|on|at|per|than|during|over|within|until|since|under|when|while|if|unless|to"
    r"|of (?:the|his|her|its|their|my|our|each|these|those|all)|each of|the|his|her|its|their|these|those|this|that"
    r"|remaining|first|last|next|other|grade|step|chapter|page|day|week|year|number)\s(?:\w+ing\s|about\s|another\s|the"
    r"\s|his\s|her\s|their\s|all\s|only\s|just\s|remaining\s|first\s|other\s|same\s|initial\s|original\s|additional\s"
    r"|next\s|last\s|a\s|each\s){0,3}+[-\\$€£¥*(]*\Z",
    re.IGNORECASE,
)
_GIVEN = pattern(r"\b(?:given|with|since|where|let|if|as|because|from|when)\s\W*\Z", re.IGNORECASE)
_BY_DOING = pattern(
    r"\b(?:after|by|before|without|when|while|from)\s\w+ing\s(?:\w+\s){0,2}+[-\\$€£¥*(]*\Z", re.IGNORECASE
)
_CLAUSE = pattern(
    r"\b(?:after|because|since|so that|if|unless|when|while|where|who|that|which)"
    r"\s(?:\w+['’]?\w*\s){1,6}+[-\\$€£¥*(]*\Z",
    re.IGNORECASE,
)
_OF = pattern(r"\s?(?:(?!total|average|sum|profit)\w+\s){1,3}of\s[-\\$*(]*\Z")
_TO_DO = pattern(r"\bto\s\w+\s(?:the\s|his\s|her\s|their\s)?[-\\$*(]*\Z")
_AND = pattern(r"\band\s(?:\w+\s)?[-\\$*(]*\Z")
_JOINED = pattern(r"\b(?:and|plus|,)\s", re.IGNORECASE)
_NAME = pattern(r"\\?[A-Za-z](?:_\{?\w{1,3}\}?)?|[A-Z]{2,4}")
_COMMAND = pattern(r"\\[A-Za-z]+")
_LETTER = pattern(r"[A-Za-z]")


class _Value(NamedTuple):
    start: int
    end: int
    content: str


def said_in_words(sentence: str, *, fresh: bool, alone: bool) -> str | None:
    """What an announced sentence says: the value that it states, else its words, if they are few.

    `fresh`: it starts on a line of its own; `alone`: nothing follows it. What more follows may be an explanation, and
    its first sentence the start of it: "We first buy 12."
    """
    if len(sentence.split()) > 3 * WORDS or _CUT_OFF.match(sentence):
        return None
    if verdict := _VERDICT.match(sentence):
        return verdict[0]
    explains = _EXPLAINS.match(sentence) is not None and _REAL.match(sentence) is None
    _, colon, after = sentence.rpartition(": ")
    if explains and colon and (content := plain_content(after)) is not None:
        return content
    clause = None if explains else _CLAUSES.search(sentence)
    if clause and not _WHO.match(clause[0]):
        sentence = sentence[: clause.start()]
    if not explains or alone or (_SUBJECT.match(sentence) and not fresh):
        value = stated_value(sentence)
        if value is not None:
            return value
    content = COPULA.sub("", sentence.strip(TAIL_JUNK)).rstrip("}")
    if (
        explains
        or (content.startswith("(") and ")" not in content)
        or len(content.split()) > WORDS
        or (fresh and sentence.endswith(":"))
        or content in {"null", "TBD", "TBA", "N/A"}
    ):
        return None
    return content if any(c.isalnum() for c in content) else None


def concluding_value(text: str) -> str | None:
    """The one value of the last sentence of a text that announces none: "So, John spent $800 on ties."

    None where that sentence has no end, so that the text may have been cut off, or where it is not sure.
    """
    line = text.rstrip().rpartition("\n")[2].strip()
    if not line.endswith(_ENDS) and not (_WORDED.search(line) and _RESULT.search(line)):
        return None
    if len(_DOLLARS.findall(line)) % 2 or line.count("\\(") != line.count("\\)"):
        return None
    last = _SENTENCES.split(line)[-1]
    return None if _HEDGES.search(last) else stated_value(last.rstrip(". "))


def stated_value(sentence: str) -> str | None:
    """The one value that `sentence` states, with its unit; None where it states none or several."""
    said = undecorated(sentence.strip()).strip(" \t_>#")
    said = said[step.end() :] if (step := _STEP.match(said)) else said
    if not said or len(said) > LONGEST or _DENIES.search(_WHICH.split(said)[0]) or said.count("{") != said.count("}"):
        return None
    said = _concluding(said)
    values = _values(said)
    if not values or len(values) > MOST:
        return None
    chosen = _chosen(said, values)
    if chosen is None:
        return None
    content = _side(last_side(chosen.content))
    unit = unit_after(said[chosen.end :].lstrip("*")) if any(c.isdigit() for c in content) else ""
    return f"{content} {unit}" if unit else content


def _side(content: str) -> str:
    """The value of `k(-3) = 37`, which is no product; `x = 2` keeps its name."""
    left, equals, right = content.partition("=")
    return right.strip() if equals and "=" not in right and not _NAME.fullmatch(left.strip()) else content


def _concluding(said: str) -> str:
    """What follows the last "so" or "therefore", where that holds a value."""
    for word in reversed([*_SO.finditer(said)]):
        if _values(said[word.end() :]):
            return said[word.end() :]
    return said


def _chosen(said: str, values: list[_Value]) -> _Value | None:
    bold = [v for v in values if _BOLD.search(said, 0, v.start) and _BOLD_END.match(said, v.end)]
    if bold:
        return bold[0] if len({v.content for v in bold}) == 1 else None
    last = _BRACKETS.sub(lambda m: " " * len(m[0]), said).rfind("=")
    if last >= 0 and not any(v.start < last < v.end for v in values):
        after = [v for v in values if v.start > last]
        between = said[said.find("=") : last]
        clean = after and said[last + 1 : after[0].start].strip(" *$\\(≈US") == "" and not _JOINED.search(between)
        return after[0] if clean and (len(after) == 1 or _beside(said, values, after[1])) else None
    linked = [v for v in values if _LINK.search(said, 0, v.start)]
    if linked:
        return linked[0] if len({v.content for v in linked}) == 1 and not _several(said, values, linked[-1]) else None
    left = [v for v in values if not _beside(said, values, v)]
    if (
        not left
        and len(values) == 1
        and values[0].content[-1:].isdigit()
        and not _BY_DOING.search(said, 0, values[0].start)
    ):
        left = values  # "The bread will last for 4 days": the only number
    return left[0] if len(left) == 1 else None


def _several(said: str, values: list[_Value], value: _Value) -> bool:
    """Whether another value is joined to `value`: by "and", or by a comma with nothing else."""
    after = next((v for v in values if v.start > value.start), None)
    if after is None or _beside(said, values, after):
        return False
    return re.search(r"\b(?:and|or)\b|,\s*[-\\$*(]*\Z", said[value.end : after.start]) is not None


def _beside(said: str, values: list[_Value], value: _Value) -> bool:
    """Whether `value` only says when, with what or of which."""
    before = said[max(0, value.start - 80) : value.start]
    if "=" in value.content and _GIVEN.search(before):
        return True
    if _BESIDE.search(before) or _BY_DOING.search(before):
        return True
    earlier = [v for v in values if v.end <= value.start]
    if not earlier:
        return False
    between = said[earlier[-1].end : value.start]
    if not between.strip(" $*-\\(") or _OF.fullmatch(between) or _TO_DO.search(between):
        return True  # "2 5 dollar toys", "6 rows of 5 pies", "18 ounces to wash 9 pounds"
    if _AND.search(between) and _beside(said, values, earlier[-1]):
        return True  # "with 13 cookies and 41 more"
    return _CLAUSE.search(between) is not None


def _values(said: str) -> list[_Value]:
    """Numbers, number words and formulas with a value, in order; formulas that are names alone are none."""
    found = spans(said)
    hidden = [(m.start(), m.end()) for m in _BRACKETS.finditer(said)]
    values = [
        _Value(start, end, content)
        for start, end, content in found
        if content and not _NAME.fullmatch(content) and not _is_formula(content)
    ]
    covered = [(start, end) for start, end, _ in found] + hidden
    plain = [(m.start(), m.end(), m[0]) for m in NUMBER.finditer(said)]
    plain += spoken_runs(said)
    values += [_Value(*place) for place in plain if not any(a <= place[0] < b for a, b in covered)]
    return sorted(v for v in values if not any(a <= v.start < b for a, b in hidden))


def _is_formula(content: str) -> bool:
    """Whether a formula speaks of letters: `x + y`, `f(x) = 2x`. `x = 5` and `2\\pi` have values."""
    right = content.rpartition("=")[2]
    return _LETTER.search(_COMMAND.sub("", right).replace("e", "").replace("i", "")) is not None
