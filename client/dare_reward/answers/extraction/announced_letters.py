"""Announced choice letters: "the answer is (C)", "option E is correct", "Antwort: C", "故选C".

The last announcement wins; two different letters in one, or in two next to each other with nothing that takes the first
back, are no choice. A letter must stand by itself: "Answer: Based on" is not B, "A good fit" is not A, "F = ma" not F.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice

from ..._pattern import pattern
from ..choices import names_species, plain
from ..languages import PHRASES, alternatives, english, every
from .announcements import NEAR, announcements, descending, lowered
from .unannounced import stands_alone

READ = 300  # characters after an announcement in which its letter may stand
APART = 120  # two announcements farther apart than this do not contradict each other
EVENTS = 24  # announcements looked at, from the end

# Words that announce a letter, with what must follow them and what must stand before them.
_IS = (
    r"(?:[^.\n:;!?()]{0,60}?\s(?:is|are)(?=[\s*_\"'$(]++[a-z](?![a-z]))"
    r"|[^.\n:;!?()]{0,60}?\s(?:is|are|would be|must be|should be|will be|ist|est)(?![a-z'’])"
    r"|(?<!s)[\"'*_]*+\s*+[*_]*+[:：])"
)
_ES = rf"(?:\s(?:{alternatives('correct')}))?\s*+(?:{alternatives('is')}|[:：—–-])"
_NOUNS, _VERBS, _LEFT = (PHRASES[name] for name in ("nouns", "verbs", "leaves"))
_OPTIONS = every("option")
_ABROAD_ASCII = tuple(stem for stem in _OPTIONS if stem.isascii() and stem not in _NOUNS)
_ABROAD = (*_ABROAD_ASCII, *(stem for stem in _OPTIONS if not stem.isascii()))
_SUBJECT = pattern(
    r"(?:(?<![a-z])(?:i|we)(?:['’](?:ll|d|m|re)|\swould|\swill|\sam|\sare)?+\s|(?:\A|\n|[.!]\s)[\s*_]*+"
    r"(?:(?:so|thus|hence|therefore),?\s)?)\Z"
)
# "Eliminating A, C and D leaves B": what is left over, where the text says that the others went.
_WENT = pattern(english("excludes"))
_GOOD = pattern(rf"(?<![a-z])(?:{english('good')})\s\Z")
_TAILS: dict[str, re.Pattern[str]] = (
    {noun: pattern(r"s?+(?![a-z])" + _IS) for noun in _NOUNS}
    | {noun: pattern(_ES) for noun in _ABROAD}
    | {verb: pattern(r"(?:ed)?(?![a-z])") for verb in _VERBS}
    | {word: pattern(r"(?:\s(?:only|us|just|behind|with|me))*+(?![a-z])") for word in _LEFT}
    | {
        "closest": pattern(_IS),
        "response": pattern(r"[*_\"']*+[:：]|\s(?:is|would be)(?![a-z'’])"),
        "one ": pattern(r"(?:is|would be)(?![a-z'’])"),
    }
    | {word: pattern(rf"{_ES}|\s++" if word[0].islower() else rf"{_ES}|\s*+[:：]?") for word in every("choose")}
)
_ASCII_STEMS = (*_NOUNS, *_ABROAD_ASCII, *_VERBS, *_LEFT, "closest", "response", "one ")
_MENTION = pattern(r"\s*+(?=[*_`\"'$\\({\[]*+[a-zA-Z](?![a-zA-Z]))")
_MENTIONED = (
    *_NOUNS,
    *_ABROAD_ASCII,
    *(word for word in every("answer") if word.isascii()),
    "matches",
    "corresponds to",
)
_MENTIONED_ABROAD = (*_MENTIONED, *_ABROAD, *(word for word in every("answer") if not word.isascii()))
_BRACKETED = frozenset({"matches", "corresponds to"})
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
# With any other noun: "The most likely diagnosis is (D) Aortic dissection.", "The uncertainty is **B. 3 m**."
_STATED = pattern(
    r"\b(?:is|are|be|give|gives|yields?|forms?)(?:\s(?:likely|probably|therefore|thus|approximately|most likely)){0,2}"
    r"(?:\sto be)?\s*+(?::\s*+\**+\s*+|\*\*\s?|(?=\([A-J]\)(?:\s\w|\.?\s*+\Z)))"
    r"(?P<open>\()?(?P<letter>[A-J])(?P<close>[.)])\s?\**+\s?+(?=[^\s*]|\Z)"
)
_OPTION_LINE = pattern(r"\n[\s*(]*+[A-J][.)]")
_LIKELY = pattern(rf"\b(?:{english('likely')})|\bthe\b[^.\n]{{0,120}}\Z", re.IGNORECASE)
_DOUBT = pattern(rf"\b(?:{english('doubts')})", re.IGNORECASE)
_FORMULA = pattern(
    r"[*_$`}]*+\s*+(?:[=^<>≤≥∝≈]|[+×·]\s?[\w(]|/\s?(?:[\d(]|[A-Za-z](?![a-z]))|-\s?(?:\d|[A-Za-z](?![a-z]|\s[a-z]{2}))|\\(?:cdot|times|frac|cap|cup|to)"
    r"|_[\w{]|\(\w\))"
)
_JOINED = pattern(
    rf"[*_$`\"'}}\s)]*+(?:,|/|&|\+|、|;)?[*_\s]*+(?:{alternatives('or')}|,|/|&|、|;)(?:\s(?:{english('hopes')}))?+[\s*_$\"'(]*+(?:(?i:option|choice)\s*+\(?)?"
    r"(?P<letter>[A-Z]|[IVX]{2,4})(?![\w'’])(?!\s++(?!and\b|or\b|is\b|are\b)[a-z])"
)
_QUESTION = pattern(r"[)\]}*_.\"'\s]{0,6}+[?？]")
_LIST = pattern(r"[^\n]*+\n[\s*(-]*+B(?:[).:]|[^\S\n]*+(?:\n|\Z))")
# "statement b)" and "b), i.e. option A": a label inside the question, no option.
_LABELS = pattern(english("labels"), re.IGNORECASE)
_CAPITAL = pattern(r"(?:i\.e\.|[^.\n]){0,12}?(?:[Oo]ption|[Cc]hoice|[Aa]nswer)(?: is)?\s\(?[A-Z](?![A-Za-z])")
_ARTICLE = pattern(rf"\s++(?!{english('goes on')})[a-zà-ÿ]")
_AT_END = pattern(r"(?<=\s)\((?P<letter>[A-Z])\)\s*+(?=[.!]?\s*+(?:\n|\Z)|\.\s)")
_DENIED_AFTER = pattern(rf"[*_\"'`$)}}\s]*+(?:\([^()\n]{{0,80}}\)\s*+)?(?:,\s)?(?:{english('denies after')})")
_DENIED_BEFORE = pattern(rf"(?:{english('denies before')})\s++\Z", re.IGNORECASE)
_INSTEAD = pattern(
    rf"[*_\"'`$)}}\]\s.,;:—–-]{{0,8}}+(?:(?:{alternatives('but')}|it is|it's|it must be|es ist)(?![a-z])[,\s]*+)"
    r"{1,3}+",
    re.IGNORECASE,
)
_TAKEN_BACK = pattern(
    rf"\b(?:{english('takes back')})|最终|{alternatives('but')}"
    rf"|{'|'.join(word for word in every('so') if not word.isascii())}"
)
_UNLISTED = pattern(
    rf"\A[\s*_:.\"']*(?:none of|cannot be|can't be|{alternatives('undecided')}|(?:{english('lists')}))"
    rf"|\bnot (?:{english('lists')}|in\b|one of\b)[^.\n]{{0,24}}\b(?:options|choices|answers)\b",
    re.IGNORECASE,
)
# Options that a text calls right, letter first: "(C) is the correct answer". They answer where nothing else does.
_ENDORSED = pattern(
    r"(?P<named>\b(?:[Oo]ption|[Cc]hoice)\s)?+(?P<open>\()?(?<![\w'’])(?P<letter>[A-Z]|(?<=ption \()[a-z](?=\)))"
    r"(?P<close>\))?[*_]*+[.:]?+(?:\s\([^()\n]{1,80}\),?+)?+"
    r"\s(?:is|are|must be|should be|would be|seems|appears to be)\s"
    r"(?:(?:therefore|thus|clearly|the|indeed|also|hence|a|to be|single|only|most)\s)*+"
    rf"(?:{english('endorses')}|(?:(?<=the )closest|closest(?! to))\b|(?<=most )(?:{english('endorses with most')}))"
    r"(?![ -](?:if|when|except)\b)(?(named)|(?![ -](?:approach|way|method|side|hand|angle|formula|direction)\b))"
)
_NOT_ALONE = pattern(
    r"(?:\b(?:[Bb]oth|[Nn]either|[Ee]ither)\b|(?<![A-Za-z])[A-Z]\)?(?:,? (?:and|or|nor)|,)) *\(?\Z"
    r"|(?:\b[Ii]f|\b[Ww]hether|\b[Ss]uppose|\b[Aa]ssum(?:e|ing)|\b[Uu]nless|\b[Ww]hy|\bthat)\s++(?:that\s++)?+"
    r"(?:[Oo]ption\s|[Cc]hoice\s|[Aa]nswer\s)?\(?\Z"
)
_LONE = pattern(r"(?<![\w'’])[A-Z](?![\w'’])")
_JOINERS = pattern(
    rf"[\s,;/&+()\[\].、]|\b(?:{alternatives('or', 'not')}|option\b|choice\b|both\b|either\b)", re.IGNORECASE
)


@dataclass(frozen=True, slots=True)
class Said:
    """A letter that the text announces at `start`; `letter` None: several, or one that is no option."""

    start: int
    end: int
    letter: str | None
    denied: bool = False


def announced_letter(text: str, letters: Sequence[str]) -> str | None:
    """The letter that the last announcement names; else the only option mentioned by name; else None."""
    near = max(0, len(text) - NEAR)
    said = _said(text, letters, near)
    if near and ((at := _holding(said)) is None or said[at].start < near + APART):
        said = _said(text, letters, 0, None if said else near)
    said = said or _endorsed(text, letters)[::-1]
    if not said:
        return _only_mention(text, letters)
    at = _holding(said)
    return None if at is None or _contradicted(text, said, at) else said[at].letter


def _holding(said: list[Said]) -> int | None:
    """The place in `said` of the last announcement that nothing after it takes back."""
    denied: set[str | None] = set()
    for i, last in enumerate(said):
        if last.denied:
            denied.add(last.letter)
        elif last.letter is None or last.letter not in denied:
            return i
    return None


def last_letter(text: str, letters: Sequence[str]) -> str | None:
    """The last capital letter of the options that stands alone: a fallback of published harnesses, on request only."""
    found = [
        match[0]
        for match in _LONE.finditer(text)
        if match[0] in letters and not (match[0] in "AI" and _ARTICLE.match(text, match.end()))
    ]
    return found[-1] if found else None


def names_several(content: str, letters: Sequence[str]) -> bool:
    """Whether a box says letters and nothing else, but no single option: "A, B", "A or B", "not B", K of A-J."""
    said = plain(content[:200])
    rest = _JOINERS.sub("", said)
    if len(rest) > 26 or not (rest.isascii() and rest.isalpha() and rest.isupper()):
        return False
    return len(_LONE.findall(said)) == len(rest) or set(rest) <= set(letters)


def _said(text: str, letters: Sequence[str], start: int, end: int | None = None) -> list[Said]:
    """Announcements whose words stand from `start` on and before `end`, from the last to the first."""
    low = lowered(text)
    found: dict[int, Said] = {}
    for count, announcement in enumerate(announcements(text, low, start, end)):
        if count >= EVENTS:
            break
        place = (announcement.start, announcement.end)
        said = _letter_at(text, *place, letters) or _letter_in_line(text, *place, letters)
        if said is not None:
            found |= _with_instead(text, replace(said, denied=True) if announcement.negated else said, letters)
    for at, stem in descending(low, _ASCII_STEMS if text.isascii() else _TAILS, EVENTS, start, end):
        match = _TAILS[stem].match(low, at + len(stem))
        if match is None or not _introduced(low, at, stem):
            continue
        said = _letter_at(text, at, match.end(), letters)
        if said is not None:
            found.setdefault(said.end, said)
    for said in _stated(text, letters, start, len(text) if end is None else end):
        found.setdefault(said.end, said)
    return sorted(found.values(), key=lambda s: (s.end, s.start), reverse=True)


def _stated(text: str, letters: Sequence[str], start: int, end: int) -> Iterator[Said]:
    """The letters of options that a sentence states under another noun: "The most likely diagnosis is (D) ..."."""
    for match in islice(_STATED.finditer(text, start, end), EVENTS):
        if match["letter"] not in letters or (match["close"] == ")" and not match["open"]):
            continue
        if names_species(text[match.end("letter") : match.end() + 40]):
            continue
        before = text[max(0, text.rfind("\n", 0, match.start()), match.start() - 160) : match.start()]
        shown = "\n" in match[0] and _OPTION_LINE.search(text, match.end()) is None  # "is:", and the option below
        if _LIKELY.search(before) and (shown or not _DOUBT.search(before)):
            yield Said(match.start(), match.end("close"), match["letter"])


def _endorsed(text: str, letters: Sequence[str]) -> list[Said]:
    """The letters of options that a text calls right, first to last."""
    found = []
    for match in islice(_ENDORSED.finditer(text), 64):
        alone = _NOT_ALONE.search(text, max(0, match.start() - 30), match.start()) is None
        if alone and not (match["open"] and not match["close"]):
            letter = match["letter"].upper()
            found.append(Said(match.start(), match.end("letter"), letter if letter in letters else None))
    return found


def _introduced(low: str, at: int, stem: str) -> bool:
    """Whether what must stand before `stem` does: "I choose", "the best one is"."""
    if stem in _VERBS:
        return _SUBJECT.search(low, max(0, at - 12), at) is not None
    if stem == "one ":
        return _GOOD.search(low, max(0, at - 16), at) is not None
    if stem in _LEFT:
        return _WENT.search(low, max(0, at - 160), at) is not None
    return not (stem.isascii() and at and low[at - 1].isalpha())


def _letter_at(text: str, start: int, end: int, letters: Sequence[str]) -> Said | None:
    """The letter right behind an announcement that ends at `end`."""
    match = _AT.match(text, end, end + READ)
    if match is None:
        return None
    letter = unicodedata.normalize("NFKC", match["letter"])
    if letter.islower() and (_LABELS.search(text, max(0, start - 2), end) or _CAPITAL.match(text, match.end())):
        return None
    after = match.end()
    if not _stands(text, after, letter, bracketed=bool(match["close"])) and not (
        letter.islower() and stands_alone(text, match.start("letter"), after)
    ):
        return None
    letter = letter.upper()
    if match["no"]:
        return Said(start, after, letter, denied=True)
    joined = _JOINED.match(text, after, after + 80)
    second = joined["letter"] if joined else letter
    several = second != letter and (second in letters or len(second) > 1)
    return Said(start, after, None if several or letter not in letters else letter)


def _stands(text: str, after: int, letter: str, *, bracketed: bool) -> bool:
    """Whether the letter before `after` is a choice and no word, article, symbol, question or first line of a list."""
    following = text[after : after + 80]
    if not bracketed:
        if letter.islower() or (letter in {"A", "I"} and _ARTICLE.match(following)) or names_species(following):
            return False
        part = (following[:1] == "-" and following[1:2].isalnum()) or _FORMULA.match(following)
        if part and not _JOINED.match(following):
            return False
    return not (_QUESTION.match(following) or (letter == "A" and _LIST.match(text, after, after + READ)))


def _with_instead(text: str, said: Said, letters: Sequence[str]) -> dict[int, Said]:
    """`said`, and where it denies a letter the one that holds instead: "The answer is not B but C"."""
    match = _INSTEAD.match(text, said.end, said.end + READ) if said.denied else None
    instead = None if match is None else _letter_at(text, match.end(), match.end(), letters)
    return {said.end: said} if instead is None else {instead.end: instead, said.end: said}


def _letter_in_line(text: str, start: int, end: int, letters: Sequence[str]) -> Said | None:
    """ "The answer is 5 m (C)." and "... 5 m, which is option C"; no option in "not listed" and "either A or D"."""
    window = text[end : end + READ].partition("\n")[0]
    if _UNLISTED.search(window):
        return Said(start, end, None)
    if (closing := _AT_END.search(window)) is not None and window.count("(") == 1:
        letter = closing["letter"]
        return Said(start, end + closing.end(), letter if letter in letters else None)
    mentions = _mentions(window, lowered(window), letters)
    if len({m.letter for m in mentions}) == 1 and not mentions[0].denied:
        return Said(start, end + mentions[0].end, mentions[0].letter)
    return None


def _contradicted(text: str, said: list[Said], at: int) -> bool:
    """Whether the announcement next to it names another letter, and nothing says which one holds."""
    last = said[at]
    before = next((s for s in said[at + 1 :] if not s.denied and s.end <= last.start), None)
    if before is None or before.letter == last.letter:
        return False
    between = text[before.end : last.end].lower()
    return len(between) <= APART and _TAKEN_BACK.search(between) is None


def _only_mention(text: str, letters: Sequence[str]) -> str | None:
    """The option that is mentioned by name ("option (E)") if it is the only one, and nothing is said against it."""
    seen: set[str | None] = set()
    for said in _mentions(text, lowered(text), letters):
        against = _DENIED_BEFORE.search(text, max(0, said.start - 24), said.start) or _DENIED_AFTER.match(
            text, said.end
        )
        seen.add(None if said.denied or against else said.letter)
    return seen.pop() if len(seen) == 1 else None


def _mentions(text: str, low: str, letters: Sequence[str]) -> list[Said]:
    """ "option (E)", "вариант B": options called by name, last first."""
    found = []
    for at, stem in descending(low, _MENTIONED if text.isascii() else _MENTIONED_ABROAD, EVENTS):
        match = _MENTION.match(text, at + len(stem))
        if match is None or (stem in _BRACKETED and text[match.end()] != "("):
            continue
        if (said := _letter_at(text, at, match.end(), letters)) is not None:
            found.append(said)
    return found
