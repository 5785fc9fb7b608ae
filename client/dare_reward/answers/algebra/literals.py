"""Numbers and runs of letters as they are written, and products of letters that are none."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

from ..._pattern import pattern
from ..kinds import Unreadable
from ..tables import listed
from .tokens import Token

MAX_DIGITS = 4_000  # Python refuses int() past 4,300
MAX_ZEROS = 40
# Words that stand for something else than a product of their letters.
_WORDS = frozenset(listed("letter_words"))

# `\frac{d}{dx}` and `\frac{dy}{dx}`, whose d is no factor.
_DERIVATIVE = pattern(r"frac\{d(?:\^\{?\d\}?)?[A-Za-z]?\}\{d[A-Za-z](?:\^\{?\d\}?)?\}")
_MARK = r"\^(?:\{-1\}|-1|\{?(?:T|\\top)\}?)"
_MATRICES = pattern(rf"(?<![A-Za-z])[A-Z]{_MARK}\*?[A-Z](?![a-z])|(?<![A-Za-z])[A-Z]\*?[A-Z]{_MARK}")


def number(text: str) -> int | Fraction:
    """The exact value of a decimal, `1e5`, or repeating decimal `0.1(6)`."""
    if len(text) < MAX_ZEROS and text.isdigit():
        return int(text)  # by far the most common
    if len(text) > MAX_DIGITS:
        raise Unreadable("too many digits")
    if text.startswith("0" * MAX_ZEROS):
        raise Unreadable("too many zeros")
    mantissa, _, exponent = text.lower().partition("e")
    power = int(exponent or "0") if len(exponent) < 10 else MAX_DIGITS + 1
    if abs(power) > MAX_DIGITS:
        raise Unreadable("too large an exponent")
    start, _, cycle = mantissa.rstrip(")").partition("(")
    whole, _, decimals = start.partition(".")
    value = Fraction(int(whole + decimals))
    if cycle:
        value += Fraction(int(cycle), 10 ** len(cycle) - 1)
    value *= Fraction(10) ** (power - len(decimals))
    return value.numerator if value.denominator == 1 else value


_BEFORE, _AFTER = frozenset("{(^+-*/"), frozenset("})^+-*/")


def letters(tokens: Sequence[Token]) -> list[Token]:
    """Short runs of letters become products; longer ones are words, which no expression holds."""
    if not any(t.kind == "word" for t in tokens):
        return list(tokens)
    beside = [Token("op", ""), *tokens, Token("op", "")]
    return [
        part
        for before, t, after in zip(beside, tokens, beside[2:], strict=False)
        for part in (_split_letters(t, within=_is_within(before, t, after)) if t.kind == "word" else [t])
    ]


def _is_within(before: Token, t: Token, after: Token) -> bool:
    """Whether mathematics stands on both sides, so that two letters are a product, whatever word they make: e^{at}."""
    left = before.kind == "fn" or before.text in _BEFORE or (before.kind == "num" and after.text in {"+", "-"})
    return len(t.text) == 2 and left and after.text in _AFTER


def _split_letters(t: Token, *, within: bool) -> list[Token]:
    word = t.text
    for name in ("arcsin", "arccos", "arctan", "sqrt", "sin", "cos", "tan", "cot", "sec", "csc", "log", "exp", "ln"):
        rest = word.removeprefix(name)
        if rest != word and len(rest) <= 1:
            return [Token("fn", name, t.space), *(Token("let", c) for c in rest)]
    if word.startswith("pi") and len(word) == 3:
        return [Token("let", "pi", t.space), Token("let", word[2])]
    if len(word) > 3 or (word.lower() in _WORDS and not within):
        raise Unreadable("a word")
    return [Token("let", c, t.space and n == 0) for n, c in enumerate(word)]


def refuse(tokens: Sequence[Token]) -> None:
    """Raises on what looks like a product and is none: derivatives, and products of matrices."""
    texts = "".join([t.text for t in tokens])
    if "frac{d" in texts and _DERIVATIVE.search(texts):
        raise Unreadable("a derivative")
    if "^" in texts and _MATRICES.search(texts):
        raise Unreadable("a product of matrices")  # beside an inverse or transposed one a capital letter is a matrix
