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
from collections.abc import Sequence

from ..._pattern import pattern
from ..languages import english
from ..markup import undecorated
from ..number_words import spoken_number
from .prose_values import COPULA, TAIL_JUNK, UNREAD, WORDS, last_side, plain_content, unit_after
from .values import LONGEST, Value, readable, spans, values

MOST = 12  # values in it
NEAR = 48  # characters before a value that say what it is to the sentence
_EXPLAINS = pattern(
    rf"(?i)(?:{english('explains')}|an? (?:integer|number|whole|fraction|multiple|positive|negative|single|real"
    r"|rational|decimal|prime|list)\b|at (?!least|most)"
    r"|(?:[a-z]{2,}ed|hidden|shown|given|known|taken|chosen|drawn) (?:by|in|from|with|using|through|via|on|if)\b)"
)
_REAL = pattern(english("is none"), re.IGNORECASE)
_LEADS = english("leads to a value")
_CLAUSES = pattern(
    r",?\s(?:since|because|as|so that|due to|given that|where|i\.e"
    rf"|which(?!\s(?:are\b|{_LEADS})))\b"
    r"|,\s(?:so|not|and so|but|it|they|that)\b"
)
_VERDICT = pattern(r"(?:yes|no|true|false)(?=[,:;])", re.IGNORECASE)
_SUBJECT = pattern(r"(?i)(?:she|he|it|they|there|this|each)\b(?!.*\bto (?:find|get|solve|determine|compute)\b)")
_CUT_OFF = pattern(r"[\s*_]*+(?:\\[(\[a-z]|\$(?![\d.]))")  # a formula that never closes
_WHO = pattern(r",\s(?:it|they)\Z")  # "Together, they found 665"
_REMARK = pattern(
    rf"(?i)(?:\W|(?:user|assistant|human|teacher|student)\s?:\s)*(?:{english('remarks')}"
    r"|(?:note|references|sources?)\**:)|\W*\Z"
)
_LISTED = pattern(r"[ \t]*+(?:[-*•]|\(?[1-9a-h][.)])[ \t]+(?P<said>[^\n]{1,80})")
_LABEL = pattern(r"[\s*_#]*+(?:result|solution|response)[*_]*+\s?:[\s*_]*+", re.IGNORECASE)
_LONE = 200  # characters of a line that is a value
_ITEM = pattern(r"(?:[-*•]|\(?\d{1,2}[.)])")
_NEAR, _LINES = 2_000, 5  # characters and lines at the end in which the last sentence stands
_DOLLARS = pattern(r"(?<!\\)\$(?!\d)")  # of formulas, not of money
_RESULT = pattern(r"=[\s$\\(*]*[-−]?\d(?:[\d.,]*\d)?%?(?:\s(?!and\b|then\b|so\b|which\b|but\b)[^\W\d_]+){0,3}\s*\Z")
_WORDED = pattern(r"[^\W\d_]{3,}")
_ENDS = (".", "!", "**", "$", "\\)", "∎")
_SENTENCES = pattern(r"(?<=[.!?])\s+(?=[A-Z$\\*])")
_HEDGES = pattern(rf"\b(?-i:(?!May\b))(?:{english('hedges')})|:$", re.IGNORECASE)
_LEADS_ON = pattern(rf"\b(?:{english('leads on')})\Z", re.IGNORECASE)
_NOTHING = pattern(r"\([^)]*|TBD|TBA|N/A")
_NUMBERED = pattern(r"[\W_]*step\s\d", re.IGNORECASE)
_STEP = pattern(r"(?:[-*•]\s+|\(?\d{1,2}[.)]\s+|step\s\d{1,2}\s*[:.]\s*)+", re.IGNORECASE)
_DENIES = pattern(rf"[?？]|n['’]t\b|\b(?:{english('denies')})", re.IGNORECASE)
_WHICH = pattern(r"\b(?:who|which|that)\b", re.IGNORECASE)  # "20 kids who are not allergic" denies nothing
_BRACKETS = pattern(r"\s\([^()]{0,80}\)")
_BOLD = pattern(r"\*\*\s*(?:\$|\\\()?\s*\Z")
_BOLD_END = pattern(r"[^*\d]{0,40}(?:\*\*|\Z)")
_SO = pattern(
    r"(?i)(?:\A|[\s,;.])(?:(?:so|thus|hence|therefore|then)\b(?!\sthat),?"
    rf"|which (?:{_LEADS})(?: that)?|(?<=,\s)(?:{english('results in')}))\s"
)
_ASIDE = pattern(  # "-20, which occurs at x = 3", "12, which is 3 more than Jane"
    r"(?s),\s(?:which\sis\s[^,]*\d[^,]*(?:(?:more|less|fewer|[a-z]{2,}er)\sthan|\stimes\sas)\b"
    rf"|(?:which|who)\s(?!was\b|{_LEADS})"
    r"|(?:which\sis\s)?(?:attained|reached|achieved)\s(?:at|by|for|if|when)\b).*\Z"
)
_WHEN = pattern(r",?\s(?:when|where|if|at|for)\s[$\\(]*[A-Za-z]\s?=[^=]*\Z")  # "5, when x = 2"
_LINK = pattern(
    rf"(?i)\b(?:is|are|was|were|be|been|equals|(?:{english('adds up')})[^\d.,;]{{0,24}}\sto)\b[\s*]*+"
    rf"(?:(?:{english('links on')})\s)*+(?:US)?[-\\$€£¥*\s(]*\Z"
)
_BESIDE = pattern(rf"(?i)\b(?:{english('beside')})\s(?:(?:\w+ing|{english('beside too')})\s){{0,3}}+[-\\$€£¥*(]*\Z")
_AFTER = pattern(r"\bapart (?:after|in|at)\s\Z")
_GIVEN = pattern(r"\b(?:given|with|since|where|let|if|as|because|from|when)\s\W*\Z", re.IGNORECASE)
_BY_DOING = pattern(rf"\b(?:{english('by doing')})\s\w+ing\s(?:\w+\s){{0,2}}+[-\\$€£¥*(]*\Z", re.IGNORECASE)
_REASON = pattern(r"(?:since|because|if|when|while|as)\s[^,;]*+", re.IGNORECASE)
_CLAUSE = pattern(rf"\b(?:{english('opens a clause')})\s(?:\w+['’]?\w*\s){{1,6}}+[-\\$€£¥*(]*\Z", re.IGNORECASE)
_OF = pattern(r"\s?(?:(?!total|average|sum|profit)\w+\s){1,3}of\s[-\\$*(]*\Z")
_TO_DO = pattern(r"\bto\s\w+\s(?:the\s|his\s|her\s|their\s)?[-\\$*(]*\Z")
_AND = pattern(r"\band\s(?:\w+\s)?[-\\$*(]*\Z")
_JOINED = pattern(r"\b(?:and|plus|,)\s", re.IGNORECASE)
_NAME = pattern(r"\\?[A-Za-z](?:_\{?\w{1,3}\}?)?|[A-Z]{2,4}")
_COMMAND = pattern(r"\\[A-Za-z]+")
_LETTER = pattern(r"[A-Za-z]")


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
    if explains and colon and (content := plain_content(after)):
        return content
    clause = None if explains else _CLAUSES.search(sentence)
    if clause and not _WHO.match(clause[0]):
        sentence = sentence[: clause.start()]
    if not explains or alone or (_SUBJECT.match(sentence) and not fresh):
        value = stated_value(sentence)
        if value is not None:
            return value
    content = COPULA.sub("", sentence.strip(TAIL_JUNK)).rstrip("}")
    leads = (fresh and sentence.rstrip("* ").endswith(":")) or _LEADS_ON.search(content)
    if explains or leads or len(content.split()) > WORDS or _NOTHING.fullmatch(content):
        return None
    first = next(iter(values(content)), None)
    if first is not None and not first.start and first.content is None:
        return UNREAD
    return content if any(c.isalnum() for c in content) else None


