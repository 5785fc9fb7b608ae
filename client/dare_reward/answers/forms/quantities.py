"""Single quantities with a meaning of their own: bases, ratios, times, infinity, sets of numbers."""

from __future__ import annotations

import re
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
from .intervals import PLUS_INFINITY, REALS, Endpoint, interval
from .reading import Reading, interval_reading

_BASES = {w: n for n, w in enumerate(words("two three four five six seven eight nine ten eleven twelve"), 2)} | {
    "sixteen": 16
}
_NUMERAL = r"-?\d{1,64}|\d[\dA-Za-z]{1,64}"
_BASED = pattern(rf"(?:({_NUMERAL})|\(({_NUMERAL})\))(?:_[{{(]*|(?=base))(?:base)? *(?P<base>\w+)[)}}]*", re.ASCII)
# Sets of numbers (their names are marked "set "), the empty set, infinity, an ellipsis.
_FIXED = {end: Reading("structured", end.lstrip("+")) for end in ("oo", "+oo", "-oo", "...")}
_FIXED |= {f"set {name}": Reading("structured", f"set {name}") for name in "ZNQC"}
_FIXED |= {"empty": interval_reading([]), "set R": interval_reading([REALS])}
_POSITIVE = interval_reading([interval(Endpoint(Fraction(0), "0"), PLUS_INFINITY)])
_FIXED |= dict.fromkeys(("set R^+", "set R^{+}", "set R_+", "set R_{+}"), _POSITIVE)


def read_fixed(tokens: list[Token], rules: Rules, depth: int) -> Reading | None:
    """What a few signs name as a whole."""
    if len(tokens) > 5:
        return None
    return _FIXED.get("".join([f"set {t.text}" if t.kind == "set" else t.text for t in tokens]))


def read_base(tokens: list[Token], rules: Rules, depth: int) -> Reading | None:
    """`204_5`: the digits, with the base as their tag."""
    m = _BASED.fullmatch("".join([t.text for t in tokens]))
    said = m["base"].lower() if m else ""
    base = int(said[:4]) if said.isdigit() else _BASES.get(said, 0)
    if m is None or not 1 < base < 37:
        return None
    digits = m[1] or m[2]
    kind, value = (
        ("exact", str(int(digits))) if digits.lstrip("-").isdigit() else ("structured", digits.upper().lstrip("0"))
    )
    return Reading(kind, value, frozenset({f"unit=base {base}"}))


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
