"""The final answer in a rollout's text, or none.

    text -> final turn -> box or tag -> announcement in words -> (only if asked for) last sentence, number or letter

Nothing is guessed by default: a rollout that was cut off or that announces nothing has no answer, and so has one that
contradicts itself about a letter. Never raises on any `str`; time is linear in its length.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import Final, Literal, NamedTuple

from ..._pattern import pattern
from ..choices import option_letters
from ..cleanup import peel
from ..kinds import Kind
from ..markup import without_html
from .announced_content import exact_phrase, math_phrase, text_phrase
from .announcements import NEAR, announcements, box_is_taken_back, holding, lowered
from .fields import Mark, boxes, is_undecided, last_mark, listed, plain_box
from .frame import before_explanation, final_turn, is_plain, parts, without_strays
from .letters import announced_letter, bare_letter, choice_letter, last_letter
from .program_output import literal_phrase, lone_literal, marked_literal
from .prose_values import UNREAD, WORDS, last_side
from .statements import concluding_value, verdict
from .unannounced import last_line, lone_line, unannounced_letter, unannounced_value
from .values import PLAIN, readable, spans, values

Source = Literal["box", "tag", "phrase", "sentence", "fallback", "given", "none"]
Unmarked = Literal["none", "sentence", "number"]
_LINES = {"text": text_phrase, "exact": exact_phrase, "literal": literal_phrase}
_NUMBER = pattern(r"[-−]?(?:\d[\d,]*+(?:\.\d++)?|\.\d++)")
_SPAN = pattern(r"\$\$?+([^$]+)\$\$?+|\\\(((?:[^\\]|\\[^)])*+)\\\)|\\\[((?:[^\\]|\\[^\]])*+)\\\]")
_WORDS = pattern(r"(?<!\\)[A-Za-z]{3,} ")
_DONE = pattern(r"\d\s[a-z]+\Z")  # "3 quarters", "7 squared"
# 20 * 40 = 800, 300 / 60 = 5 minutes: nothing that a letter may stand for.
_SUM = pattern(r"(?:[^A-Za-z\\]|\\(?:\$|(?:times|cdot|div|[dt]?frac)(?![a-z]))){1,600}+(?:[a-z]{3,12}\.?)?")
_SENTENCE_ENDS = (".", "!", "$", "**", "\\)", "\\]", "。")
EMPTY: Final = "empty"
WHY_NONE: Final[Mapping[str, str]] = {
    EMPTY: "there is no text, or none that counts",
    "unannounced": "the text announces no answer",
    "thinking": "its thinking never ends",
    "cut_off": "its last box or tag never closes",
    "length": "it hit its length limit before it closed a box",
    "unclear": "it names no single option or value",
    "blank": "what it announces is blank",
}


@dataclass(slots=True)
class Extraction:
    """`answer` as written, before any normal form, or None; `source` says where it stood.

    `reason`: why there is none, a key of `WHY_NONE`; "blank" where there is an answer, for it may turn out to be.
    """

    answer: str | None
    source: Source
    reason: str = field(default="blank", compare=False)

    @property
    def why(self) -> str:
        """`reason` as a sentence."""
        return WHY_NONE[self.reason]


_NONE = Extraction(None, "none", "unannounced")
_THINKING = Extraction(None, "none", "thinking")
_CUT_OFF = Extraction(None, "none", "cut_off")
_LIMITED = Extraction(None, "none", "length")
_UNCLEAR = Extraction(None, "none", "unclear")


class Asked(NamedTuple):
    """How texts are to be read: the arguments of `extract`."""

    kind: Kind = "math"
    options: Sequence[str] | None = None
    closed_only: bool = False
    unmarked: Unmarked = "sentence"
    open_think: bool = False
    prompt: str | None = None


def extract(
    text: str,
    *,
    kind: Kind = "math",
    options: Sequence[str] | None = None,
    closed_only: bool = False,
    unmarked: Unmarked = "sentence",
    open_think: bool = False,
    prompt: str | None = None,
) -> Extraction:
    """The final answer of `text`.

    1. Only the final turn counts: after the last `</think>`, before the first end-of-turn token, and before a further
       question that the model put to itself, if it had answered by then. Of several questions that the text repeats,
       `prompt` tells the asked one. An open `<think>` is no answer, unless `open_think` allows it.
    2. The last `<answer>…</answer>`, GLM box or closed `\\boxed`/`\\fbox` with something in it, whichever is last. If
       the last one never closes, the text was cut off: no answer.
    3. Without any, the last announcement: "the answer is", "Answer:", "#### x", a "Final Answer" heading, in the main
       languages. math takes a maths span, else an expression or number, else a few words; text the line or sentence;
       exact the line, code point for code point.
    4. choice: box, tag and announcement must name one letter of `options`.
    5. Without any of these, a reply that is nothing but a letter, an option, a number or a maths span.

    `closed_only`: the rollout hit its length limit, so only 2 counts. `unmarked`: what is taken at last from a text
    that announces nothing: with "sentence" the one value that its last sentence states (math) or the whole reply if it
    is one short line (text), with source "sentence"; with "number" the last number (math) or bare letter (choice), with
    source "fallback".
    """
    return read(text, Asked(kind, options, closed_only, unmarked, open_think, prompt))


def read(text: str, asked: Asked) -> Extraction:
    """`extract` with its arguments gathered."""
    kind, plain = asked.kind, is_plain(text)
    letters = option_letters(asked.options) if kind == "choice" else ()
    if not plain:
        turn = final_turn(text, open_think=asked.open_think)
        if turn is None:
            return _THINKING
        text, plain = turn, is_plain(turn)
    if plain and kind == "math" and (box := plain_box(text)) is not None:
        return Extraction(box, "box")
    turn = text if plain else without_strays(text)
    if not turn:
        return _NONE
    if kind != "exact" and not plain:
        turn = without_html(turn)
    found, questions = _NONE, [turn] if plain else parts(turn, asked.prompt)
    for part in questions:
        found = _said(part, asked, letters, follows=part is not questions[-1])
        if found.answer is None and kind == "math" and (first := before_explanation(part)):
            found = _said(first, asked, letters)
        if found.answer is not None:
            return found
        if found is _UNCLEAR:
            break  # a further question's answer does not stand for it
    guesses = asked.unmarked == "number" and not asked.closed_only
    return (_guessed(turn, kind, letters) if guesses else None) or found


def _said(part: str, asked: Asked, letters: tuple[str, ...], *, follows: bool = False) -> Extraction:
    """What a question's answer announces, else what its last sentence states; `follows`: another question does."""
    found = _read(part, asked.kind, letters, closed_only=asked.closed_only)
    if found is not _NONE or asked.unmarked != "sentence" or asked.closed_only or asked.kind not in {"math", "text"}:
        return found
    said = concluding_value(part, follows=follows) if asked.kind == "math" else lone_line(part)
    return found if said is None else Extraction(said, "sentence")