def of_several(sentence: str) -> str | None:
    """What a sentence with several values states; None where it has one, or is a step of several."""
    clause = _CLAUSES.search(sentence)
    said = sentence[: clause.start()] if clause and "so" not in clause[0] else sentence
    return stated_value(said) if len(_values(said)) > 1 and not _NUMBERED.match(said) else None


def concluding_value(text: str, *, ended: bool = False, follows: bool = False) -> str | None:
    """The one value of the last sentence of a text that announces none: "So, John spent $800 on ties."

    None where that sentence is not sure, or where it has no end, so that the text may have been cut off, unless it
    `ended`. `follows`: it must say itself that it concludes. Thanks and the like behind it say nothing.
    """
    near = undecorated(text[-_NEAR:].rstrip()).removesuffix("```")
    if near.rfind("\\[") > near.rfind("\\]"):
        return None
    lines = near.split("\n")
    label = _LABEL.match(lines[-1])
    alone = lone_value(lines[-1][label.end() :]) if label else None
    if alone is None:
        alone = items(lines) if _LISTED.fullmatch(lines[-1]) else lone_value(text) if text.count("=") == 1 else None
    if alone is not None:
        return alone
    for line in reversed(lines[-_LINES:]):
        if not (said := line.strip()):
            continue  # above a remark
        whole = said.endswith(_ENDS) or (_WORDED.search(said) and _RESULT.search(said) and not _LEADS_ON.search(said))
        if not (ended or whole) or _is_open(said):
            return None
        for sentence in reversed(_SENTENCES.split(said)):
            if sentence and not _REMARK.match(sentence):
                sure = ended or not _HEDGES.search(sentence)
                return stated_value(_unstopped(sentence)) if sure and (_SO.match(sentence) or not follows) else None
    return None


