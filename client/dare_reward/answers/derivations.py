r"""What a derivation ends with: `\text{Total }=6+3+1=10\text{ ways}` is 10, `n-2=17 \implies n=19` is n = 19.

Boxes sometimes hold the way to the answer. Of what no rule reads otherwise, this is taken:

1. what follows the last sign of implication, and of several equations there the last, if it is a computation
   (`x = 2, x + y = 2 + 8 = 10`); so it is of equations after a text that gives something ("Given u = -6, ...");
2. else the last row of an aligned environment, or the last side of it;
3. else, of words and formulas, what the last sentence states (`extraction/statements.py`); one that begins with "if" or
   that states several values or none ends nothing.

What is found counts only if it is a value or names one: no words, no formula with variables of its own.
"""

from __future__ import annotations

import re

from .._pattern import pattern
from .extraction.statements import stated_value
from .markup import INSIDE

_IMPLIES = pattern(r"\\(?:implies|Rightarrow|Longrightarrow|therefore)(?![A-Za-z])|⇒|⟹|∴")
_ROWS = pattern(r"(?s)\\begin\{(?P<name>aligned|align\*?|gathered|gather\*?|array)\}(?P<rows>.*)\\end\{(?P=name)\}")
_ROW = pattern(r"\\\\(?:\[[^\]]{0,12}\])?")
_COMMAND = r"\\(?:text|textbf|textit|textrm|mathrm|mbox)\s*+"
_TEXT, _TEXTS = pattern(_COMMAND + r"(?=\{)"), pattern(_COMMAND + rf"\{{({INSIDE})\}}", re.DOTALL)
_WORD = pattern(r"[A-Za-z]{2}")
_WORDS = pattern(r"[A-Za-z]{3,}")
_SPACE = pattern(r"\\(?:[,;:! ]|q?quad(?![a-z]))|~|\\\\|&")
_SENTENCES = pattern(r"(?<=[.!])\s+(?=[A-Z$\\])")
_ANSWER = pattern(r"\\text(?:bf)?\s*\{\s*(?:final )?answer:?\s*(?:\}:?|(?=[^{}]*\}\Z))(?P<value>.*)\Z", re.IGNORECASE)
_IF = pattern(r"\s*(?:if|unless|suppose|assuming|yes|no|true|false)\b", re.IGNORECASE)
_SAYS = pattern(r"=|\b(?:is|are|was|were|be|equals|have|has|gives?|so|thus|hence|therefore)\b", re.IGNORECASE)
_NAME = pattern(r"\s*\\?[A-Za-z]\w*(?:_\{?\w+\}?)?\s*|")
_ITEMS = pattern(r"[,;.](?:\s|\\[,;:! ]|\\q?quad(?![a-z]))+(?=[^,=]{1,40}=)")
_GIVES = pattern(r"\\text\s*\{\s*(?:given|with|since|as|from|using|because)\b[^{}]*\}", re.IGNORECASE)
_DERIVES = pattern(r"\\text\s*\{[^{}]*\b(?:so|thus|hence|therefore|then)\b", re.IGNORECASE)


def is_derivation(s: str) -> bool:
    """Whether `s` says itself that it concludes: by a sign of implication, or a "so" among its words."""
    if "\\" not in s:
        return False
    return bool(_IMPLIES.search(s) or _DERIVES.search(s) or _ANSWER.search(s)) or (
        _GIVES.match(s) is not None and _computed(s) is not None
    )


def _computed(s: str) -> str | None:
    """The last side of several equations' last, if it computes: 10 of `x + y = 2 + 8 = 10`, 4 of `x^2 = 4`."""
    *before, last = _ITEMS.split(s)
    left, _, right = last.rpartition("=")
    return right if before and not _NAME.fullmatch(left) and not _TEXT.search(right) else None


def conclusion(s: str) -> str | None:
    """What a derivation, cleaned, ends with; None where it is none, or where nothing can be said to end it."""
    if "\\" not in s and "$" not in s and not _WORD.search(s):
        return None
    if said := _ANSWER.search(s):
        return said["value"].strip(" .}") or None
    if rows := _ROWS.search(s):
        found = [row for row in _ROW.split(rows["rows"]) if row.strip(" \n&.,")]
        last = found[-1].replace("&", "").strip(" \n.,") if found else ""
        side = last.rpartition("=")[2] if _TEXT.search(last) else last
        return _ended(last) or (None if _TEXT.search(side) or side.count("(") != side.count(")") else side or None)
    return _ended(s)


def _ended(s: str) -> str | None:
    """What follows the last implication of `s`, or what its words state."""
    last = _IMPLIES.split(s)[-1]
    if last != s or _GIVES.match(s) or _DERIVES.search(s):
        last = _computed(last) or last
    return last.strip(" ,;.") or None if last != s and not _TEXT.search(last) else _stated(last)


def _stated(s: str) -> str | None:
    """What the last sentence of words and formulas states."""
    prose = _prose(s)
    if prose is None or not _WORD.search(prose.replace("\\", "")) or not _SAYS.search(prose):
        return None
    last = _SENTENCES.split(prose.strip())[-1]
    return None if _IF.match(last) else stated_value(last.rstrip(". "))


def _prose(s: str) -> str | None:
    """Texts as plain words, what stands between them as formulas in dollars."""
    if "$" in s or "\\(" in s or "\\" not in s:
        return s if len(_WORDS.findall(s)) > 1 else None  # "x is 5" is no sentence
    parts = _TEXTS.split(s)
    if len(parts) == 1 or any(_TEXT.search(formula) for formula in parts[::2]):
        return None
    return "".join(part if n % 2 else _formula(part) for n, part in enumerate(parts))


def _formula(s: str) -> str:
    said = _SPACE.sub(" ", s).strip()
    core = said.strip(" .,;")
    return f" ${core}${said[len(said.rstrip('.,;')) :]} " if core else said + " "
