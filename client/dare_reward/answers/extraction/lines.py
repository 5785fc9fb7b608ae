r"""A line of prose: its mathematics between dollars or brackets, $...$, \(...\), \[...\], and where a sentence ends.

A sentence does not end in 3.5, in "e.g." or inside a formula.
"""

from __future__ import annotations

import re

from ..._pattern import pattern

Span = tuple[int, int, str]  # start, end, content without its dollars


def display(body: str) -> str | None:
    """The content of the displayed formula or the environment that `body` begins with; None if it never ends."""
    opening = "\\begin{" if body.startswith("\\begin{") else body[:2]
    if opening == "\\begin{":
        name = body[7 : body.find("}")]
        end = body.find("\\end{" + name + "}")
        return body[: end + len(name) + 6] if end > 0 and "}" in body[:40] else None
    end = body.find("\\]" if opening == "\\[" else "$$", 2)
    return body[2:end].strip().rstrip(".,") if end > 0 else None


_OPENS = pattern(r"(?<!\\)\$\$?|\\[(\[]")
_CLOSES = {"\\(": "\\)", "\\[": "\\]"}
MOST = 40  # spans of a line


def spans(line: str) -> list[Span]:
    """Maths spans as (start, end, content). A dollar before a number that no dollar closes is money."""
    found: list[Span] = []
    at = 0
    while len(found) < MOST and (opening := _OPENS.search(line, at)):
        (start, at), mark = opening.span(), opening[0]
        end = line.find(_CLOSES.get(mark, mark), at)
        while mark[0] == "$" and end > 0 and line[end - 1] == "\\":
            end = line.find("$", end + 1)
        content, after = line[at:end], end + len(mark)
        money = content[:1].isdigit() and (content != content.rstrip() or line[after : after + 1].isdigit())
        if end < 0 or (mark[0] == "$" and (money or not content.strip())):
            continue
        found.append((start, after, content.strip().rstrip(".,;").rstrip()))
        at = after
    return found


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
        if stop[0] == "!" and re.match(r"\s*[=+*/^<>)-]|\.(?=\s|\Z)", line[at + 1 :]):
            continue  # a factorial
        if stop[0] == "." and ABBREVIATION.search(line[max(0, at - 8) : at]) and line[at + 1 :].strip(" *_\"'$)"):
            if re.match(r"\s+[A-Z]", line[at + 1 :]) and re.search(
                r"\d\s*[a-z]\Z|=\s*[a-z]\Z", line[max(0, at - 8) : at]
            ):
                return line[:at], False
            continue
        return line[:at], stop[0] in "?？؟"
    return line, False