def _unstopped(sentence: str) -> str:
    """A sentence without its end: `5!.` ends with a factorial, "5!" with a cry, 0.333... not at all."""
    said = sentence.rstrip()
    return said[:-1] if said.endswith("!.") else said if said.endswith("...") else said.rstrip(".! ")


def conclusion_of(line: str) -> str | None:
    """What the last sentence of several on a line states, if it says itself that it concludes."""
    *before, last = _SENTENCES.split(line)
    return stated_value(_unstopped(last)) if before and _SO.match(last) else None


def verdict(content: str) -> str | None:
    """The "yes" or "no" that a field begins with, where what follows states no value: "Yes, y = 0 is a solution"."""
    content = content[:LONGEST]
    said = _VERDICT.match(content)
    linked = said and any(_is_linked(content, v) for v in values(content))
    return None if said is None or linked else said[0]


def items(lines: Sequence[str]) -> str | None:
    """The values of the several items that `lines` end with; None where one is more than a value."""
    found: list[str] = []
    for line in reversed(lines):
        item = _LISTED.fullmatch(line)
        if item is None:
            break
        if (said := lone_value(item["said"])) is None:
            return None
        found.append(said)
    return ", ".join(reversed(found)) if len(found) > 1 else None


def lone_value(line: str) -> str | None:
    """The value that a line is, with its unit, and nothing else: "x = 4", "80 dollars", "$2.50"."""
    said = undecorated(line).strip(" \t*_`").rstrip(".")
    found = values(said) if len(said) <= _LONE else []
    if len(found) != 1 or found[0].content is None or found[0].start or _NAME.fullmatch(found[0].content):
        return None
    content, unit = found[0].content, unit_after(said[found[0].end :])
    _, equals, right = content.rpartition("=")
    if said[found[0].end :].strip() != unit or (equals and _is_formula(right)):
        return None
    return f"{content} {unit}" if unit else content


def _is_open(line: str) -> bool:
    """Whether a formula of the line never closes, or it is the mark of an item that never came."""
    left = list(line)
    for start, end, _ in spans(line):
        left[start:end] = " " * (end - start)
    rest = "".join(left)
    opened, closed = (sum(map(rest.count, brackets)) for brackets in ("([", ")]"))  # (2, 5] is whole
    return (
        bool(_DOLLARS.search(rest) or _ITEM.fullmatch(line))
        or opened > closed
        or rest.count("\\(") != rest.count("\\)")
    )


def stated_value(sentence: str) -> str | None:
    """The one value that `sentence` states, with its unit; None where it states none or several, or one unreadable."""
    said = undecorated(sentence.strip()).strip(" \t_>#")
    said = said[step.end() :] if (step := _STEP.match(said)) else said
    if said.endswith("}") and said.count("}") == said.count("{") + 1:
        said = said[:-1].rstrip(". ")  # of a tag in braces
    if not said or len(said) > LONGEST or said.count("{") != said.count("}"):
        return None
    said = _ASIDE.sub("", said)
    if (when := _WHEN.search(said)) and _values(said[: when.start()]):
        said = said[: when.start()]
    starts = [0, *(word.end() for word in _SO.finditer(said))]  # the last "so" that a value follows
    said, found = next((said[at:], after) for at in starts[::-1] if (after := _values(said[at:])) or not at)
    if not found or len(found) > MOST or _DENIES.search(_WHICH.split(said)[0]):
        return None
    chosen = _chosen(said, found)
    if chosen is None or chosen.content is None:
        return None
    content = last_side(chosen.content)
    left, equals, right = content.partition("=")
    if equals and "=" not in right and not _NAME.fullmatch(left.strip()):
        content = right.strip()  # k(-3) = 37 is no product; x = 2 keeps its name
    if said[chosen.start] not in "$\\" and not readable(content):
        return None
    unit = unit_after(said[chosen.end :].lstrip("*")) if any(c.isdigit() for c in content) else ""
    return f"{content} {unit}" if unit else content


