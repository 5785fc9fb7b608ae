"""Answers without an announcement that still say one thing: the reply "B", "42" or "Sydney", a last line "**(C)**"."""

from __future__ import annotations

import re
from collections.abc import Sequence

from ..._pattern import pattern
from ..languages import english
from ..markup import undecorated
from .letters import named
from .prose_values import COPULA
from .statements import lone_value, stated_value
from .values import is_operand

REPLY = 200  # characters of a reply that is an option and nothing else
FEW = 4  # words of a line that may be an answer and no sentence
LONE = 60  # characters of a reply in words that is its answer
LINE = 24  # characters of a last line that is a letter and its dress
_TALKS = pattern(
    rf"(?i)\b(?:{english('talks')}|cannot\b|none\b)|n['’]t\b|[?？…:：,]\s*+\Z"
    r"|\b(?:is|are|was|were|does|do|did|can|have|has)\s(?:not|never|no)\b"
)
_HIGHLIGHTED = pattern(r"\*\*([^*\n]{1,80})\*\*")
_AMOUNT = pattern(r"[-−]?[$€£]?\d[\d,]*+(?:\.\d++)?(?=\s(?!(?:hundred|[a-z]*(?:thousand|illion))\b)[a-z(]\D*\Z)")
_SUBJECT = r"(?:The|An?|My|Our|His|Her|Its|Their)\s(?:[^\s.:;?!'\"“‘]++\s){1,20}?"
_WHAT = r"(?!an?\b|in\b|at\b|to\b)(?P<what>[^,;:.!?\n]{1,60}(?:\.[^\s.]+)?)(?:,\s[^.]*)?+\.?"
_NAMES = pattern(rf"{_SUBJECT}(?:is|are|was|were)(?:\s{_WHAT}|:\s(?P<listed>[^.;:!?\n]{{1,120}})\.?)")
_CITES = pattern(r".{4,}?\b(?:is|was|are|named|called|titled|as):?\s['\"“‘*](?P<what>[^'\"“”*\n]{1,80})\.?['\"”’*]\.?")
# "(B) No" is an option with its text, "(B) is wrong" none.
_BRACKETED = pattern(r"(?i)\([A-Z]\)\s(?!(?:is|are|was|cannot|wrong|incorrect|excluded|eliminated)\b)\w+(?:\s\w+)?\.?")
_DRESSED = pattern(r"(?:\*\*|__|[(\[（【$`]|\\[(\[]|\\(?:text|mathrm|mathbf|textbf)\{)")
_SAYS_MORE = pattern(rf"\b(?:{english('says more')})|n['’]t\b|[?？…]|[:：,]\s*\Z|\.\.", re.IGNORECASE)
_LETTER_FIRST = pattern(
    r"(?:[\s*_`\"'$(（【{]|\[(?!\[)|\\(?:text(?:bf)?|math(?:rm|bf))(?![a-z])|\\[(\[])*+"
    r"(?:(?!A\s*+[:：])[A-ZＡ-Ｊ](?![A-Za-z])|(?<!\()[a-j]\)\s)"
)
_LABEL = pattern(
    r"(?:\A|\n)[\s*_#>(\[-]*+(?P<letter>[A-Z])[*_]*+(?:(?P<text>[.):\]](?=[*_]*+\s\S))|[.):\]：]|[*_\s]*+(?=\n))"
)
_REASONS = pattern(r"\s*+[*_#]*+(?:Explanation|Rationale|Reason(?:ing)?)\b")
_CLOSING = pattern(
    r"(?:(?<!\w)(?P<only>[Oo]nly\s)|(?<!\S)(?<![\W_][A-Z]\s)(?:⇒|→|[=-]{1,2}>)\s|(?<![\w,'’])(?i:(?:i'd|i would) say\s"
    r"|(?:it is |it's )?(?:definitely|clearly|obviously|certainly)\s"
    r"|(?:thus|hence|therefore|so|ergo|i\.e\.|then(?=.{1,30}\sit is)),?\s"
    r"(?:(?:it is|it's|it must be|must be|that is|that's|the letter is|the answer)\s)?"
    r"|(?:it is|it's|it must be|that is|that's|i\.e\.,?)\s))"
    r"[*_]{0,3}+(?P<open>\()?(?P<letter>[A-Z])(?P<close>\))?[*_]{0,3}+"
    rf"(?(only)\s(?:{english('holds alone')})[^.\n?]*+\.?|(?:\sit is)?[.!]?[*_]{{0,3}}+)\s*+\Z"
)
_TWO = pattern(r"[.;,]\s\(?[A-Z]\)?\s(?:is|are) (?:also )?(?:correct|right|true)\b")  # "C is correct. D is correct."
_SMALL_REPLY = pattern(r"[a-j][.)]?")
_EITHER = pattern(r"\b(?:either|or|whether|if|denote|call|label)\b", re.IGNORECASE)
_BARE = pattern(r"[A-Z]\.?")
_FENCED = pattern(r"\A```.*\n\s*(.*?)\s*\n```\Z")  # the one line of a reply that is a code block