def _read(text: str, kind: Kind, letters: tuple[str, ...], *, closed_only: bool) -> Extraction:
    if kind == "math" and (box := plain_box(text)) is not None:
        return Extraction(box, "box")
    mark = last_mark(text)
    if mark is not None and mark.source == "box" and mark.content and box_is_taken_back(text, mark.end):
        return _UNCLEAR
    if kind == "choice":
        return _choice(text, mark, letters, closed_only=closed_only)
    if mark is not None:
        return _field(text, mark, kind, closed_only=closed_only)
    if closed_only:
        return _LIMITED
    phrase = _phrase(text, kind)
    if phrase is None and kind in {"math", "literal"}:
        phrase = unannounced_value(text) if kind == "math" else lone_literal(text)
    if phrase is None:
        return _NONE
    return _UNCLEAR if kind == "math" and (phrase == UNREAD or is_undecided(phrase)) else Extraction(phrase, "phrase")


def _field(text: str, mark: Mark, kind: Kind, *, closed_only: bool) -> Extraction:
    """The answer in a box, a tag or another field."""
    if mark.source == "box" and mark.content is not None and kind == "math":
        said = listed(text, mark)
        return _UNCLEAR if is_undecided(said) else Extraction(said, "box")
    content = _marked(mark, kind)
    if content is None and kind == "math" and mark.source == "tag" and not closed_only:
        rest = text[mark.end :]  # where the text ends, though its tag never closes
        content = rest if rest.rstrip().endswith(_SENTENCE_ENDS) and any(map(str.isalnum, rest)) else None
    if content is None:
        return _CUT_OFF
    if kind == "math" and mark.source in {"tag", "string"}:
        content = _inside(content)
    if content is None or (kind == "math" and is_undecided(content)):
        return _UNCLEAR
    return Extraction(content, "box" if mark.source == "box" else "tag") if content else _NONE


