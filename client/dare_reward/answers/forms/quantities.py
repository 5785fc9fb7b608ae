"""Single quantities with a meaning of their own: bases, ratios, times, infinity, sets of numbers."""

from __future__ import annotations

from fractions import Fraction

from ..._pattern import pattern
from ..algebra.evaluate import evaluate
from ..algebra.fingerprint import expression_key
from ..algebra.nodes import Number
from ..algebra.parse import parse
from ..algebra.tokens import Token, split
from ..hashes import short
from ..kinds import Unreadable
from ..rules import Rules
from ..tables import words
from .intervals import PLUS_INFINITY, REALS, Endpoint, infinity, interval
from .reading import Reading, interval_reading

_BASES = {w: n for n, w in enumerate(words("two three four five six seven eight nine ten eleven twelve"), 2)} | {
    "sixteen": 16
}
_DIGITS = pattern(r"[0-9A-Za-z]{1,64}")


def read_infinity(tokens: list[Token], rules: Rules, depth: int) -> Reading | None:
    if (end := infinity(tokens)) is not None:
        return Reading("structured", end.key)
    if [t.text for t in tokens] == ["empty"]:
        return interval_reading([])
    return Reading("structured", "...") if [t.text for t in tokens] == ["..."] else None


def read_number_set(tokens: list[Token], rules: Rules, depth: int) -> Reading | None:
    if tokens[0].kind != "set":
        return None
    if "".join(t.text for t in tokens) in {"R^+", "R^{+}", "R_+", "R_{+}"}:
        return interval_reading([interval(Endpoint(Fraction(0), "0"), PLUS_INFINITY)])
    if len(tokens) != 1:
        return None
    return interval_reading([REALS]) if tokens[0].text == "R" else Reading("structured", "set " + tokens[0].text)


def read_base(tokens: list[Token], rules: Rules, depth: int) -> Reading | None:
    """`204_5`: the digits, with the base as their tag."""
    at = next(
        (
            n
            for n, t in enumerate(tokens)
            if t.text == "_" or (t.kind in {"word", "text"} and t.text.startswith("base"))
        ),
        None,
    )
    if at is None or at == 0:
        return None
    head, tail = tokens[:at], tokens[at:]
    if head[0].text == "(" and head[-1].text == ")":
        head = head[1:-1]
    base = _base_of(" ".join(t.text for t in tail if t.text not in {"_", "{", "}", "(", ")"}))
    word = "".join(t.text for t in head)
    if base is None or not _is_numeral(head):
        return None
    if word.lstrip("-").isdigit():
        return Reading("exact", str(int(word)), frozenset({f"unit=base {base}"}))
    return Reading("structured", word.upper().lstrip("0"), frozenset({f"unit=base {base}"}))


def _is_numeral(head: list[Token]) -> bool:
    """Digits, letters after the first, and a sign before a plain number."""
    if head and head[0].text == "-":
        return len(head) == 2 and head[1].kind == "num"
    digits = all(t.kind in {"num", "let", "word", "text"} and _DIGITS.fullmatch(t.text) for t in head)
    return bool(head) and digits and head[0].kind == "num"


def _base_of(text: str) -> int | None:
    word = text.lower().removeprefix("base").strip()
    if word.isdigit() and 2 <= int(word[:4]) <= 36:
        return int(word)
    return _BASES.get(word)


def read_ratio(tokens: list[Token], rules: Rules, depth: int) -> Reading | None:
    """`3:4` is a ratio, `3:45` may be a time and is left as it is."""
    parts, colons = split(tokens, [":"])
    if not colons:
        return None
    tag = ""
    last = parts[-1]
    if (
        len(last) > 1
        and last[-1].kind in {"word", "text"}
        and (half := last[-1].text.lower().replace(".", "")) in {"am", "pm"}
    ):
        tag, parts[-1] = half, last[:-1]
    if all(len(p) == 1 and p[0].text.isdigit() for p in parts) and (tag or _is_time([p[0].text for p in parts])):
        value = ":".join([str(int(parts[0][0].text)), *(p[0].text for p in parts[1:])])
        return Reading("structured", value, frozenset({"unit=" + tag} if tag else ()))
    terms = [evaluate(parse(p), {}) for p in parts]
    if tag or not all(isinstance(t, int | Fraction) and t > 0 for t in terms):
        raise Unreadable("no ratio")
    if len(terms) == 2:
        return Reading(*expression_key(Number(Fraction(terms[0]) / terms[1])), frozenset({"unit=ratio"}))
    return Reading("structured", short(":".join(str(Fraction(t) / terms[0]) for t in terms)))


def _is_time(parts: list[str]) -> bool:
    return len(parts) <= 3 and int(parts[0][:4]) < 25 and all(len(p) == 2 and int(p) < 60 for p in parts[1:])
