"""Options that a text calls right, letter first: "(C) is the correct answer". They answer where nothing else does."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

from ..._pattern import pattern

MOST = 64

_ENDORSED = pattern(
    r"(?P<named>\b(?:[Oo]ption|[Cc]hoice)\s)?+(?P<open>\()?(?<![\w'’])(?P<letter>[A-Z]|(?<=ption \()[a-z](?=\)))"
    r"(?P<close>\))?[*_]*+[.:]?+(?:\s\([^()\n]{1,80}\),?+)?+"
    r"\s(?:is|are|must be|should be|would be|seems|appears to be)\s"
    r"(?:(?:therefore|thus|clearly|the|indeed|also|hence|a|to be|single|only|most)\s)*+"
    r"(?:correct|right|best|better|(?:(?<=the )closest|closest(?! to))|answer"
    r"|(?<=most )(?:appropriate|likely|plausible|suitable|accurate|reasonable|probable|logical))\b"
    r"(?![ -](?:if|when|except)\b)(?(named)|(?![ -](?:approach|way|method|side|hand|angle|formula|direction)\b))"
)
_NOT_ALONE = pattern(
    r"(?:\b(?:[Bb]oth|[Nn]either|[Ee]ither)\b|(?<![A-Za-z])[A-Z]\)?(?:,? (?:and|or|nor)|,)) *\(?\Z"
    r"|(?:\b[Ii]f|\b[Ww]hether|\b[Ss]uppose|\b[Aa]ssum(?:e|ing)|\b[Uu]nless|\b[Ww]hy|\bthat)\s++(?:that\s++)?+"
    r"(?:[Oo]ption\s|[Cc]hoice\s|[Aa]nswer\s)?\(?\Z"
)


def endorsed(text: str) -> Iterator[tuple[int, int, str]]:
    """Start, end and letter of each, from the first to the last."""
    for match in islice(_ENDORSED.finditer(text), MOST):
        alone = _NOT_ALONE.search(text, max(0, match.start() - 30), match.start()) is None
        if alone and not (match["open"] and not match["close"]):
            yield match.start(), match.end("letter"), match["letter"].upper()
