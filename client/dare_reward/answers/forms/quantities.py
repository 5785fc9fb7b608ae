"""Single quantities with a meaning of their own: bases, ratios, times, infinity, sets of numbers."""

from __future__ import annotations

import re
from fractions import Fraction

from ..._pattern import pattern
from ..algebra.fingerprint import expression_key
from ..algebra.parse import parse
from ..algebra.tokens import Token, split
from ..algebra.tree import Number, evaluate
from ..hashes import short
from ..kinds import Unreadable
from ..number_words import cardinal
from ..rules import Rules
from .intervals import PLUS_INFINITY, REALS, Endpoint, interval
from .reading import Reader, Reading, interval_reading

_NUMERAL = r"-?\d{1,64}|\d[\dA-Za-z]{1,64}"
_BASED = pattern(rf"(?:({_NUMERAL})|\(({_NUMERAL})\))(?:_[{{(]*|(?=base))(?:base)? *(?P<base>\w+)[)}}]*", re.ASCII)
_TIME = pattern(r"(?P<hour>[01]?\d|2[0-4])(?P<rest>(?::[0-5]\d){1,2})", re.ASCII)
# Sets of numbers (their names are marked "set "), the empty set, infinity, an ellipsis.
_FIXED = {end: Reading("structured", end.lstrip("+")) for end in ("oo", "+oo", "-oo", "...")}
_FIXED |= {f"set {name}": Reading("structured", f"set {name}") for name in "ZNQC"}
_FIXED |= {"empty": interval_reading([]), "set R": interval_reading([REALS])}
_POSITIVE = interval_reading([interval(Endpoint(Fraction(0), "0"), PLUS_INFINITY)])
_FIXED |= dict.fromkeys(("set R^+", "set R^{+}", "set R_+", "set R_{+}"), _POSITIVE)


def read_fixed(tokens: list[Token], rules: Rules, read: Reader) -> Reading | None:
    """What a few signs name as a whole."""
    if len(tokens) > 5:
        return None
    return _FIXED.get("".join([f"set {t.text}" if t.kind == "set" else t.text for t in tokens]))


def read_base(tokens: list[Token], rules: Rules, read: Reader) -> Reading | None:
    """`204_5`: the digits, with the base as their tag."""
    m = _BASED.fullmatch("".join([t.text for t in tokens]))
    said = m["base"].lower() if m else ""
    base = int(said[:4]) if said.isdigit() else cardinal(said, "en") or 0
    if m is None or not 1 < base < 37:
        return None
    digits, tags = m[1] or m[2], frozenset({f"unit=base {base}"})
    if digits.lstrip("-").isdigit():
        return Reading("exact", str(int(digits)), tags)
    return Reading("structured", digits.upper().lstrip("0"), tags)


def read_ratio(tokens: list[Token], rules: Rules, read: Reader) -> Reading | None:
    """`3:4` is a ratio, `3:45` may be a time and is left as it is."""
    half = tokens[-1].text.lower().replace(".", "")
    if half in {"am", "pm"}:
        tokens = tokens[:-1]
    else:
        half = ""
    parts, colons = split(tokens, [":"])
    if not colons:
        return None
    if m := _TIME.fullmatch("".join([t.text for t in tokens])):
        return Reading("structured", f"{int(m['hour'])}{m['rest']}", frozenset({"unit=" + half} if half else ()))
    terms = [evaluate(parse(p), {}) for p in parts]
    if half or not all(isinstance(t, int | Fraction) and t > 0 for t in terms):
        raise Unreadable("no ratio")
    if len(terms) == 2:
        return Reading(*expression_key(Number(Fraction(terms[0]) / terms[1])), frozenset({"unit=ratio"}))
    return Reading("structured", short(":".join(str(Fraction(t) / terms[0]) for t in terms)))
