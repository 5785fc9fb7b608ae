"""The one reader of a letter: of what stands at a place of a text, and of all that a box, a tag or a given answer says.

A letter must stand by itself: "Based on" is not B, "A good fit" is not A, "F = ma" not F, "E. coli" not E. Guessing by
"last capital letter in the text" was right for 15 of 40 MMLU-Pro outputs read by hand, so nothing here guesses.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from dataclasses import replace

from ..._pattern import pattern
from ..languages import alternatives, english, every
from ..markup import without_html
from ..tables import listed
from .announcements import Announcement

READ = 300  # characters after an announcement in which its letter may stand
# A choice with its option's text is short; past this nothing is read, so cost and memory stay bounded.
LONGEST = 4_000
_FILL = (
    rf"(?:(?:{english('fills')}|{alternatives('adverb', 'so', 'answer', 'option', 'choose')}"
    rf"|{'|'.join(word for word in every('article') if len(word) > 1)}"
    r"|a(?= letra)|(?-i:[ao])(?=\s[(*]{0,3}(?-i:[A-Z])[)*]{0,3}\s*+(?:[.!\n]|\Z))"
    r"|(?:first|second|third|fourth|fifth|sixth|last) (?:option|choice|one),?)(?![a-zà-ÿ])[\s:：*_]*+)"
)
_DRESS = (
    r"(?:[\s*_`\"'“”‘’«»$:：|>#•✅✔→👉]|\[(?=\[)|(?<=\n)1\.\s|-(?=\s)|\\[(\[]|\\(?:text|textbf|mathrm|mathbf|boldsymbol|boxed|mathsf)\s*+\{"
    r"|```[a-z]*\n|\{(?=\\)|\}(?=\s))"
)
_AT = pattern(
    rf"{_DRESS}*+(?:(?i:{_FILL}){_DRESS}*+){{0,4}}+(?P<no>(?i:{alternatives('not')})\s++(?:(?i:option"
    rf"|choice)\s++)?+)?{_DRESS}*+"
    r"(?P<open>[(\[{（【<「『]?)[\s*_$]*+(?P<letter>[A-Za-zＡ-Ｊ])"
    r"(?![^\W_\u0590-\u0eff\u1100-\u11ff\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]|['’](?!(?:d|t)[ıiuü]r(?![a-z]))[A-Za-z])[*_$}]*+"
    r"(?P<close>[ ]?[)\]}）】>」』])?+"
)
_FORMULA = pattern(
    r"[*_$`}]*+\s*+(?:[=^<>≤≥∝≈]|[+×·]\s?[\w(]|/\s?(?:[\d(]|[A-Za-z](?![a-z]))|-\s?(?:\d|[A-Za-z](?![a-z]|\s[a-z]{2}))|\\(?:cdot|times|frac|cap|cup|to)"
    r"|_[\w{]|\(\w\))"
)
_JOINED = pattern(
    rf"[*_$`\"'}}\s)]*+(?:,|/|&|\+|、|;)?[*_\s]*+(?:{alternatives('or')}|(?P<loose>[,;])|/|&|、)(?:\s(?:{english('hopes')}))?+[\s*_$\"'(]*+(?:(?i:option|choice)\s*+\(?)?"
    r"(?P<letter>[A-Z]|[IVX]{2,4})(?![\w'’])(?!\s++(?!and\b|or\b|is\b|are\b)[a-z])(?(loose)(?!\sis\s(?:not|wrong|incorrect|false)\b))"
)
# "C D", "(C)(D)", "C > D": several too, where nothing but the sentence's end follows; "(C) D" is an option's text.
_BESIDE = pattern(
    r"(?:(?<=[A-Z)])[*_$`\"'}]*+(?:(?<!\))[^\S\n]++|[^\S\n]?(?:[-=]?>|→|<)[^\S\n]?)[*_$`\"']*+|(?<=\))\()(?P<letter>[A-Z])"
    r"(?=[*_$`\"'})]*+(?:[.,;]?\s*+(?:\n|\Z)|,|\s?(?:and|or)\b|\s?[->→(]*+\s?[A-Z](?![\w'’])))"
)
_QUESTION = pattern(r"[)\]}*_.\"'\s]{0,6}+[?？]")
_LIST = pattern(r"[^\n]*+\n[\s*(-]*+B(?:[).:]|[^\S\n]*+(?:\n|\Z))")
# "statement b)", "statement I" and "b), i.e. option A": a label inside the question, no option.
LABELS = pattern(english("labels"), re.IGNORECASE)
_CAPITAL = pattern(r"(?:i\.e\.|[^.\n]){0,12}?(?:[Oo]ption|[Cc]hoice|[Aa]nswer)(?: is)?\s\(?[A-Z](?![A-Za-z])")
ARTICLE = pattern(rf"\s++(?!{english('goes on')})[a-zà-ÿ]")
# "option B remains": of any other letter a word behind it makes a name, "B cells".
_CALLED = pattern(rf"(?:{alternatives('option', 'answer')})[\s*_(]*+\Z", re.IGNORECASE)
_AT_END = pattern(r"(?<=[\s,;=])\((?P<letter>[A-Z])\)\s*+(?=[.!]?\s*+(?:\n|\Z)|\.\s)")
_MARKUP = pattern(
    r"\\(?:boxed|fbox|text|textbf|textit|textrm|textsf|texttt|mathrm|mathbf|mathit|mathsf|mathtt|mathcal|operatorname"
    r"|bf|rm|left|right|displaystyle)(?![A-Za-z])\*?+"
    r"|\\[()\[\]{}]|[{}$*_`\"'“”‘’«»「」『』\u200b-\u200f\u202a-\u202e\u2060-\u2069\ufeff]"
)
_SPACE = pattern(r"\\(?:q?quad(?![A-Za-z])|[\\ ,;:!])|~")
_SEPARATOR = pattern(
    r"\s*+[.:,;、。]|\s++[-–—]\s|\s*+[–—]|[^\S\n]*+\n|\s*+\((?=..)|\s++is\s++(?:the\s|correct|right|best)"
)
_JUNK = " \t\r\n\f\v.,:;!?、。)]>】"
_CORRECT = pattern(rf"(?:{alternatives('correct')})\s*+[:：]\s*+", re.IGNORECASE)
_OF_OTHERS = pattern(r"[).:\]]\s++(?:[Bb]oth\s)?\(?[A-Z]\)?,?\s(?:and|or)\s")  # the text of "D) A and B"
_OTHERS = pattern(r"(?:(?<=\s)(?=[A-Za-z]\))|\A[\s.,;:)]*+(?=[A-Z][\s.)]*\Z))([A-Za-z])")
LONE = pattern(r"(?<![\w'’])[A-Z](?![\w'’])")
_MARKED = pattern(r"(?:[:\"*(]|\boption|\bchoice|\bletter)\s*+\Z", re.IGNORECASE)
_SMALL_END = pattern(r"[*_\"'`$)}\]]{0,4}+(?:\.?+[*_\"'`$)}\]]{0,4}+[^\S\n]*+(?:\n|\Z)|[.)]\s++(?=\w))")
_SMALL_LABEL = pattern(r"(?<![\w.'’])\(?([a-h])[).](?=\s)")

# What questions of biology and medicine abbreviate. Options are written in small letters too ("B. increases",
# "C. lupus"), so that nothing but the name itself tells the two apart: no word that says something else is among them.
_EPITHET = pattern(rf"[*_]{{0,3}}+\.[*_]{{0,3}}+\s++(?:{'|'.join(listed('epithets'))})(?![\w-])")


def letter_at(text: str, start: int, end: int, letters: Sequence[str], *, whole: bool = False) -> Announcement | None:
    """The letter right behind an announcement from `start` to `end`, or, of a `whole` content, all that it says."""
    match = _AT.match(text, end, end + READ)
    if match is None:
        return at_end(text, letters) if whole and text.endswith(")") else None
    said, after = unicodedata.normalize("NFKC", match["letter"]), match.end()
    letter, near = said.upper(), (text, after, after + 80)
    joined = _JOINED.match(*near) or _BESIDE.match(*near) if after < len(text) else None
    second = joined["letter"] if joined else letter
    several = second != letter and said.isupper() and (second in letters or len(second) > 1)
    if not (several or (_is_all(text, match, said, letters) if whole else _stands(text, start, match, said))):
        return None
    if match["no"]:
        return Announcement(start, after, content=letter, negated=True)
    return Announcement(start, after, content=None if several or letter not in letters else letter)


def bare_letter(content: str, letters: Sequence[str]) -> Announcement | None:
    """The letter that is all of `content`, but for dress, a word such as "Option" and the option's text behind it.

    C, c, (C), C., **C**, $C$, \\boxed{C}, \\text{(C)}, Option C, "C) text", "C: Newton", "12 m (C)" are C. A small
    letter needs to stand alone or in brackets: "a good fit" is not A. "A, B", "A or B" are several.
    """
    said = content[:LONGEST]
    text = without_html(said if said.isascii() else unicodedata.normalize("NFKC", said))
    text = _MARKUP.sub("", _SPACE.sub(" ", text)).strip()
    if len(text) > 1 and set(text) <= set(letters):
        return Announcement(0, len(text))
    lead = _CORRECT.match(text) if ":" in text else None
    found = letter_at(text, 0, lead.end() if lead else 0, letters, whole=True)
    if found is None or found.content is None or _OF_OTHERS.match(text, found.end - (text[found.end - 1] in ")]")):
        return found
    others = {other.upper() for other in _OTHERS.findall(text[found.end :])} & {*letters} - {found.content}
    return replace(found, content=None) if others else found


def named(content: str, letters: Sequence[str]) -> str | None:
    """The one letter that all of `content` names, and that it does not deny."""
    said = bare_letter(content, letters)
    return None if said is None or said.negated else said.content


def at_end(text: str, letters: Sequence[str]) -> Announcement | None:
    """The letter in the only brackets of `text`, at its end: "12 m (B)"."""
    closing = _AT_END.search(text)
    if closing is None or text.count("(") != 1:
        return None
    return Announcement(0, closing.end(), content=closing["letter"] if closing["letter"] in letters else None)


def _is_all(text: str, match: re.Match[str], letter: str, letters: Sequence[str]) -> bool:
    """Whether nothing but its option's text follows a letter, or nothing at all one that is no option."""
    rest = text[match.end() :]
    if letter.upper() not in letters:
        return letter.isupper() and not rest.strip(_JUNK)
    if match["close"] or not rest.strip(_JUNK):
        return True
    return not (match["open"] or letter.islower() or names_species(rest)) and _SEPARATOR.match(rest) is not None


