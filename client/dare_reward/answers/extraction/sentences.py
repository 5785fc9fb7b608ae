"""Where a sentence ends: not in 3.5, not in "e.g.", not inside a formula."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from ..._pattern import pattern

if TYPE_CHECKING:
    from .math_spans import Span

_STOP = pattern(r"[.!?](?=[\s\"'*_)\]}”]|$)|[。！？؟।]|\.(?=[一-鿿])")
ABBREVIATION = pattern(
    r"(?:^|[\s(])(?:e\.g|i\.e|approx|vs|etc|a\.m|p\.m|cf|no|dr|mr|mrs|ms|st|prof|jr|sr|sra|dra|rs|[a-z]|[a-z]\.[a-z])\Z",
    re.IGNORECASE,
)


def sentence(line: str, spans: list[Span]) -> tuple[str, bool]:
    """`line` up to the end of its first sentence, and whether that is a question. A point in 3.5 ends nothing."""
    for stop in _STOP.finditer(line):
        at = stop.start()
        if any(start <= at < end for start, end, _ in spans):
            continue
        if stop[0] == "!" and re.match(r"\s*[=+*/^<>)-]", line[at + 1 :]):
            continue  # a factorial
        if stop[0] == "." and ABBREVIATION.search(line[max(0, at - 8) : at]) and line[at + 1 :].strip(" *_\"'$)"):
            if re.match(r"\s+[A-Z]", line[at + 1 :]) and re.search(
                r"\d\s*[a-z]\Z|=\s*[a-z]\Z", line[max(0, at - 8) : at]
            ):
                return line[:at], False
            continue
        return line[:at], stop[0] in "?？؟"
    return line, False
