"""Clean-up of an answer's text: wrappers, markup and Unicode spellings that carry no meaning."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable

from .._pattern import pattern
from .markup import group_end, without_html
from .tables import spellings, words

MAX_CHARS = 2_000
# The backslash of a command, escaped once more: 12\\\\pi.
_DOUBLED = pattern(r"\\\\(?=(?:[dt]?frac|sqrt|pi|cdot|times|text|left|right|sin|cos|tan|theta|infty|circ)(?![a-z]))")
_SUPERSCRIPTS = {ord(a): b for a, b in zip("⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻⁽⁾ⁿⁱ", "0123456789+-()ni", strict=True)}
_SUBSCRIPTS = {ord(a): b for a, b in zip("₀₁₂₃₄₅₆₇₈₉₊₋ₙᵢₖ", "0123456789+-nik", strict=True)}
_SUPER = pattern("[" + "".join(map(chr, _SUPERSCRIPTS)) + "]++")
_SUB = pattern("[" + "".join(map(chr, _SUBSCRIPTS)) + "]++")
_FRACTION = pattern("[¼½¾⅐⅑⅒⅓⅔⅕⅖⅗⅘⅙⅚⅛⅜⅝⅞]")
# A command needs a blank behind it.
_SYMBOLS = {mark: said + " " * (said[0] in "\\^") for mark, said in spellings("marks").items()} | {
    "、": ", ", "，": ", ", "；": "; "
}  # fmt: skip
_SYMBOL = pattern("|".join(map(re.escape, _SYMBOLS)))
_INVISIBLE = pattern("[\u200b\u200c\u200d\u2060\ufeff\u00ad\u2061\u2062\u2063\u2064]")
# Direction marks and control characters make what is read differ from what is compared: such a text is left as it is.
_UNSAFE = pattern(
    "[\u0000-\u0008\u000e-\u001f\u007f-\u009f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069\ufff9-\ufffb\ud800-\udfff\U000e0000-\U000e0fff]"
)
_OPENERS = pattern(
    r"\\(?:boxed|fbox|framebox|text|textbf|textit|textrm|textsf|texttt|textnormal|mbox|mathrm|mathbf|mathit|mathsf|boldsymbol|bm|emph|displaystyle|tag)\s*+(?=\{)"
)
_SWITCH = pattern(r"\\(?:displaystyle|textstyle|large|Large|bf|rm)(?![A-Za-z])")
_BOX = pattern(r"\\(?:boxed|fbox)\s*+(?=\{)")
_STOPS = frozenset(".,;:。．，；：")
_PAIRS = [
    (p[: len(p) // 2], p[len(p) // 2 :])
    for p in words("$$$$ $$ \\(\\) \\[\\] **** ____ `` ** \"\" '' ‘’ “” „“ «» 「」 『』 《》")
]


def clean(raw: str) -> str | None:
    """`raw` without wrappers and in ASCII spellings; None where it must be compared as it is written."""
    if len(raw) > MAX_CHARS:
        return None
    s = raw
    if s.startswith(("{{", "${", "#{")) and "*" in s:
        return None  # a template, not mathematics
    if _UNSAFE.search(s):
        return None
    if not s.isascii():
        s = _ascii(s)
    if "\\\\" in s and "\\begin" not in s:
        s = _DOUBLED.sub("\\\\", s)
    s = _unit_vectors(peel(without_html(s)))
    for mark, written, meant in _RESPELLED:
        if mark in s:
            s = written.sub(meant, s)
    return _unconditional(s)


def _unconditional(s: str) -> str:
    """Without what an integer ranges over, which goes without saying where what stands before depends on it."""
    if ("\\in" in s or "integer" in s) and (m := _INTEGER_PARAMETER.search(s)):
        head, name = s[: m.start()], m["name"]
        # Of a sequence a_n, n is natural anyway; of anything else it may be.
        told = m["set"] != "N" or re.match(rf"\s*+[A-Za-z]_\{{?{name}\}}?\s*+=", head)
        if told and re.search(rf"(?<![A-Za-z\\]){name}(?![A-Za-z])", head):
            s = peel(head)
    if "for" in s and (m := _FOR_ALL.search(s)) and re.search("[kmnt][^=]*=", s[: m.start()]):
        s = peel(s[: m.start()])
    return s


def _unit_vectors(s: str) -> str:
    """i, j and k with a hat, an arrow or in bold as the letters, where more than one of them is there."""
    if "\\" not in s or "\\times" in s or "\\cdot" in s:
        return s  # the products of vectors are none of letters
    names = {m[1] or m[2] for m in _UNIT_VECTOR.finditer(s)}
    return _UNIT_VECTOR.sub(lambda m: f" {m[1] or m[2]} ", s) if len(names) > 1 else s


_UNIT_VECTOR = pattern(
    r"\\(?:hat|vec|widehat|mathbf|bm|boldsymbol)\s*+(?:(?:\{\s*+)?\\(?:mathbf|bm|boldsymbol|hat|widehat)\s*+\{\s*+\\?([ijk])(?:math)?\s*+\}"
    r"(?:\s*+\})?|\{?\s*+\\?([ijk])(?:math)?(?![A-Za-z])\s*+\}?)"
)


def _chosen(m: re.Match[str]) -> str:
    """`C_5^2`: of five, two. `C_1^2` is the square of a constant."""
    top, bottom = m[1] or m[4], m[2] or m[3]
    return f"\\binom{{{top}}}{{{bottom}}}" if int(top) > int(bottom) else m[0]


# Spellings of one thing: a mark that each has, so that it is soon said that there is none; what is meant.
_RESPELLED: tuple[tuple[str, re.Pattern[str], str | Callable[[re.Match[str]], str]], ...] = (
    # A system of equations is set by hand as often as with \\begin{cases}.
    ("array", pattern(
        r"\\left\s*+\\(?:\{|lbrace)\s*+\\begin\{array\}\s*+\{[lcr| ]{1,8}\}((?:[^\\]|\\(?!end\{))*+)"
        r"\\end\{array\}\s*+\\right\s*+(?:\.|\Z)"
    ), r"\\begin{cases}\1\\end{cases}"),
    ("{:}", pattern(r"\{:\}"), ":"),  # 3{:}45: braces that set blanks
    # n2^{n-1}: a letter before a power of a number in which it stands again is a factor; x1 is a name.
    ("^", pattern(r"(?<![A-Za-z\\_{])([A-Za-z])(\d+\s?\^\s?(?=\{[^{}]*\1|\1(?![A-Za-z\d])))"), r"\1 \\cdot \2"),
    ("10", pattern(r"(?<=\d)\s?x\s?(?=10\s?\^)"), r" \\times "),
    ("\\over", pattern(r"(?:\{|\A)([^{}]*)\\over(?![A-Za-z])([^{}]*)(?:\}|\Z)"), r"\\frac{\1}{\2}"),
    (".", pattern(r"\b(Rs|sq|cu|ft|in|yd|min|sec|hr|hrs|lbs|oz)\.(?=\s|\}|$)"), r"\1"),
    ("C", pattern(
        r"(?<![A-Za-z\\_^])C(?:_\{?(\d{1,3})\}?\^\{?(\d{1,3})\}?|\^\{?(\d{1,3})\}?_\{?(\d{1,3})\}?)(?!\d)"
    ), _chosen),
)  # fmt: skip


# k pi, k \in Z: what an integer parameter ranges over goes without saying.
_INTEGER_PARAMETER = pattern(
    r"(?:,|;|\\q?quad|\\[,;:! ]|\\text\s?\{\s*,?\s*\}|\s){0,6}(?:\\left)?\(?\s?"
    r"(?:\\text\s?\{\s?(?:where|for|with)\s?\}\s?(?:\\[ ,])?)?(?P<name>[kmnt])\s?"
    r"(?:\\in\s?(?:\\math(?:bb|bf|rm)\s?)?\{?|\\text\s?\{\s?(?:is\s)?an?\s(?=integer))(?P<set>[ZN]|integer)"
    r"\}?(?:\^?\{?[*+]\}?|_\{?\+\}?)?\s?(?:\\right)?\)?$"
)
# C_n = 1/2n for all n >= 2: so does for how many of them a formula holds.
_FOR_ALL = pattern(
    r"(?:,|\\q?quad|\\[ ,;:]|\s)*+\\text\s?\{\s?,?\s?(?:valid\s)?for\s(?:all|every|any|each)"
    r"(?:\s(?:positive\s)?(?:integers?|n))?\s?\}[\s\\,;]*+[kmnt]\s?(?:\\geq?|\\ge|>|\\in)[^=]{1,24}$"
)


def peel(s: str) -> str:
    """Without the delimiters, boxes, text commands, emphasis and end marks around the whole."""
    for _ in range(24):
        before = s
        s = s.strip(" \t\n\r\x0b\x0c~\u3000")
        s = _drop_spacing(s)
        s = _peel_pairs(s)
        s = _peel_group(s)
        if s[-1:] in _STOPS and not s.endswith(("...", "\\;", "\\:", "\\,")):
            s = s[:-1]
        if s == before:
            break
    if s.count("\\boxed") + s.count("\\fbox") == 1:
        s = _BOX.sub(" ", s)
    return s


def fold(s: str) -> str:
    """Blanks to single ones, case of words dropped but where two letters are a symbol: CO is not Co, n is not N."""
    words = " ".join(unicodedata.normalize("NFC", s).replace("’", "'").split())
    return _WORD.sub(_fold_word, words)


_WORD = pattern(r"(?<![\d\W])[^\W\d_]{2,}+(?!\d)|(?<![^\W_])[^\W\d_]{2,}+(?!\d)")
_GENOTYPE = pattern(r"(?:([a-z])(?i:\1)|([A-Z])(?i:\2))+")
_SHORT = frozenset(words("no of in to or at by on an is it as be if we he me my so up do go am us"))


def _fold_word(m: re.Match[str]) -> str:
    word = m[0]
    lower = word.lower()
    if _GENOTYPE.fullmatch(word) or not (word.islower() or word.isupper() or word.istitle()):
        return word  # AaBb is not aabb, NaCl not NACl
    if len(word) > 2 or lower in _SHORT or word[1:] == lower[1:]:
        return lower
    return word


def raised(s: str) -> str:
    """`s` with its raised and lowered characters as `^` and `_`: Fe³⁺ is Fe^{3+}."""
    s = _SUPER.sub(lambda m: _marked("^", m[0].translate(_SUPERSCRIPTS)), s)
    return _SUB.sub(lambda m: _marked("_", m[0].translate(_SUBSCRIPTS)), s)


def _marked(mark: str, content: str) -> str:
    return mark + (content if len(content) == 1 else "{" + content + "}")


def _ascii(s: str) -> str:
    s = _INVISIBLE.sub("", s)
    s = _FRACTION.sub(lambda m: "\\frac{{{}}}{{{}}}".format(*unicodedata.normalize("NFKC", m[0]).split("⁄")), s)
    s = _SUPER.sub(lambda m: "^{" + m[0].translate(_SUPERSCRIPTS) + "}", s)
    s = _SUB.sub(lambda m: "_{" + m[0].translate(_SUBSCRIPTS) + "}", s)
    s = _SYMBOL.sub(lambda m: _SYMBOLS[m[0]], s)
    if not s.isascii():
        s = unicodedata.normalize("NFKC", s)
        s = _SYMBOL.sub(lambda m: _SYMBOLS[m[0]], s)
    return s


def _drop_spacing(s: str) -> str:
    while True:
        if s[:2] in {"\\,", "\\;", "\\!", "\\:", "\\ ", "\\\n"}:
            s = s[2:].lstrip()
        elif s[-2:] in {"\\,", "\\;", "\\!", "\\:"} and s[-3:-2] != "\\":
            s = s[:-2].rstrip()
        elif m := _SWITCH.match(s):
            s = s[m.end() :].lstrip()
        else:
            return s


def _peel_pairs(s: str) -> str:
    for left, right in _PAIRS:
        n = len(left)
        if len(s) >= 2 * n and s.startswith(left) and s.endswith(right):
            inner = s[n:-n]
            if left not in inner and right not in inner and not inner.endswith("\\"):
                return inner
    # `$x$ and $y$`; in `$5 and $6` they are money: what closes a formula has no digit after it.
    closers = [s[m.end() : m.end() + 1] for m in _DOLLAR.finditer(s)] if "$" in s else []
    return s if len(closers) % 2 or any(map(str.isdigit, closers[1::2])) else _DOLLAR.sub(" ", s)


_DOLLAR = pattern(r"(?<!\\)\$")


def _peel_group(s: str) -> str:
    m = _OPENERS.match(s)
    start = m.end() if m else 0
    if s[start : start + 1] != "{" or not s.endswith("}") or s.endswith("\\}"):
        return s
    return s[start + 1 : -1] if group_end(s, start) in {len(s), None} else s
