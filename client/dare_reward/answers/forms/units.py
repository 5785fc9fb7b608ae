"""Units, money and scale words after (or before) a number. They are tags of a key, never factors."""

from __future__ import annotations

from ..._pattern import pattern
from ..algebra.tokens import Token
from ..languages import stem
from ..number_words import POWERS
from ..tables import listed, rows, spellings, words

CURRENCIES = dict(zip("$€£¥₹₩₽₺₫", words("usd eur gbp yen inr krw rub try vnd"), strict=True))
_MONEY_WORDS = frozenset({*CURRENCIES.values(), "cny"})
SCALES = {"hundred": 100, "dozen": 12} | {word: POWERS[word] for word in words("thousand million billion trillion")}
UNITS = spellings("units")
UNITS |= {row.split()[0]: row.split()[0] for row in rows("units")}
# Prefixes tell units apart by their case: 5 mW is not 5 MW.
_PREFIXED = [prefix + unit for prefix in "kMGmnp" for unit in ("N", "J", "W", "V", "A", "Pa", "Hz", "eV", "F", "T")]
UNITS |= {word: UNITS.get(word, word) for word in _PREFIXED}
# Letters that follow a number and a blank are a unit; written close, they are a variable.
_SPACED_LETTERS = frozenset(words("m s g h N J W V K L T Omega"))
_MEASURED_LETTERS = _SPACED_LETTERS | frozenset("CAKF")  # behind 1.6 x 10^-19 no letter is a variable
_TWO_LETTER_PRODUCTS = frozenset(words("nm ms in am pm ha cu sq min cal ton day cup unit bit")) | (
    frozenset(w for w in _PREFIXED if len(w) == 2) - frozenset(words("kJ kW kN MW mV mA"))
)
# Words after a number that are not the name of what was counted.
_NOT_NOUNS = frozenset(listed("other_nouns")) | (POWERS.keys() - SCALES.keys())
MAX_STARTS = 4
MAX_PARTS = 6
_JOINTS = frozenset({"/", "per", "an", "a", "*", "(", ")"})
_AREAS = {"square": "^2", "sq": "^2", "cubic": "^3", "cu": "^3"}
_HEAT = {w: w[0].upper() for w in ("C", "F", "celsius", "Celsius", "fahrenheit", "Fahrenheit")}
_SUFFIXES = {"squared": "^2", "cubed": "^3"} | _HEAT
_SUFFIX_OPS = frozenset({"^", "/", "*", "{", "}", "-", "deg", "%", "¢"})
_CLOCK = {("fn", "min"), ("fn", "sec")}
_PRODUCT_LETTERS = frozenset("abcxyz")
_VOWEL = pattern("[aeiouy]")
_LETTERS = pattern(r"[A-Za-z]++(?:[ -][A-Za-z]++)*+\Z")
_NUMBER = r"\d[\d.]*+(?:\(\d++\)|e[-+]?\d++)?+"
_MEASURED = pattern(rf"[-+]?{_NUMBER}(?:\*10\^(?:[-+]?\d++|\{{[-+]?\d++\}}))?")
_COUNTED = pattern(rf"[-+]?(?:{_NUMBER}|/|frac|[{{}}])++")  # what follows may be a noun that no table knows
_POWER = pattern(r"\s*+\^\s*+(-?)\s*+(\d++)")
_WORDS = pattern(r"[A-Za-z]++|\^-?\d++|[/*%¢()]")
Suffix = tuple[list[Token], int, str]  # the tokens of the number, its scale, the canonical unit ("" for none)


def split_unit(tokens: list[Token]) -> Suffix | None:
    """The number, the scale word and the unit of `5 million cm^2`; None where there is neither scale nor unit."""
    sign = [t for t in tokens[:1] if t.text == "-"]
    amount = tokens[1:] if sign or [t.text for t in tokens[:2]] == ["US", "$"] else tokens
    if len(amount) > 1 and (currency := _currency(amount[0])):
        return _money([*sign, *amount[1:]], currency)
    if len(tokens) > 1 and tokens[-1].kind == "op" and (currency := _currency(tokens[-1])):
        return _money(tokens[:-1], currency)
    return next((found for start in _suffix_starts(tokens) if (found := _split_at(tokens, start)) is not None), None)


def _currency(t: Token) -> str:
    """The currency of a sign, or of a word as USD; nothing for anything else."""
    name = CURRENCIES.get(t.text) if t.kind == "op" else UNITS.get(t.text) if t.kind == "word" else None
    return name if name in _MONEY_WORDS else ""


def _split_at(tokens: list[Token], start: int) -> Suffix | None:
    head, tail = tokens[:start], tokens[start:]
    if any(t[:2] in _CLOCK for t in head):
        return None
    first, _, rest = tail[0].text.partition(" ")
    scale = SCALES.get(first.lower(), 1) if tail[0].kind in {"word", "text"} else 1
    if scale > 1:
        tail = [*([Token("text", rest, space=True)] if rest else []), *tail[1:]]
    unit = _unit(head, tail) if tail else ""
    if unit is None or (unit == "deg" and any(t.kind == "fn" for t in head)):
        return None  # the degrees of \sin 60^\circ are the argument's
    return head, scale, unit


