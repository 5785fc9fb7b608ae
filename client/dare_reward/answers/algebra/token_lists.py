"""Brackets in a list of tokens: where a list splits, and whether one pair encloses all of it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from .tokens import Token

_OPEN = frozenset({"(", "[", "{", "\\{", "lfloor", "lceil", "langle"})
_CLOSE = frozenset({")", "]", "}", "\\}", "rfloor", "rceil", "rangle"})


def depth_step(t: Token) -> int:
    """1 for a token that opens a bracket, -1 for one that closes it, 0 for any other."""
    if t.kind != "op":
        return 0
    if t.text in _OPEN or t.text.startswith("begin "):
        return 1
    if t.text in _CLOSE or t.text.startswith("end "):
        return -1
    return 0


def split(tokens: Sequence[Token], at: Iterable[str]) -> tuple[list[list[Token]], list[str]]:
    """The parts between the operators `at` outside all brackets, and the operators."""
    wanted = frozenset(at)
    if wanted.isdisjoint([t.text for t in tokens]):
        return [list(tokens)], []
    parts: list[list[Token]] = [[]]
    found: list[str] = []
    depth = 0
    for t in tokens:
        depth += depth_step(t)
        if depth == 0 and t.kind == "op" and t.text in wanted:
            parts.append([])
            found.append(t.text)
        else:
            parts[-1].append(t)
    return parts, found


def closes_at_end(tokens: Sequence[Token]) -> bool:
    """Whether the bracket at the start closes with the last token."""
    depth = 0
    for n, t in enumerate(tokens):
        depth += depth_step(t)
        if depth == 0:
            return n == len(tokens) - 1
    return False