def _stands(text: str, start: int, match: re.Match[str], letter: str) -> bool:
    """Whether a letter in prose is a choice: no word, article, symbol, question, label or first line of a list."""
    at, after, small = match.start("letter"), match.end(), letter.islower()
    following = text[after : after + 80]
    labelled = (small or letter == "I") and LABELS.search(text, max(0, start - 2), at)
    if labelled or (small and _CAPITAL.match(text, after)):
        return False
    if not match["close"]:
        if small:
            return _stands_alone(text, at, after)
        called = letter not in {"A", "I"} and _CALLED.search(text, max(0, at - 24), at)
        if (not called and ARTICLE.match(following)) or names_species(following):
            return False
        if (following[:1] == "-" and following[1:2].isalnum()) or _FORMULA.match(following):
            return False
    return not (_QUESTION.match(following) or (letter == "A" and _LIST.match(text, after, after + READ)))


def _stands_alone(text: str, at: int, after: int) -> bool:
    """Whether the announced small letter at `at` is all that is announced, and no label of a statement."""
    ending = _SMALL_END.match(text, after)
    if ending is None:
        return False
    if text[at] in "ai" and "." not in ending[0] and not _MARKED.search(text, max(0, at - 12), at):
        return False  # "The answer is a": an article before the cut
    return all(label[1] == text[at] for label in _SMALL_LABEL.finditer(text, max(0, at - 3_000), at + 200))


def names_species(following: str) -> bool:
    """Whether a capital letter is the genus of what follows it."""
    return _EPITHET.match(following) is not None