def _chosen(said: str, values: list[Value]) -> Value | None:
    bold = [v for v in values if _BOLD.search(said, 0, v.start) and _BOLD_END.match(said, v.end)]
    if bold:
        return bold[0] if len({v.content for v in bold}) == 1 else None
    last = _BRACKETS.sub(lambda m: " " * len(m[0]), said).rfind("=")
    of = next((v for v in values if v.start < last < v.end), None)
    if last >= 0 and (of is None or of.start not in {start for start, *_ in spans(said)}):
        after = [v for v in values if v.end > last]
        between = said[said.find("=") : last]
        clean = after and said[last + 1 : after[0].start].strip(" *$\\(≈US") == "" and not _JOINED.search(between)
        return after[0] if clean and (len(after) == 1 or _beside(said, values, after[1])) else None
    linked = [v for v in values if _is_linked(said, v)]
    if len(linked) > 1:
        linked = [v for v in linked if not _beside(said, values, v)] or linked
    if linked:
        same = len({said[v.start : v.end] for v in linked}) == 1
        apart = any(_AFTER.search(said, 0, v.start) for v in values)  # "will be 60 miles apart after 6 hours"
        return linked[0] if same and not apart and not _several(said, values, linked[-1]) else None
    left = [v for v in values if not _beside(said, values, v)]
    if not left and (values[0].content or "")[-1:].isdigit() and not _BY_DOING.search(said, 0, values[0].start):
        left = values  # "The bread will last for 4 days": the only number
    return left[0] if len(left) == 1 else None


def _is_linked(said: str, value: Value) -> bool:
    return _LINK.search(said, max(0, value.start - NEAR), value.start) is not None


def _several(said: str, values: list[Value], value: Value) -> bool:
    """Whether another value is joined to `value`: by "and", or by a comma with nothing else."""
    after = next((v for v in values if v.start > value.start), None)
    if after is None or _beside(said, values, after):
        return False
    return re.search(r"\b(?:and|or)\b|[,;]\s*[-\\$*(]*\Z", said[value.end : after.start]) is not None


def _beside(said: str, values: list[Value], value: Value) -> bool:
    """Whether `value` only says when, with what or of which."""
    before = said[max(0, value.start - NEAR) : value.start]
    if "=" in said[value.start : value.end] and _GIVEN.search(before):
        return True
    if _BESIDE.search(before) or _BY_DOING.search(before) or _REASON.fullmatch(said, 0, value.start):
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


def _values(said: str) -> list[Value]:
    """The values of a sentence outside brackets; formulas of letters only where there are no others, names never."""
    hidden = [(m.start(), m.end()) for m in _BRACKETS.finditer(said)]
    found = list[Value]()
    for v in values(said):
        unit = unit_after(said[found[-1].end :]) if found else ""
        if not (v.content and _NAME.fullmatch(v.content)) and not (unit and v.start <= found[-1].end + len(unit)):
            found.append(v)  # and no part of a unit: "3 hours and 20 minutes"
    outside = [v for v in found if not any(a < v.start < b for a, b in hidden)] or found
    numbers = [v for v in outside if v.content is None or not _is_formula(v.content)]
    return numbers or [v for v in outside if _is_linked(said, v)]


def _is_formula(content: str) -> bool:
    """Whether a formula speaks of letters: `x + y`, `f(x) = 2x`. `x = 5` and `2\\pi` have values."""
    if spoken_number(content.lower()) is not None:
        return False
    right = re.split("[=≈]", content)[-1]
    return _LETTER.search(_COMMAND.sub("", right).replace("e", "").replace("i", "")) is not None
