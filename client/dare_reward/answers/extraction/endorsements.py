"""Endorsements: an option that the text calls right, letter first: "(C) is the correct answer", "B seems best"."""

from __future__ import annotations

import re

from ..._pattern import pattern

__all__ = ["ENDORSING", "endorsement"]

ENDORSING = (
    "correct",
    "better",
    "right",
    "best",
    "closest",
    "appropriate",
    "likely",
    "plausible",
    "accurate",
    "suitable",
    "reasonable",
    "answer",
)
_AFFIRM = pattern(
    r"(?P<open>\()?(?<![\w'’])(?P<letter>[A-Z]|(?:(?<=ption \()|(?<=hoice \())[a-z](?=\)))"
    r"(?P<close>\))?[*_]*+[.:]?+\s(?:is|are|must be|should be|would be"
    r"|seems|appears to be)\s(?:therefore |thus |clearly |the |indeed |also |hence |a |to be |single |only )*+"
    r"(?:(?:most )?(?:correct|right|best|better|closest|answer)"
    r"|(?:most )?(?:appropriate|likely|plausible|suitable|accurate|reasonable|probable|logical))"
    r"(?:\s(?:answer|option|choice|one|match|statement|response))?"
    r"(?![ -](?:approach|way|method|side|hand|angle|formula|direction))"
)
# Called an option, the letter is no symbol, whatever noun follows: "option B is the best approach".
_AFFIRM_OPTION = pattern(
    r"\b(?:[Oo]ption|[Cc]hoice)\s\(?(?P<letter>[A-Z])\)?[*_]*+(?:\s\([^()\n]{1,80}\))?,?"
    r"\s(?:is|seems|appears to be|would be)\s(?:therefore |thus |clearly |indeed |also )?(?:the )?"
    r"(?:most |single |only )?(?:correct|right|best|closest|appropriate|likely|plausible|suitable|accurate|reasonable"
    r")\b"
    r"(?!\s(?:if|when|except|but))"
)
_BOTH = pattern(r"(?:\b(?:[Bb]oth|[Nn]either|[Ee]ither)\b|(?<![A-Za-z])[A-Z]\)?(?:,? (?:and|or|nor)|,)) *\(?\Z")
_SUPPOSED = pattern(
    r"(?:\bif|\bwhether|\bsuppose|\bassum(?:e|ing)|\bunless|\bwhy|\bthat)\s++(?:that\s++)?+(?:option\s|choice\s"
    r"|answer\s)?\Z",
    re.IGNORECASE,
)


def endorsement(text: str, at: int) -> re.Match[str] | None:
    """The match of "(C) is the correct answer" with its `letter`, where one of `ENDORSING` stands at `at`."""
    match = None
    for found in _AFFIRM.finditer(text, max(0, at - 50), at + 60):
        if found.start() > at:
            break
        match = found
    if match is not None and match["open"] and not match["close"]:
        return None
    if match is None or match.end() <= at:
        match = _AFFIRM_OPTION.search(text, max(0, at - 140), at + 20)
    if match is None or match.end() <= at or _BOTH.search(text, max(0, match.start() - 12), match.start()):
        return None
    if _SUPPOSED.search(text, max(0, match.start() - 24), match.start()):
        return None
    return match
