"""Answers without an announcement that still say one thing: the reply "B", "42" or "Sydney", a last line "**(C)**".

Also small letters behind an announcement: "Answer: b" is B, unless the text itself labels statements "a) … d)".
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from ..._pattern import pattern
from ..choices import choice_letter
from ..languages import english
from ..markup import undecorated
from .prose_values import COPULA
from .statements import lone_value, stated_value

REPLY = 200  # characters of a reply that is an option and nothing else
FEW = 4  # words of a line that may be an answer and no sentence
LONE = 60  # characters of a reply in words that is its answer
LINE = 24  # characters of a last line that is a letter and its dress
_TALKS = pattern(rf"\b(?:{english('talks')})|n['’]t\b|[?？…:：,]\s*+\Z", re.IGNORECASE)
# "(B) No" is an option with its text, "(B) is wrong" none.
_HIGHLIGHTED = pattern(r"\*\*([^*\n]{1,80})\*\*")
_AMOUNT = pattern(r"[-−]?[$€£]?\d[\d,]*+(?:\.\d++)?(?=\s[a-z(])")
_DENIES = pattern(
    r"\b(?:is|are|was|were|does|do|did|can|have|has)\s(?:not|never|no)\b|\b(?:cannot|none)\b", re.IGNORECASE
)
_SUBJECT = r"(?:The|An?|My|Our|His|Her|Its|Their)\s(?:[^\s.:;?!'\"“‘]++\s){1,20}?"
_WHAT = r"(?!an?\b|in\b|at\b|to\b)(?P<what>[^,;:.!?\n]{1,60}(?:\.[^\s.]+)?)(?:,\s[^.]*)?+\.?"
_NAMES = pattern(rf"{_SUBJECT}(?:is|are|was|were)(?:\s{_WHAT}|:\s(?P<listed>[^.;:!?\n]{{1,120}})\.?)")
_CITES = pattern(r".{4,}?\b(?:is|was|are|named|called|titled|as):?\s['\"“‘*](?P<what>[^'\"“”*\n]{1,80})\.?['\"”’*]\.?")
_BRACKETED = pattern(
    r"\([A-Z]\)\s(?!(?:is|are|was|cannot|wrong|incorrect|excluded|eliminated)\b)\w+(?:\s\w+)?\.?", re.IGNORECASE
)
_DRESSED = pattern(r"(?:\*\*|__|[(\[（【$`]|\\[(\[]|\\(?:text|mathrm|mathbf|textbf)\{)")
_SAYS_MORE = pattern(rf"\b(?:{english('says more')})|n['’]t\b|[?？…]|[:：,]\s*\Z|\.\.", re.IGNORECASE)
_LETTER_FIRST = pattern(
    r"(?:[\s*_`\"'$(\[（【{]|\\(?:text|mathrm|mathbf|textbf)|\\[(\[])*+(?!A\s*+[:：])[A-ZＡ-Ｊ](?![A-Za-z])"
)
_LABEL_LINE = pattern(r"(?:\A|\n)[\s*_#>(\[-]*+(?P<letter>[A-Z])[*_]*+(?:[.):\]：]|[*_\s]*+(?=\n))")
_REASONS = pattern(r"\s*+[*_#]*+(?:Explanation|Rationale|Reason(?:ing)?)\b")
_LABEL_TEXT = pattern(r"(?:\A|\n)[\s*_#>(\[-]*+(?P<letter>[A-Z])[*_]*+[.):\]][*_]*+\s\S")
_NAMED = r"[*_]{0,3}+(?P<open>\()?(?P<letter>[A-Z])(?P<close>\))?[*_]{0,3}+"
_THUS = pattern(
    r"(?<![\w,'’])(?:(?i:(?:it is |it's )?(?:definitely|clearly|obviously|certainly)|i'd say|i would say)\s"
    r"|(?i:thus|hence|therefore|so|ergo|i\.e\.),?\s(?:(?:it is|it's|it must be|must be|that is|that's"
    rf"|the letter is)\s)?|(?i:it is|it's|it must be|that is|that's|i\.e\.,?)\s){_NAMED}[.!]?[*_]{{0,3}}+\s*+\Z"
)
_ARROW = pattern(rf"(?<!\S)(?:⇒|→|[=-]{{1,2}}>)\s{_NAMED}[.!]?\s*+\Z")
_SO_IT_IS = pattern(
    rf"(?<![\w,'’])(?i:so|thus|hence|therefore|then),?\s(?:the answer\s)?{_NAMED}\sit is[.!]?[*_]{{0,3}}+\s*+\Z"
)
_TWO = pattern(r"[.;,]\s\(?[A-Z]\)?\s(?:is|are) (?:also )?(?:correct|right|true)\b")  # "C is correct. D is correct."
_SMALL_REPLY = pattern(r"[a-j][.)]?")
_EITHER = pattern(r"\b(?:either|or|whether|if|denote|call|label)\b", re.IGNORECASE)
_BARE = pattern(r"[A-Z]\.?")
_ONLY = pattern(rf"(?<!\w)[Oo]nly\s{_NAMED}\s(?:{english('holds alone')})[^.\n?]*+\.?\s*+\Z")
_MARKED = pattern(r"(?:[:\"*(]|\boption|\bchoice|\bletter)\s*+\Z", re.IGNORECASE)
_SMALL_END = pattern(r"[*_\"'`$)}\]]{0,4}+(?:\.?+[*_\"'`$)}\]]{0,4}+[^\S\n]*+(?:\n|\Z)|[.)]\s++(?=\w))")
_SMALL_LABEL = pattern(r"(?<![\w.'’])\(?([a-h])[).](?=\s)")


def unannounced_letter(text: str, letters: Sequence[str]) -> str | None:
    """The letter of a reply that is one option ("B", "C. 12 m/s"), or of a last line that is a dressed letter."""
    reply = COPULA.sub("", undecorated(_unfenced(text.strip())).lstrip("✅✔☑→👉\ufe0f "))
    if _SMALL_REPLY.fullmatch(reply):
        return choice_letter(reply, letters)
    if len(reply) <= REPLY and "\n" not in reply:
        if _TWO.search(reply):
            return None
        whole = _LETTER_FIRST.match(reply) is not None and not _SAYS_MORE.search(reply, 1)
        whole = whole or _BRACKETED.fullmatch(reply) is not None
        return (choice_letter(reply, letters) if whole else None) or _closing(reply, letters)
    if (first := _first_line(reply, letters)) is not None:
        return first
    before, _, line = reply.rpartition("\n")
    if before.endswith("\n") and _BARE.fullmatch(line):
        line = f"({line[0]})"
    if len(line) > LINE or not _DRESSED.match(line):
        return _closing(line, letters)
    letter = choice_letter(line, letters)
    labels = {match["letter"] for match in _LABEL_LINE.finditer(before)}
    discussed = line.startswith("(") and letter in {match["letter"] for match in _LABEL_TEXT.finditer(before)}
    return None if labels - {letter} and not discussed else letter


def last_line(text: str, letters: Sequence[str]) -> str | None:
    """The letter that is the last line of several, below an empty one, and nothing else."""
    before, _, line = text.rstrip().rpartition("\n")
    bare = _BARE.fullmatch(line.strip(" *()`$")) if before.endswith("\n") else None
    return bare[0][0] if bare and bare[0][0] in letters else None


def _unfenced(reply: str) -> str:
    """The one line of a reply that is a code block."""
    if not (reply.startswith("```") and reply.endswith("```") and reply.count("\n") == 2):
        return reply
    return reply.split("\n")[1].strip()


def _first_line(reply: str, letters: Sequence[str]) -> str | None:
    """The letter of a reply that names it on its first line and gives reasons below."""
    line, _, after = reply.partition("\n")
    if len(line) > REPLY or not after.startswith("\n") or not _LETTER_FIRST.match(line) or _SAYS_MORE.search(line, 1):
        return None
    letter = choice_letter(line, letters)
    if letter == letters[0] and len(line.strip(" *_().`$")) > 1 and not _REASONS.match(after):
        return None  # the first option of a survey
    labels = {match["letter"] for match in _LABEL_LINE.finditer(after)}
    return None if labels - {letter} else letter


def _closing(line: str, letters: Sequence[str]) -> str | None:
    """The letter of a last sentence such as "Thus, C.", "So it must be (B)." or "Only (B) satisfies both."."""
    near = max(0, len(line) - REPLY)
    match = (
        _THUS.search(line, near)
        or _ARROW.search(line, near)
        or _ONLY.search(line, near)
        or _SO_IT_IS.search(line, near)
    )
    if match is None or _EITHER.search(line) or (match["open"] is None) != (match["close"] is None):
        return None
    return match["letter"] if match["letter"] in letters else None


def lone_line(text: str) -> str | None:
    """What a reply of one line says in words: "Sydney", or what its sentence states, "The capital is **Sydney**.".

    A sentence states what stands in bold, else what it quotes at its end, else what follows "is" there, else its only
    value.
    """
    line = text.strip()
    if not line or len(line) > REPLY or "\n" in line or _TALKS.search(line) or _DENIES.search(line):
        return None
    if (found := _HIGHLIGHTED.findall(line)) and len(set(found)) == 1:
        return (_AMOUNT.match(found[0]) or [found[0]])[0].strip(" .:")
    if stated := _NAMES.fullmatch(line) or _CITES.fullmatch(line):
        return next(said for said in stated.groups() if said).strip()
    if len(line.split()) > FEW and line.endswith(".") and (value := stated_value(line.rstrip("."))) is not None:
        return (_AMOUNT.match(value) or [value])[0]
    return line if len(line) <= LONE else None


def unannounced_value(text: str) -> str | None:
    """The value of a reply that is one, or of such a last line in bold."""
    reply = text.strip()
    before, _, line = reply.rpartition("\n")
    if before.endswith("\n") and line.startswith("**") and line.endswith("**") and not line.endswith((".**", ":**")):
        reply = line
    if len(reply) > REPLY or "\n" in reply or "box" in reply or ("=" in reply and reply[0] not in "$\\"):
        return None
    return lone_value(reply)


def stands_alone(text: str, at: int, after: int) -> bool:
    """Whether the announced small letter at `at` is all that is announced, and no label of a statement."""
    ending = _SMALL_END.match(text, after)
    if ending is None:
        return False
    if text[at] in "ai" and "." not in ending[0] and not _MARKED.search(text, max(0, at - 12), at):
        return False  # "The answer is a": an article before the cut
    return all(label[1] == text[at] for label in _SMALL_LABEL.finditer(text, max(0, at - 3_000), at + REPLY))