def _marked(mark: Mark, kind: Kind) -> str | None:
    """What a box or a field says, by the kind of the question; None where it never closes."""
    if mark.content is None:
        return None
    if kind == "literal":
        return marked_literal(mark)
    if kind != "math":
        return peel(mark.content) if kind == "text" else mark.content.strip()
    return _items(mark.content) if mark.source == "value" else mark.content


def _choice(text: str, mark: Mark | None, letters: tuple[str, ...], *, closed_only: bool) -> Extraction:
    if mark is not None:
        if mark.content is None:
            return _CUT_OFF
        source: Source = "box" if mark.source == "box" else "tag"
        if (letter := choice_letter(mark.content, letters)) is not None:
            both = bare_letter(listed(text, mark), letters) if source == "box" else None
            return _UNCLEAR if both is not None and both.content is None else Extraction(letter, source)
        if bare_letter(mark.content, letters) is not None:
            return _UNCLEAR
        earlier = boxes(text, 3)[1:] if source == "box" else ()  # before a box that holds a value
        if letter := next(filter(None, (choice_letter(box.content or "", letters) for box in earlier)), None):
            return Extraction(letter, source)
    if closed_only:
        return _LIMITED
    letter = announced_letter(text, letters)
    if mark is None and letter is None:
        letter = unannounced_letter(text, letters)
    elif mark is None and (last := last_line(text, letters)) and not any(announcements(text, lowered(text))):
        letter = last  # what prose says about another option does not announce it
    return _UNCLEAR if letter is None else Extraction(letter, "phrase")


def _phrase(text: str, kind: Kind) -> str | None:
    """What the announcement that holds says."""
    low, near = lowered(text), max(0, len(text) - NEAR)
    found = chain(announcements(text, low, near), announcements(text, low, 0, near) if near else ())
    if kind == "math":
        said = (value for one in found if (value := math_phrase(text, one)) is not None)
    else:
        lines = ((one, _LINES[kind](text, one)) for one in found)
        said = (replace(one, content=line) for one, line in lines if line is not None)
    last = holding(text, said)
    return None if last is None else last.content


def _inside(content: str) -> str | None:
    """What a field says about mathematics: its box, span, announcement, or what it concludes; None where it is none.

    What is neither a value nor a few words is not taken whole: a derivation is no vote.
    """
    if PLAIN.fullmatch(content):
        return content  # by far the most common
    for box in boxes(content, 1):
        return box.content
    if content.count('"') == 1:
        content = content.strip('" ')  # of JSON that was not written
    if span := _SPAN.fullmatch(content):
        return (span[1] or span[2] or span[3] or content).strip()
    if (phrase := _phrase(content, "math")) is not None:
        return phrase or None
    few, derived = len(content.split()) <= 2, "=" in content and _WORDS.search(content) is not None
    if few and any(v.content is None for v in values(content)) and _DONE.search(content):
        return None
    if few or (not derived and readable(content)):
        return last_side(content) if _SUM.fullmatch(content) and not spans(content) else content
    if (value := verdict(content) or concluding_value(content, ended=True)) is not None:
        return value
    few = len(content.split()) <= WORDS
    return content if few and (not values(content) or readable(content)) else None


def _items(content: str) -> str:
    """A value of JSON that is no string: the items of a list of strings, the pairs of an object."""
    try:
        value = json.loads(content)
    except (ValueError, RecursionError):
        return content
    if isinstance(value, dict):
        return ", ".join(f"{name} = {item}" for name, item in value.items())
    return ", ".join(map(str, value)) if isinstance(value, list) and '"' in content else content


def _guessed(text: str, kind: Kind, letters: tuple[str, ...]) -> Extraction | None:
    """The last number or letter of a text that announces nothing."""
    if kind == "choice" and (letter := last_letter(text, letters)) is not None:
        return Extraction(letter, "fallback")
    if kind == "math" and (numbers := _NUMBER.findall(text)):
        return Extraction(numbers[-1].rstrip(","), "fallback")
    return None
