"""The strings of mode=ttrl_official: extraction and vote string of the published TTRL runs, for comparison only.

Written anew from the behaviour of the reference implementation (PRIME-RL/TTRL, 2025-05; its rules come from
Qwen2.5-Math): same sources in the same order, same rewriting steps, same string for the vote. What it does is what the
rest of this package exists to avoid: it never answers "none", so a cut-off rollout votes with its last number, and
rollouts without any number vote, together, for the empty string.

Differences, all deliberate:
* Number words become digits only if all of the answer is a whole number below a thousand million ("twenty-five" is 25).
  The reference calls a library that also reads "two point five" and picks number words out of other text.
* An answer is normalised up to 2,000 characters, so that time stays bounded; the reference has no bound.
* Choice answers are voted as extracted, as there: `official_key(raw, kind="choice")` changes nothing.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from .._pattern import pattern
from .number_words import spoken_number

if TYPE_CHECKING:
    from .kinds import Kind

READ = 2_000
_CHOICE = pattern(r"\b[ABCD]\b")
_NUMBER = pattern(r"-?\d*+\.\d++|-?\d++")
_BRACE = pattern(r"[{}]")

# What the reference takes for units: words of a data set of word problems, matched case by case, "." standing for any
# character. Each is tried also with an "s" after all of the others. The order matters: removing one can free another.
_UNIT_NAMES = (
    "east|degree|mph|kmph|ft|m sqaure| m east|sq m|deg|mile|q .|monkey|prime|ratio|profit of rs|rd|o|gm|p . m"
    "|lb|tile|per|dm|lt|gain|ab|way|west|a .|b .|c .|d .|e .|f .|g .|h .|t|a|h|no change|men|soldier|pie|bc"
    "|excess|st|inches|noon|percent|by|gal|kmh|c|acre|rise|a . m|th|π r 2|sq|mark|l|toy|coin|sq . m|gallon"
    "|° f|profit|minw|yr|women|feet|am|pm|hr|cu cm|square|v â € ™|are|rupee|rounds|cubic|cc|mtr|s|ohm|number"
    "|kmph|day|hour|minute|min|second|man|woman|sec|cube|mt|sq inch|mp|∏ cm ³|hectare|more|sec|unit|cu . m"
    "|cm 2|rs .|rs|kg|g|month|km|m|cm|mm|apple|liter|loss|yard|pure|year|increase|decrease|d|less|Surface"
    "|litre|pi sq m|s .|metre|meter|inch"
)
_UNITS = _UNIT_NAMES.split("|")
_UNIT_RULES = tuple(
    (unit.partition(" .")[0], pattern(rf"(^|\W){unit}($|\W)")) for unit in (*_UNITS, *(u + "s" for u in _UNITS))
)
_RENAMED = (
    ("bmatrix", "pmatrix"), ("tfrac", "frac"), ("dfrac", "frac"),
    ("\\neq", "\\ne"), ("\\leq", "\\le"), ("\\geq", "\\ge"),
    ("\\left", ""), ("\\right", ""), ("\\{", "{"), ("\\}", "}"),
)  # fmt: skip
_DROPPED = ("^{\\circ}", "^\\circ", "\\$", "$", "\\(", "\\)")
_NAMED = ("x=", "y=", "z=", "x\\in", "y\\in", "z\\in", "x\\to", "y\\to", "z\\to")
_ZEROS = pattern(r"(?<=\d)\.0*+(?=\D|$)")


def official_answer(text: str, *, kind: Kind) -> str:
    """What the reference extractor takes for the answer of `text`: always a string.

    Mathematics: what stands after the last "boxed", else after the last "he answer is", else the last number, else "".
    Choices: the last A, B, C or D that stands alone in the upper-cased text (the article "a" is one), else all of that.
    """
    if kind == "choice":
        return _official_choice(text)
    raw = re.sub(r"\n\s*+", "", _official_source(text.replace("ки", "")))
    raw = raw.removeprefix(":")
    return raw.removesuffix(".").removesuffix("/").strip()


def official_key(raw: str, *, kind: Kind = "math") -> str:
    """The string by which the reference counts votes: rewriting without understanding, 1/2 and 0.5 are two answers."""
    if kind == "choice":
        return raw
    string = _plain_latex(raw[:READ].strip().replace("\n", "").rstrip(".").replace("\\!", ""))
    string = _without_units(string)
    for mark in _DROPPED:
        string = string.replace(mark, "")
    string = _digits(string)
    string = re.sub(r"\\text\{([^}]*+)\}", r"\1", string)
    for name in _NAMED:
        string = string.replace(name, "")
    string = string.replace("\\emptyset", "{}").replace("(-\\infty,\\infty)", "\\mathbb{R}")
    string = string.replace("\\%", "").replace("%", "").replace(" .", " 0.").replace("{.", "{0.")
    string = string.replace("infinity", "\\infty")
    if "\\infty" not in string:
        string = string.replace("inf", "\\infty")
    string = re.sub(r"\\mbox\{[^}]*+\}", "", string.replace("and", "").replace("\\mathbf", ""))
    if "j" in string and "i" not in string:
        string = string.replace("j", "i")
    string = _ZEROS.sub("", string)
    if not string:
        return string
    string = "0" + string if string[0] == "." else string
    left, _, right = string.partition("=")
    if string.count("=") == 1 and len(left) <= 2:
        string = right
    string = re.sub(r"\\sqrt(\w++)", r"\\sqrt{\1}", string).replace(" ", "")
    return _slash(_fractions(string))


def _official_choice(text: str) -> str:
    text = text.strip("\n").rstrip(".").rstrip("/").strip(" ").lstrip(":")
    found = _CHOICE.findall(text.upper())
    last: str = found[-1] if found else text.strip().strip(".")
    return last.rstrip(".").rstrip("/")


def _official_source(text: str) -> str:
    if "final answer is $" in text and "$. I hope" in text:
        return text.split("final answer is $", 1)[1].split("$. I hope", 1)[0].strip()
    if "boxed" in text:
        return _official_box(text.rpartition("boxed")[2])
    for phrase in ("he answer is", "final answer is"):
        if phrase in text:
            return text.rpartition(phrase)[2].strip()
    if "答案是" in text:
        return text.split("答案是")[1].strip().split("\n\n")[0].strip()
    numbers = _NUMBER.findall(text.replace(",", ""))
    return numbers[-1] if numbers else ""


def _official_box(rest: str) -> str:
    """Braces are counted without regard to `\\{`; a box that never closes is read to the end of the text."""
    if not rest.startswith("{"):
        return rest.partition("$")[0].strip()
    depth = 0
    for brace in _BRACE.finditer(rest):
        depth += 1 if brace[0] == "{" else -1
        if depth == 0:
            return rest[1 : brace.start()]
    return rest[1:]


def _plain_latex(string: str) -> str:
    string = re.sub(r"\\begin\{array\}\{[^}]*+\}", r"\\begin{pmatrix}", string)
    string = string.replace("\\end{array}", "\\end{pmatrix}")
    for old, new in _RENAMED:
        string = string.replace(old, new)
    at = string.find("\\text{")
    if at >= 0 and string.endswith("}"):
        string = string[:at].strip() or string
    return string


def _without_units(string: str) -> str:
    for _ in range(2):
        for stem, rule in _UNIT_RULES:
            if stem in string:
                string = rule.sub(r"\1\2", string) or string
    return string


def _digits(string: str) -> str:
    """A whole number in words, or with leading zeros, in digits."""
    if string.isascii() and string.isdigit():
        return string.lstrip("0") or "0"
    value = spoken_number(string.lower(), "en")
    return string if value is None or value.denominator > 1 or value >= 10**9 else str(value)


def _fractions(string: str) -> str:
    """\\frac12 to \\frac{1}{2}, \\frac1b to \\frac{1}{b}; a string that ends inside a fraction stays as it is."""
    head, *tails = string.split("\\frac")
    out = [head]
    for tail in tails:
        if tail.startswith("{"):
            out.append("\\frac" + tail)
        elif len(tail) < 2:
            return string
        elif tail[1] == "{":
            out.append(f"\\frac{{{tail[0]}}}{tail[1:]}")
        else:
            out.append(f"\\frac{{{tail[0]}}}{{{tail[1]}}}{tail[2:]}")
    return "".join(out)


def _slash(string: str) -> str:
    """3/4 to \\frac{3}{4}, for whole numbers written plainly and for roots."""
    parts = string.split("/")
    if len(parts) != 2 or not all("sqrt" in p or re.fullmatch(r"0|-?[1-9]\d*+", p) for p in parts):
        return string
    return f"\\frac{{{parts[0]}}}{{{parts[1]}}}"