def unannounced_letter(text: str, letters: Sequence[str]) -> str | None:
    """The letter of a reply that is an option ("B", "C. 12 m/s") or begins or ends with one."""
    reply = COPULA.sub("", undecorated(_FENCED.sub(r"\1", text.strip())).lstrip("✅✔☑→👉\ufe0f "))
    if _SMALL_REPLY.fullmatch(reply):
        return named(reply, letters)
    before, _, line = reply.rpartition("\n")
    if not before and len(line) <= REPLY and _TWO.search(line):
        return None
    if (first := _opening(reply, letters)) is not None:
        return first
    if before.endswith("\n") and _BARE.fullmatch(line):
        line = f"({line[0]})"
    if not before or len(line) > LINE or not _DRESSED.match(line):
        return _closing(line, letters)
    letter, labels = named(line, letters), _labels(before)
    return None if labels.keys() - {letter} and not (line.startswith("(") and labels.get(letter)) else letter


def last_line(text: str, letters: Sequence[str]) -> str | None:
    """The letter that is the last line of several, below an empty one, and nothing else."""
    before, _, line = text.rstrip().rpartition("\n")
    bare = _BARE.fullmatch(line.strip(" *()`$")) if before.endswith("\n") else None
    return bare[0][0] if bare and bare[0][0] in letters else None


def _opening(reply: str, letters: Sequence[str]) -> str | None:
    """The letter of a reply that is one line, or that names it on its first and gives reasons below."""
    line, _, after = reply.partition("\n")
    reasons = _REASONS.match(after) is not None
    if len(line) > REPLY or not (reasons or after[:1] in {"", "\n"}):
        return None
    if not _BRACKETED.fullmatch(line) and (not _LETTER_FIRST.match(line) or _SAYS_MORE.search(line, 1)):
        return None
    letter = named(line, letters)
    if after and letter == letters[0] and len(line.strip(" *_().`$")) > 1 and not reasons:
        return None  # the first option of a survey
    return None if _labels(after).keys() - {letter} else letter


def _labels(lines: str) -> dict[str | None, bool]:
    """The letters that label lines, each with whether one of these has a text."""
    found: dict[str | None, bool] = {}
    for label in _LABEL.finditer(lines):
        found[label["letter"]] = found.get(label["letter"], False) or label["text"] is not None
    return found


def _closing(line: str, letters: Sequence[str]) -> str | None:
    """The letter of a last sentence such as "Thus, C.", "So it must be (B)." or "Only (B) satisfies both."."""
    match = _CLOSING.search(line, max(0, len(line) - REPLY))
    if match is None or _EITHER.search(line) or (match["open"] is None) != (match["close"] is None):
        return None
    return match["letter"] if match["letter"] in letters else None


def lone_line(text: str) -> str | None:
    """What a reply of one line says in words: "Sydney", or what its sentence states, "The capital is **Sydney**.".

    A sentence states what stands in bold, else what it quotes at its end, else what follows "is" there, else its only
    value.
    """
    line = text.strip()
    if not line or len(line) > REPLY or "\n" in line or _TALKS.search(line):
        return None
    if (found := _HIGHLIGHTED.findall(line)) and len(set(found)) == 1:
        return _number(found[0]).strip(" .:")
    if stated := _NAMES.fullmatch(line) or _CITES.fullmatch(line):
        return next(said for said in stated.groups() if said).strip()
    if len(line.split()) > FEW and line.endswith(".") and (value := stated_value(line.rstrip("."))) is not None:
        return _number(value)
    return line if len(line) <= LONE else None


def _number(said: str) -> str:
    """`said` without the words behind its number, unless they do something to it."""
    amount = _AMOUNT.match(said)
    return said if amount is None or is_operand(said, amount.end()) else amount[0]


def unannounced_value(text: str) -> str | None:
    """The value of a reply that is one, or of such a last line in bold."""
    reply = text.strip()
    before, _, line = reply.rpartition("\n")
    if before.endswith("\n") and line.startswith("**") and line.endswith("**") and not line.endswith((".**", ":**")):
        reply = line
    if len(reply) > REPLY or "\n" in reply or "box" in reply or ("=" in reply and reply[0] not in "$\\"):
        return None
    return lone_value(reply)
