"""Names on one side of an equals sign: x, x_1, f(x), AB, P(X > 2). The group rule may leave them out."""

from __future__ import annotations

from collections.abc import Sequence

from ..._pattern import pattern
from ..algebra.tokens import Token

_DERIVATIVE = pattern(r"frac\{(d[\^0-9]*+[A-Za-z]*+)\}\{(d[A-Za-z][\^0-9]*+)\}")
_QUOTIENT = pattern(r"frac\{([a-w]|[A-Z]{1,2})\}\{([a-w]|[A-Z]{1,2})\}")  # of two names, not of coordinates
_SEGMENTS = frozenset(
    {"\\angle", "\\triangle", "\\vec", "\\hat", "\\bar", "\\overrightarrow", "\\Pr", "overline", "|", "["}
)
_NAME_OPS = frozenset({"_", "'", "(", ")", "{", "}", ",", "|", "[", "]", "overline"})
# What a letter may be followed by, one character a token: marks, the sign of an inverse, arguments or an event.
_KINDS = {"let": "a", "num": "0", "text": "t", "word": "w", "fn": "f", "cmd": "c", "set": "s"}
_LETTER = pattern(
    r"a(?:'|_(?:\{(?:[^{}]|\{[^{}]*+\})*+\}|[^{]))*+(?:\^\{-1\}(?=.))?(?:\((?:[a0t1,]*+|(?P<event>[a0t1,=<>|]*+))\))?"
)


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
    """`x`, `x_1`, `f'(x)`, `f^{-1}(x)`, `P(X > 2)`, `AB`."""
    shape = "".join(["1" if t.text == "1" else _KINDS.get(t.kind) or t.text[0] for t in tokens])
    m = _LETTER.fullmatch(shape)
    if m and (m["event"] is None or texts[0].isupper()):
        return texts.replace("{", "").replace("}", "")
    return texts if all(t.kind == "let" and t.text.isupper() for t in tokens) else None
