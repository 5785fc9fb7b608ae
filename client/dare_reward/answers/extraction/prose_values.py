"""What a sentence begins with in plain characters: an expression or a number, with its unit."""

from __future__ import annotations

import re

from ..._pattern import pattern
from ..languages import JOINED, LANGUAGES, every
from ..markup import undecorated
from ..tables import listed
from .values import PLAIN, is_operand

WORDS = 12  # a longer run of words after "Answer:" is an explanation
_SCRIPTS = "\u0590-\u05ff\u0600-\u06ff\u0900-\u097f\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af"
_PROSE = pattern(
    rf"(?<![\\A-Za-z])[^\W\d_α-ωΑ-Ω₀-₉⁰-⁹²³¹½-¾{_SCRIPTS}]{{2,}}+|[{_SCRIPTS}]|(?<![\\A-Za-z\d])[aAI](?=\s++[a-z]{{2}})"
)
_FUNCTIONS, _UNITS = frozenset(listed("function_letters")), frozenset(listed("unit_letters"))
_WORD = pattern(r"\s*+(?P<word>[^\W\d_²³]++)(?!&)(?:\s?\^\s?\d|[²³])?(?:/[a-zA-Z]{1,4}(?:\^\d|[²³])?)?")
_AND_MORE = pattern(r"\s*+(?:and\s++)?\d[\d.]*+(?=\s?[^\W\d_])")
_SHAPES = frozenset({"square", "cubic", "sq"})
TAIL_JUNK = " \t\r\n,;:.!-–—+*/=<>_`\"'“”~（✅✔∎■□🎉\ufe0f"
_LAST_LINK = pattern(r"(?i)(?:\bis\b|\bare\b|\bequals\b|=|\bgives\b|\bof\b)\s*+(?:approximately |about |exactly )?")
_AGAIN = pattern(r",\s+(?:or|i\.e\.?|that is|that's|meaning|namely|which equals),?\s")
_LIST = pattern(
    rf"(?<=[\d)])\s?(?:{'|'.join(word for code in JOINED for word in LANGUAGES[code]['or'])}|、)\s?(?=[-−(]?\d)"
)
_RATIO = pattern(r"\d+\s(?:out of|to|in)\s\d+(?![\d,.]*\s[a-z])")
COPULA = pattern(rf"\s*+(?:{'|'.join(every('closing'))})[\s.。]*\Z")
_MONEY = pattern(r"\A[A-Z]{0,2}\\?[$€£¥]\s?(?=[\d.])|\A(?:US|USD|Rs\.?|INR|EUR)\s?\\?\$?\s?(?=\d)")
_MINUS = pattern(r"\A(?:minus|negative)\s(?=[\d.])", re.IGNORECASE)
_REMARK = pattern(r"\s\((?:=|≈|i\.e|e\.g|or|that is|since|because|see)(?![a-z]).*\Z", re.DOTALL)
_TIMES = pattern(r"(?<=\d)\s?x\s?(?=\d)")
_MONTHS = r"(?:January|February|March|April|May|June|July|August|September|October|November|December)\b"
_DATE = pattern(rf"\b{_MONTHS}(?=\s\d)|\d(?:st|nd|rd|th)?\s(?:of )?{_MONTHS}")
_AND_OTHERS = pattern(r"[^\W\d_]+(?:\s[^\W\d_]+){0,3},?\s+and\s+\d")
_MIXED = pattern(r"\d++\sand\s\d++/\d++\b")  # 2 and 3/4: one number or two
_THOUSANDS = pattern(r"\d[\d.,]*+k")  # 3k: thousands, or three times k
_OPERATOR = pattern(r"\s[*×÷+]\Z")  # 2 * the angle
_GROUPED = pattern(r"(?<=\d),(?=\d{3}(?!\d))")
_SEVERAL = pattern(r"[,;<>≤≥]|\band\b|\bor\b|\\(?:text|begin|le|ge|ne|quad|pm)(?![a-z])")
_NEXT_ONE = pattern(r"[\w)](?<!\sx)\s+(?:[A-Za-z]|\d[\d.]*)\s*\Z")  # a = 3 b = 4
UNREAD = ""  # a value that is there and that nobody can read


def plain_content(sentence: str, *, strict: bool = True) -> str | None:
    """The expression or number at the start of `sentence`; unless `strict`, with others that "and" joins to it.

    `UNREAD` where something is done to it in words: "2 over 3", "2 and a half".
    """
    sentence = sentence.strip().strip('*_`"“”«»').strip()
    if sentence.startswith(("\\(", "\\[")) or (sentence.startswith("$") and not re.match(r"\$\s?[\d.]", sentence)):
        return None  # a span that never closes is cut off
    sentence = _MINUS.sub("-", _REMARK.sub("", _LIST.sub(", ", _MONEY.sub("", sentence))))
    other = _AGAIN.search(sentence)
    if other is not None and "," not in sentence[: other.start()]:
        sentence = sentence[: other.start()]  # "0.5, or 1/2": the same thing twice
    if _MIXED.match(sentence):
        return UNREAD
    if ratio := _RATIO.match(sentence):
        return ratio[0]
    if _DATE.search(sentence[:80]) and len(sentence.split()) <= 6:
        return sentence.strip(TAIL_JUNK)
    prose = _first_prose(sentence)
    value = _trim(sentence) if prose is None else _trim(sentence[: prose.start()], led=True)
    if not _is_expression(value, alone=prose is None):
        return None
    chunk = "" if prose is None else sentence[: prose.start()].rstrip()
    ends = (len(chunk), sentence.find(value) + len(value)) if prose is not None and value else ()
    whole = chunk.count("(") == chunk.count(")")
    if (
        _THOUSANDS.fullmatch(value)
        or _OPERATOR.search(chunk)
        or (whole and any(is_operand(sentence, end) for end in ends))
    ):
        return UNREAD
    return _with_unit(value, sentence, prose, strict=strict)


