"""Names on one side of an equals sign: x, x_1, f(x), AB, P(X > 2). The group rule may leave them out."""

from __future__ import annotations

from collections.abc import Sequence

from ..._pattern import pattern
from ..algebra.tokens import Token

_DERIVATIVE = pattern(r"frac\{(d[\^0-9]*+[A-Za-z]*+)\}\{(d[A-Za-z][\^0-9]*+)\}")
_QUOTIENT = pattern(r"frac\{([a-w]|[A-Z]{1,2})\}\{([a-w]|[A-Z]{1,2})\}")  # of two names, not of coordinates
_EVENTS = frozenset({",", "=", "<", ">", "<=", ">=", "|"})
_SEGMENTS = frozenset(
    {"\\angle", "\\triangle", "\\vec", "\\hat", "\\bar", "\\overrightarrow", "\\Pr", "overline", "|", "["}
)
_NAME_OPS = frozenset({"_", "'", "(", ")", "{", "}", ",", "|", "[", "]", "overline"})


def name_of(tokens: Sequence[Token]) -> str | None:
    """The name on one side of `=`: a letter with its marks, f(x), a word, a segment; None for an expression."""
    if not tokens:
        return None
    first = tokens[0]
    texts = "".join(t.text for t in tokens)
    if first.kind == "let":
        return _letter_name(tokens, texts)
    if all(t.kind in {"word", "text", "let"} for t in tokens):
        if len(tokens) == 1 and first.kind == "word" and len(first.text) < 4 and first.text.islower():
            return None
        return " ".join(t.text for t in tokens) if texts.isupper() else " ".join(t.text for t in tokens).lower()
    if first.text == "|" and not (texts[1:3].isupper() or "vec." in texts or "overrightarrow." in texts):
        return None  # |x| = 3 has two solutions, |AB| = 3 is a length
    if first.text in _SEGMENTS and all(t.kind in {"let", "word", "cmd"} or t.text in _NAME_OPS for t in tokens):
        return texts
    m = _DERIVATIVE.fullmatch(texts) or _QUOTIENT.fullmatch(texts)
    return f"{m[1]}/{m[2]}" if m else None


def _letter_name(tokens: Sequence[Token], texts: str) -> str | None:
    """`x`, `x_1`, `f'(x)`, `f^{-1}(x)`, `AB`."""
    rest = _after_marks(tokens)
    if [t.text for t in rest[:5]] == ["^", "{", "-", "1", "}"] and len(rest) > 5:
        rest = rest[5:]  # the inverse function
    inside = _EVENTS if texts[0].isupper() else frozenset(",")  # P(X > 2)
    simple = all(t.kind in {"let", "num", "text"} or t.text in inside for t in rest[1:-1])
    if not rest or (rest[0].text == "(" and rest[-1].text == ")" and simple):
        return texts.replace("{", "").replace("}", "")
    return texts if all(t.kind == "let" and t.text.isupper() for t in tokens) else None


def _after_marks(tokens: Sequence[Token]) -> list[Token]:
    """What follows the subscript and the primes of a letter."""
    i = 1
    while i < len(tokens):
        if tokens[i].text == "'":
            i += 1
        elif tokens[i].text == "_" and i + 1 < len(tokens):
            i += 2
            if tokens[i - 1].text == "{":
                depth = 1
                while i < len(tokens) and depth:
                    depth += (tokens[i].text == "{") - (tokens[i].text == "}")
                    i += 1
        else:
            break
    return list(tokens[i:])
