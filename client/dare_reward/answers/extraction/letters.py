"""Choice letters: the one reader of a letter, and what announces one: "the answer is (C)", "Antwort: C", "故选C".

A letter must stand by itself: "Based on" is not B, "A good fit" is not A, "F = ma" not F, "E. coli" not E. The last
announcement wins; two different letters in one, or in two next to each other with nothing that takes the first back,
are no choice. Guessing by "last capital letter in the text" was right for 15 of 40 MMLU-Pro outputs read by hand, so
nothing here guesses.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain, islice

from ..._pattern import pattern
from ..choices import option_letters
from ..languages import PHRASES, alternatives, english, every
from ..markup import without_html
from ..tables import listed
from .announcements import NEAR, Announcement, announcements, descending, holding, lowered

_READ = 300  # characters after an announcement in which its letter may stand
# A choice with its option's text is short; past this nothing is read, so cost and memory stay bounded.
_LONGEST = 4_000
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
    r"-(?=[^\W_])|[*_$`}]*+\s*+(?:[=^<>≤≥∝≈]|[+×·]\s?[\w(]|/\s?(?:[\d(]|[A-Za-z](?![a-z]))|-\s?(?:\d|[A-Za-z](?![a-z]|\s[a-z]{2}))|\\(?:cdot|times|frac|cap|cup|to)"
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
_LABELS = pattern(english("labels"), re.IGNORECASE)
_CAPITAL = pattern(r"(?:i\.e\.|[^.\n]){0,12}?(?:[Oo]ption|[Cc]hoice|[Aa]nswer)(?: is)?\s\(?[A-Z](?![A-Za-z])")
_ARTICLE = pattern(rf"\s++(?!{english('goes on')})[a-zà-ÿ]")
# "option B remains": of any other letter a word behind it on its line makes a name, "B cells".
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
_OTHERS = pattern(r"(?:(?<=\s)(?=[A-Za-z]\))|\A[\s.,;:)]*+(?=[A-Z][\s.)]*\Z))([A-Za-z])")
_LONE = pattern(r"(?<![\w'’])[A-Z](?![\w'’])")
_MARKED = pattern(r"(?:[:\"*(]|\boption|\bchoice|\bletter)\s*+\Z", re.IGNORECASE)
_SMALL_END = pattern(r"[*_\"'`$)}\]]{0,4}+(?:\.?+[*_\"'`$)}\]]{0,4}+[^\S\n]*+(?:\n|\Z)|[.)]\s++(?=\w))")
_SMALL_LABEL = pattern(r"(?<![\w.'’])\(?([a-h])[).](?=\s)")

# What questions of biology and medicine abbreviate. Options are written in small letters too ("B. increases",
# "C. lupus"), so that nothing but the name itself tells the two apart: no word that says something else is among them.
_EPITHET = pattern(rf"[*_]{{0,3}}+\.[*_]{{0,3}}+\s++(?:{'|'.join(listed('epithets'))})(?![\w-])")
APART = 120  # two announcements farther apart than this do not contradict each other
EVENTS = 24  # announcements looked at, from the end

# Words that announce a letter, with what must follow them and what must stand before them.
_IS = (
    r"(?:[^.\n:;!?()]{0,60}?\s(?:is|are)(?=[\s*_\"'$(]++[a-z](?![a-z]))"
    r"|[^.\n:;!?()]{0,60}?\s(?:is|are|would be|must be|should be|will be|ist|est)(?![a-z'’])"
    r"|(?<!s)[\"'*_]*+\s*+[*_]*+[:：])"
)
_ES = rf"(?:\s(?:{alternatives('correct')}))?\s*+(?:{alternatives('is')}|[:：—–-])"
_SUBJECT = pattern(
    r"(?:(?<![a-z])(?:i|we)(?:['’](?:ll|d|m|re)|\swould|\swill|\sam|\sare)?+\s|(?:\A|\n|[.!]\s)[\s*_]*+"
    r"(?:(?:so|thus|hence|therefore),?\s)?)\Z"
)
# "Eliminating A, C and D leaves B": what is left over, where the text says that the others went.
_WENT = pattern(english("excludes"))
_DENIES = pattern(rf"(?:{alternatives('not')})\s?\Z")
_GOOD = pattern(rf"(?<![a-z])(?:{english('good')})\s\Z")
_TAILS: dict[str, re.Pattern[str]] = (
    {noun: pattern(_ES) for noun in every("option")}
    | {noun: pattern(r"s?+(?![a-z])" + _IS) for noun in PHRASES["nouns"]}
    | {verb: pattern(r"(?:ed)?(?![a-z])") for verb in PHRASES["verbs"]}
    | {word: pattern(r"(?:\s(?:only|us|just|behind|with|me))*+(?![a-z])") for word in PHRASES["leaves"]}
    | {
        "closest": pattern(_IS),
        "response": pattern(r"[*_\"']*+[:：]|\s(?:is|would be)(?![a-z'’])"),  # "the response variable is Y" states none
        "one ": pattern(r"(?:is|would be)(?![a-z'’])"),
    }
    | {word: pattern(rf"{_ES}|\s++" if word[0].islower() else rf"{_ES}|\s*+[:：]?") for word in every("choose")}
)
# What must stand before some of these words; of the others only what must not.
_NEEDS = dict.fromkeys(PHRASES["verbs"], _SUBJECT) | {"one ": _GOOD} | dict.fromkeys(PHRASES["leaves"], _WENT)
_NAMED = r"\s*+(?=[*_`\"'$\\({\[]*+[a-zA-Z](?![a-zA-Z]))"
_MENTIONS = dict.fromkeys((*PHRASES["nouns"], *every("option", "answer")), pattern(_NAMED)) | dict.fromkeys(
    ("matches", "corresponds to"), pattern(rf"{_NAMED}(?=\()")
)
# With any other noun: "The most likely diagnosis is (D) Aortic dissection.", "The uncertainty is **B. 3 m**." What
# begins with letters is searched fast.
_STATED = pattern(
    r"(?:is(?<!\w..)|are(?<!\w...)|be(?<!\w..)|give(?<!\w....)s?|yield(?<!\w.....)s?|form(?<!\w....)s?)"
    r"(?:\s(?:likely|probably|therefore|thus|approximately|most likely)){0,2}"
    r"(?:\sto be)?\s*+(?::\s*+\**+\s*+|\*\*\s?|(?=\([A-J]\)(?:\s\w|\.?\s*+\Z)))"
    r"(?=(?:\([A-Z]\)|[A-Z]\.)\s?\**+\s?+(?:[^\s*]|\Z))"
)
_OPTION_LINE = pattern(r"\n[\s*(]*+[A-J][.)]")
_LIKELY = pattern(rf"\b(?:{english('likely')})|\bthe\b[^.\n]{{0,120}}\Z", re.IGNORECASE)
_DOUBT = pattern(rf"\b(?:{english('doubts')})", re.IGNORECASE)
_DENIED_AFTER = pattern(rf"[*_\"'`$)}}\s]*+(?:\([^()\n]{{0,80}}\)\s*+)?(?:,\s)?(?:{english('denies after')})")
_DENIED_BEFORE = pattern(rf"(?:{english('denies before')})\s++\Z", re.IGNORECASE)
_INSTEAD = pattern(
    rf"(?i)[*_\"'`$)}}\]\s.,;:—–-]{{0,8}}+(?:(?:{alternatives('but')}|it is|it's|it must be|es ist)(?![a-z])[,\s]*+)"
    r"{1,3}+"
)
_TAKEN_BACK = pattern(
    rf"\b(?:{english('takes back')})|最终|{alternatives('but')}"
    rf"|{'|'.join(word for word in every('so') if not word.isascii())}"
)
_UNLISTED = pattern(
    rf"(?i)\A[\s*_:.\"']*(?:none of|cannot be|can't be|{alternatives('undecided')}|(?:{english('lists')}))"
    rf"|\bnot (?:{english('lists')}|in\b|one of\b)[^.\n]{{0,24}}\b(?:options|choices|answers)\b"
)
# Options that a text calls right, letter first: "(C) is the correct answer". They answer where nothing else does.
_ENDORSED = pattern(
    r"(?P<named>\b(?:[Oo]ption|[Cc]hoice)\s)?+(?P<open>\()?(?<![\w'’])(?P<letter>[A-Z]|(?<=ption \()[a-z](?=\)))"
    r"(?P<close>\))?[*_]*+[.:]?+(?:\s\([^()\n]{1,80}\),?+)?+"
    r"\s(?:is|are|must be|should be|would be|seems|appears to be)\s"
    r"(?:(?:therefore|thus|clearly|the|my|our|final|indeed|also|hence|a|to be|single|only|most)\s)*+"
    rf"(?:{english('endorses')}|(?:(?<=the )closest|closest(?! to))\b|(?<=most )(?:{english('endorses with most')}))"
    r"(?![ -](?:if|when|except)\b)(?(named)|(?![ -](?:approach|way|method|side|hand|angle|formula|direction)\b))"
)
_NOT_ALONE = pattern(
    r"(?:\b(?:[Bb]oth|[Nn]either|[Ee]ither)\b|(?<![A-Za-z])[A-Z]\)?(?:,? (?:and|or|nor)|,)) *\(?\Z"
    r"|(?:\b[Ii]f|\b[Ww]hether|\b[Ss]uppose|\b[Aa]ssum(?:e|ing)|\b[Uu]nless|\b[Ww]hy|\bthat)\s++(?:that\s++)?+"
    r"(?:[Oo]ption\s|[Cc]hoice\s|[Aa]nswer\s)?\(?\Z"
)
# "Vitamin C is the answer" endorses no option: of words only some lead over to one.
_NOUN = pattern(
    rf"(?i)(?<![\w'’])(?!(?:{english('leads to a letter')}|{alternatives('option', 'answer')}))[\w'’]+[ *_]+\Z"
)


def letter_at(text: str, start: int, end: int, letters: Sequence[str], *, whole: bool = False) -> Announcement | None:
    """The letter right behind an announcement from `start` to `end`, or, of a `whole` content, all that it says."""
    match = _AT.match(text, end, end + _READ)
    if match is None:
        return _at_end(text, letters) if whole and text.endswith(")") else None
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
    said = content[:_LONGEST]
    text = without_html(said if said.isascii() else unicodedata.normalize("NFKC", said))
    text = _MARKUP.sub("", _SPACE.sub(" ", text)).strip()
    if len(text) > 1 and set(text) <= set(letters):
        return Announcement(0, len(text))
    lead = _CORRECT.match(text) if ":" in text else None
    found = letter_at(text, 0, lead.end() if lead else 0, letters, whole=True)
    if found is None or found.content is None:
        return found
    others = {other.upper() for other in _OTHERS.findall(text[found.end :])} & {*letters} - {found.content}
    return replace(found, content=None) if others else found


def named(content: str, letters: Sequence[str]) -> str | None:
    """The one letter that all of `content` names, and that it does not deny."""
    said = bare_letter(content, letters)
    return None if said is None or said.negated else said.content


def _at_end(text: str, letters: Sequence[str]) -> Announcement | None:
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
    return not (match["open"] or letter.islower() or _EPITHET.match(rest)) and _SEPARATOR.match(rest) is not None


def _stands(text: str, start: int, match: re.Match[str], letter: str) -> bool:
    """Whether a letter in prose is a choice: no word, article, symbol, question, label or first line of a list."""
    at, after, small = match.start("letter"), match.end(), letter.islower()
    following = text[after : after + 80]
    if (small or letter == "I") and _LABELS.search(text, max(0, start - 2), at):
        return False
    if small and (_CAPITAL.match(text, after) or not (match["close"] or _stands_alone(text, at, after))):
        return False
    if not (small or match["close"]):
        word = _ARTICLE.match(following)
        ends = word and letter not in "AI" and ("\n" in word[0] or _CALLED.search(text, max(0, at - 24), at))
        if (word and not ends) or _EPITHET.match(following) or _FORMULA.match(following):
            return False
    return not (_QUESTION.match(following) or (letter == "A" and _LIST.match(text, after, after + _READ)))


def _stands_alone(text: str, at: int, after: int) -> bool:
    """Whether the announced small letter at `at` is all that is announced, and no label of a statement."""
    ending = _SMALL_END.match(text, after)
    if ending is None:
        return False
    if text[at] in "ai" and "." not in ending[0] and not _MARKED.search(text, max(0, at - 12), at):
        return False  # "The answer is a": an article before the cut
    return all(label[1] == text[at] for label in _SMALL_LABEL.finditer(text, max(0, at - 3_000), at + 200))


def choice_letter(raw: str, options: Sequence[str] | None = None) -> str | None:
    """The letter that a box, a tag or a given answer names, bare or in words; None if it names none or several."""
    letters = option_letters(options)
    bare = bare_letter(raw, letters)
    if bare is None:
        return announced_letter(without_html(raw[:_LONGEST]), letters)
    return None if bare.negated else bare.content


def announced_letter(text: str, letters: Sequence[str]) -> str | None:
    """The letter that the last announcement names; else the only option mentioned by name; else None."""
    near = max(0, len(text) - NEAR)
    said = _said(text, letters, near)
    if near and ((last := holding(text, said)) is None or last.start < near + APART):
        said = _said(text, letters, 0, None if said else near)
    said = said or _endorsed(text, letters)
    if not said:
        return next((one.content for one in _only_mention(text, letters) if not one.negated), None)
    last = holding(text, said)
    return None if last is None or _contradicted(text, said, last) else last.content


def last_letter(text: str, letters: Sequence[str]) -> str | None:
    """The last capital letter of the options that stands alone: a fallback of published harnesses, on request only."""
    lone = (m[0] for m in _LONE.finditer(text) if not (m[0] in "AI" and _ARTICLE.match(text, m.end())))
    return next((letter for letter in reversed([*lone]) if letter in letters), None)


def _said(text: str, letters: Sequence[str], start: int, end: int | None = None) -> list[Announcement]:
    """Announcements whose words stand from `start` on and before `end`, from the last to the first."""
    low = lowered(text)
    found: dict[int, Announcement] = {}
    for one in islice(announcements(text, low, start, end), EVENTS):
        place = (one.start, one.end)
        said = letter_at(text, *place, letters) or _letter_in_line(text, *place, letters)
        if said is None:
            continue
        denied = said.negated or one.negated
        found[said.end] = replace(said, negated=denied, conditional=one.conditional)
        instead = _INSTEAD.match(text, said.end, said.end + _READ) if denied else None  # "not B but C"
        if instead and (other := letter_at(text, instead.end(), instead.end(), letters)) is not None:
            found[other.end] = other
    for said in chain(_behind(text, _TAILS, letters, start, end), _stated(text, letters, start, end)):
        found.setdefault(said.end, said)
    return [found[place] for place in sorted(found, reverse=True)]


def _behind(
    text: str, words: Mapping[str, re.Pattern[str]], letters: Sequence[str], start: int = 0, end: int | None = None
) -> Iterator[Announcement]:
    """The letters right behind words that name options, each with what may lead over to a letter, last first."""
    low = lowered(text)
    for at, word in descending(low, tuple(words), EVENTS, start, end):
        lead = words[word].match(low, at + len(word))
        if lead and (words is _MENTIONS or _introduced(low, at, word)):
            said = letter_at(text, at, lead.end(), letters)
            if said is not None:
                yield said


def _stated(text: str, letters: Sequence[str], start: int, end: int | None) -> Iterator[Announcement]:
    """The letters of options that a sentence states under another noun: "The most likely diagnosis is (D) ..."."""
    for match in islice(_STATED.finditer(text, start, len(text) if end is None else end), EVENTS):
        said = letter_at(text, *match.span(), letters)
        before = text[max(0, text.rfind("\n", 0, match.start()), match.start() - 160) : match.start()]
        shown = "\n" in match[0] and _OPTION_LINE.search(text, match.end()) is None  # "is:", and the option below
        if said and said.content and _LIKELY.search(before) and (shown or not _DOUBT.search(before)):
            yield said


def _endorsed(text: str, letters: Sequence[str]) -> list[Announcement]:
    """The letters of options that a text calls right, last first."""
    found = []
    for match in islice(_ENDORSED.finditer(text), 64):
        opened, letter = match["open"], match["letter"].upper()
        before, noun = text[max(0, match.start() - 30) : match.start()], not (match["named"] or opened)
        labelled = letter == "I" and _LABELS.search(before[-12:])
        if labelled or _NOT_ALONE.search(before) or (noun and _NOUN.search(before)) or (opened and not match["close"]):
            continue
        said = letter if letter in letters else None
        found.append(Announcement(match.start(), match.end("letter"), content=said))
    return found[::-1]


def _introduced(low: str, at: int, word: str) -> bool:
    """Whether what must stand before `word` does: "I choose", "the best one is"."""
    if (needed := _NEEDS.get(word)) is not None:
        return needed.search(low, max(0, at - 160), at) is not None
    return not (_DENIES.search(low, max(0, at - 12), at) or (word.isascii() and at and low[at - 1].isalpha()))


def _letter_in_line(text: str, start: int, end: int, letters: Sequence[str]) -> Announcement | None:
    """ "The answer is 5 m (C)." and "... 5 m, which is option C"; no option in "not listed" and "either A or D"."""
    window = text[end : end + _READ].partition("\n")[0]
    if _UNLISTED.search(window):
        return Announcement(start, end)
    mentions = [*_behind(window, _MENTIONS, letters)]
    only = mentions[0] if len({said.content for said in mentions}) == 1 else None
    found = _at_end(window, letters) or only
    return None if found is None or found.negated else replace(found, start=start, end=end + found.end)


def _contradicted(text: str, said: list[Announcement], last: Announcement) -> bool:
    """Whether the announcement next to it names another letter, and nothing says which one holds."""
    earlier = said[said.index(last) + 1 :]
    before = next((s for s in earlier if not (s.negated or s.conditional) and s.end <= last.start), None)
    if before is None or before.content == last.content:
        return False
    between = text[before.end : last.end].lower()
    return len(between) <= APART and _TAKEN_BACK.search(between) is None


def _only_mention(text: str, letters: Sequence[str]) -> list[Announcement]:
    """The option that is mentioned by name ("option (E)") if it is the only one, and whether something denies it."""
    found = []
    for said in _behind(text, _MENTIONS, letters):
        no = _DENIED_BEFORE.search(text, max(0, said.start - 24), said.start) or _DENIED_AFTER.match(text, said.end)
        found.append(replace(said, negated=said.negated or no is not None))
    return found[:1] if len({(said.content, said.negated) for said in found}) == 1 else []