def _money(tokens: list[Token], currency: str) -> Suffix | None:
    found = split_unit(tokens) if tokens[0].text not in CURRENCIES else None
    head, scale, unit = found or (tokens, 1, "")
    return head, scale, currency if unit in {"", currency} else f"{currency} {unit}"


def _suffix_starts(tokens: list[Token]) -> list[int]:
    """Where letters and words begin that run to the end: `2 x cm` may begin its unit at x or at cm."""
    first = len(tokens)
    while first:
        t, before = tokens[first - 1], tokens[first - 2].text if first > 1 else ""
        exponent = t.kind == "num" and before in {"^", "-", "{"}
        if not (_begins_unit(t) or exponent or (t.kind == "op" and t.text in _SUFFIX_OPS)):
            break
        first -= 1
    starts = [k for k in range(max(first, 1), len(tokens)) if _begins_unit(tokens[k])][:MAX_STARTS]
    return [k for k in starts if not sum((t.text == "{") - (t.text == "}") for t in tokens[k:])]


def _begins_unit(t: Token) -> bool:
    """Words, letters (of the Greek ones only the ohm's) and signs; minutes and seconds look like functions."""
    letter = t.kind == "let" and (len(t.text) == 1 or t.text == "Omega")
    return letter or t.kind in {"word", "text"} or t[:2] in _CLOCK or t.text in {"deg", "%", "¢"}


def _unit(head: list[Token], tail: list[Token]) -> str | None:
    """The canonical unit that `tail` spells, None where it is none."""
    spaced = tail[0].space or tail[0].kind == "text"
    said = "".join([t.text for t in head])
    if len(tail) == 1 and tail[0].kind == "let":
        letters = _MEASURED_LETTERS if "10^" in said else _SPACED_LETTERS
        if not _MEASURED.fullmatch(said):
            return None
        return UNITS.get(tail[0].text) if spaced and tail[0].text in letters else None
    if all(t.kind == "let" for t in (*head, *tail)):
        return None  # m g h
    text = " ".join(t.text for t in tail)
    if tail[0].kind == "word" and not spaced and tail[0].text in _TWO_LETTER_PRODUCTS:
        return None
    known = _known(text.replace(".", ""))
    counted = spaced and all(t.kind in {"word", "text"} for t in tail) and _COUNTED.fullmatch(said)
    return _noun(text) if known is None and counted else known


def _noun(text: str) -> str | None:
    """What was counted, in lower case and singular: `12 red apples`."""
    words = [w if w[1:] != w[1:].lower() else w.lower() for w in text.replace("-", " ").split()]  # MPa is not mPa
    if words[:2] == ["of", "the"] and len(words) < 5:
        part = _noun(" ".join(words[2:]))
        return None if part is None else "of " + part  # 3/8 of the pizza
    if "per" in words[1:-1] and len(words) < 5:
        over, under = (_noun(" ".join(part)) for part in (words[: words.index("per")], words[words.index("per") + 1 :]))
        return None if over is None or under is None else f"{over} /{under}"  # Mb per hour
    noun = _LETTERS.match(text) and len(words) < 4 and _NOT_NOUNS.isdisjoint(words)
    if not noun or len(text) < 3 or _PRODUCT_LETTERS.issuperset(text.lower()) or not _VOWEL.search(text.lower()):
        return None
    return " ".join(w if w.endswith("ss") else stem(w) if w.islower() else w for w in words)


def _known(text: str) -> str | None:
    """`square cm`, `cm ^ 2`, `m / s ^ { 2 }`, `km per hour` in one spelling; None where a word is no unit."""
    said = _POWER.sub(r"^\1\2", text.replace("{", " ").replace("}", " "))
    found = _WORDS.findall(said)
    if "".join(found) != "".join(said.split()):
        return None
    parts: list[str] = []
    power = ""
    below = False
    for w in found:
        if w in _JOINTS:
            below = below or w in {"/", "per"}
        elif w.lower() in _AREAS:
            power = _AREAS[w.lower()]
        elif parts and w.startswith("^-") and not parts[-1].startswith("/"):
            parts[-1] = "/" + parts[-1] + ("" if w == "^-1" else "^" + w[2:])
        elif parts and (w[0] == "^" or w in _SUFFIXES):
            if w in _HEAT and parts[-1] != "deg":
                return None
            parts[-1] += _SUFFIXES.get(w, w)
        elif (unit := unit_of(w)) is None or len(parts) == MAX_PARTS:
            return None
        else:
            parts.append(("/" if below else "") + unit + power)
            power = ""
    if not parts or power:
        return None
    name = " ".join(parts)
    return {"mi /h": "mph", "km /h": "kmh"}.get(name, name)


def unit_of(word: str) -> str | None:
    return UNITS.get(word) or UNITS.get(word.lower() if len(word) > 2 else word)
