"""Choice letters: what a box, a tag or a given answer says, or nothing.

The letter must be all that the content says, except brackets, markup, a word such as "Option" before it and the
option's text after it. Two different letters, a letter outside the options or a denial are no choice: guessing by "last
capital letter in the text" was right for 15 of 40 MMLU-Pro outputs read by hand, so nothing here guesses.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from contextlib import suppress

from dare_reward.errors import RequestError

from .._pattern import pattern
from .languages import alternatives
from .markup import without_html
from .tables import listed

ALPHABET = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
_CAPITALS = frozenset(ALPHABET)
DEFAULT = tuple(ALPHABET[:10])  # MMLU-Pro has ten options, the most of the sets in common use

# A choice with its option's text is short; past this nothing is read, so cost and memory stay bounded.
READ = 4_000
_MARKUP = pattern(
    r"\\(?:boxed|fbox|text|textbf|textit|textrm|textsf|texttt|mathrm|mathbf|mathit|mathsf|mathtt|mathcal|operatorname"
    r"|bf|rm|left|right|displaystyle)(?![A-Za-z])\*?+"
    r"|\\[()\[\]{}]|[{}$*_`\"'“”‘’«»「」『』\u200b-\u200f\u202a-\u202e\u2060-\u2069\ufeff]"
)
_SPACE = pattern(r"\\(?:q?quad(?![A-Za-z])|[\\ ,;:!])|~")
_NAMES, _RIGHTS, _IS, _ARTICLES, _OR = (
    unicodedata.normalize("NFKC", alternatives(*fields))
    for fields in (("answer", "option"), ("correct",), ("is", "choose"), ("article",), ("or",))
)
_RIGHT = rf"(?:(?:{_RIGHTS})\s*+){{0,2}}+"
_NOUN = rf"(?:(?:{_ARTICLES})(?:(?<=[^\W\d_]{{2}})|(?=\s++[^\W\d_]{{2}}))\s++)?+{_RIGHT}(?:(?:{_NAMES})\s*+)?+{_RIGHT}"
_LEAD = pattern(rf"\s*+{_NOUN}(?:(?:{_IS})\s*+)?+:?+\s*+{_NOUN}:?+\s*+", re.IGNORECASE)
_HEAD = pattern(r"(?P<open>[(\[<【〔]?)\s*+(?P<letter>[A-Za-z])(?![^\W_])(?:[^\S\n]*+(?P<close>[)\]>】〕]))?+")
_SEPARATOR = pattern(
    r"\s*+[.:,;、。]|\s++[-–—]\s|\s*+[–—]|[^\S\n]*+\n|\s*+\((?=..)|\s++is\s++(?:the\s|correct|right|best)"
)
_JUNK = " \t\r\n\f\v.,:;!?、。)]>】"
# "A, B", "A or B", "A/B", "I, II": more than one letter is said. "C) A good fit" and "C) F = ma" say one.
_SECOND = pattern(
    rf"[\s,;.:]*+(?:(?P<joined>[/&+|]|(?i:{_OR})\s*+\(?(?:[A-Z]\b|[IVX]{{2,}})|[IVX]{{2,}}+\b)"
    r"|\(?(?![AI]\s++(?!and\b|or\b)[a-z])(?P<letter>[A-Z])\b(?!\s*+[=^<>'’]))"
)
_CLOSING = pattern(r"(?<=[\s,;=])\((?P<letter>[A-Z])\)\Z")
_LABELLED = pattern(r"(?<=\s)([A-Za-z])\)")


def option_letters(options: Sequence[str] | int | None) -> tuple[str, ...]:
    """The letters of a group's options: A-J by default, the first n for a count n, capital letters as given."""
    if options is None:
        return DEFAULT
    if isinstance(options, bool) or not isinstance(options, int | Sequence):
        raise RequestError("options must be a count or a list of letters", loc=("options",), code="options")
    if isinstance(options, int):
        if not 1 <= options <= len(ALPHABET):
            raise RequestError("options must be a count from 1 to 26", loc=("options",), code="options")
        return tuple(ALPHABET[:options])
    letters = tuple(options)
    with suppress(TypeError):  # what has no hash is no letter
        if letters and len(_CAPITALS.intersection(letters)) == len(letters):
            return letters
    raise RequestError("options must be different capital letters A-Z", loc=("options",), code="options")


def choice_letter(raw: str, options: Sequence[str] | None = None) -> str | None:
    """The letter that `raw`, a box's or tag's content or a given answer, names; None if it names none or several.

    C, c, (C), C., **C**, $C$, \\boxed{C}, \\text{(C)}, Option C, "Answer: C", "C) text", "C: Newton" are C.
    A small letter needs to stand alone or in brackets: "a good fit" is not A.
    """
    letters = option_letters(options)
    text = plain(raw[:READ])
    lead = _LEAD.match(text)
    head = _HEAD.match(text, lead.end() if lead else 0) or _HEAD.match(text)
    if head is None and (closing := _CLOSING.search(text)) is not None and text.count("(") == 1:
        return closing["letter"] if closing["letter"] in letters else None  # 12 m (B)
    if head is None or head["letter"].upper() not in letters:
        return None
    letter, rest = head["letter"].upper(), text[head.end() :]
    if not rest.strip(_JUNK):
        return letter
    if not head["close"] and names_species(rest):
        return None
    if not head["close"] and (head["open"] or head["letter"].islower() or not _SEPARATOR.match(rest)):
        return None
    return None if _names_another(rest, letter, letters) else letter


def plain(raw: str) -> str:
    """`raw` without LaTeX and Markdown dress, full-width forms folded."""
    text = without_html(raw if raw.isascii() else unicodedata.normalize("NFKC", raw))
    return _MARKUP.sub("", _SPACE.sub(" ", text)).strip()


def _names_another(rest: str, letter: str, letters: Sequence[str]) -> bool:
    others = {label.upper() for label in _LABELLED.findall(rest)}
    if second := _SECOND.match(rest):
        if second["joined"]:
            return True
        others.add(second["letter"])
    return any(other != letter and other in letters for other in others)


# What questions of biology and medicine abbreviate. Options are written in small letters too ("B. increases",
# "C. lupus"), so that nothing but the name itself tells the two apart: no word that says something else is among them.
_EPITHETS = frozenset(listed("epithets"))
_NAMED = pattern(r"[*_]{0,3}+\.[*_]{0,3}+\s++(?P<epithet>[a-z]{3,24})(?![\w-])")


def names_species(following: str) -> bool:
    """Whether a capital letter is the genus of what follows it."""
    named = _NAMED.match(following)
    return named is not None and named["epithet"] in _EPITHETS