def _with_unit(value: str, sentence: str, prose: re.Match[str] | None, *, strict: bool) -> str | None:
    """`value`, which starts `sentence`, with the unit that the first words after it name."""
    if value.startswith("\\") and value.count("{") != value.count("}"):
        return None  # cut off inside a command
    if prose is None or not re.search(r"[\d})π]\s?\Z", sentence[: prose.start()]):
        return last_side(value)
    chunk = sentence[: prose.start()].strip()
    if any(chunk.rfind(opening) >= max(len(value), 1) for opening in "(["):
        return last_side(value)  # 12 (4 cm wide) is not 12 cm
    if unit := unit_after(sentence[prose.start() :]):
        return f"{last_side(value)} {unit}"
    if not strict and _AND_OTHERS.match(sentence, prose.start()) and len(sentence.split()) <= WORDS:
        return sentence.strip(TAIL_JUNK)  # "2 red balls and 3 blue balls" is not 2
    return last_side(value)


def unit_after(rest: str) -> str:
    """The unit at the start of `rest`, "cm", "miles per hour", "hours and 20 minutes"; "" for any other word."""
    end = at = 0
    for _ in range(6):
        word = _WORD.match(rest, at)
        if word is None:
            break
        name = word["word"].lower()
        if name in _UNITS:
            at = word.end()
            if name not in _SHAPES:
                end = at
                more = _AND_MORE.match(rest, at)
                at = more.end() if more else at
        elif name == "per" and end:
            at = word.end()
        else:
            break
    return rest[:end].strip()


def tail_link(sentence: str, start: int = 0) -> int:
    """Where the last "is", "equals", "=", "of" ends, or -1: what is announced in a clause stands behind it."""
    end = -1
    for link in _LAST_LINK.finditer(sentence, start):
        end = link.end()
    return end


def last_side(value: str) -> str:
    """12 + 3 = 15 is 15, and so is x = 12 + 3 = 15; x = 15 stays, an equation is for the keys to judge."""
    sides = value.replace("**", "").split("=")
    if len(sides) < 2 or _SEVERAL.search(_GROUPED.sub("", value)):
        return value
    if "\\" not in value and any(map(_NEXT_ONE.search, sides[1:-1])):
        return value
    if len(sides) == 2 and sides[0].strip().replace(",", "").isdigit() and not PLAIN.fullmatch(sides[1].strip()):
        return sides[0].strip()  # 12 = 3 * 4
    plain = _TIMES.sub("*", re.sub(r"\\[a-zA-Z]+", "", sides[0]))
    if len(sides) > 2 or (any(c.isdigit() for c in plain) and not any(c.isalpha() for c in plain)):
        last = sides[-1].strip()
        return last or value
    return value


def _first_prose(sentence: str) -> re.Match[str] | None:
    depth, at = 0, 0
    for word in _PROSE.finditer(sentence):
        if word[0].lower() in _FUNCTIONS:
            continue
        depth += sentence.count("{", at, word.start()) - sentence.count("}", at, word.start())
        at = word.start()
        if depth > 0 or sentence[max(0, at - 1) : at] in {"_", "^"}:
            continue
        return word
    return None


def _trim(chunk: str, *, led: bool = False) -> str:
    """`chunk` without what leads nowhere at its end; `led`: without what led over to the words after it."""
    value = chunk.strip()
    links = r"and|or|a|A|I" if led else r"and|or"  # "b + a" ends with a
    for _ in range(6):
        before = value
        value = undecorated(value.rstrip(TAIL_JUNK)).rstrip()
        value = re.sub(rf"(?:\s+|(?<=[,;]))(?:{links}|\\text\{{?|\\mathrm\{{?)\Z", "", value)
        for opening, closing in ("()", "[]"):
            at = value.rfind(opening)
            # "(3, 5]" is an interval; "42 (in" is not one
            if at > 0 and closing not in value[at:] and not (set("()[]") - {opening}) & set(value[at + 1 :]):
                value = value[:at]
        for opening, closing in ("()", "[]"):
            if value.endswith(closing) and opening not in value and not set("([") & set(value):
                value = value[:-1]
            if led and value.startswith(opening) and not set(")]") & set(value):
                value = value[1:]  # "(12 metres)"
        if value.endswith("}") and value.count("{") < value.count("}"):
            value = value[:-1]
        if value == before:
            break
    return value


def _is_expression(value: str, *, alone: bool) -> bool:
    return bool(value) and (
        any(c.isdigit() for c in value)
        or re.search(r"[\\π√∞∅=+^]", value) is not None
        or (alone and len(value) <= 40 and any(c.isalnum() for c in value))
    )
