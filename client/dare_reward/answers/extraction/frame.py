"""Where a reply begins and ends: its final turn, without the thinking, up to what is no reply any more.

    text -> final turn -> parts, the asked one first

A base model that has answered goes on with a further question of an imagined list, and a chat model that was shown
examples answers these again. So a reply that opens with a question has its own answer last; one that opens with text
has it first.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from itertools import groupby
from operator import itemgetter

from ..._pattern import pattern
from ..languages import PHRASES, english, every
from ..tables import listed
from .fields import without_stray_tags

MOST = 8  # parts that are looked at
ASKED = 1 << 16  # characters of a prompt, from its end, in which its question stands,
LINES = 64  # and lines of these
TELLING = 12  # characters of a line that tell one question from others
# What a chat template writes around the lines of a prompt.
_TEMPLATE = pattern(r"<[|｜][^<>|｜\n]{1,40}+[|｜]>|</?s>|<(?:start|end)_of_turn>|\[/?INST\]")

# End-of-turn tokens that detokenisation left in the text: what follows is another turn, or garbage.
_ENDS = listed("turn_ends")
_END = pattern("|".join(map(re.escape, _ENDS)))
_OPENING = pattern(
    r"\s*+(?:<(?:\|(?:im_start|endoftext|begin_of_text|assistant|begin_assistant)\|>|s>|start_of_turn>|\|turn>"
    r"|｜begin▁of▁sentence｜>|｜Assistant｜>)\s*+(?:(?:assistant|model)\b)?+\s*+"
    r"|<\|start_header_id\|>\s*+assistant\s*+<\|end_header_id\|>\s*+){1,4}+"
)
# Whatever a template or HTML may begin or end a part with; `i<j` is none.
_MARKUP = pattern(r"<(?:[<|/\uff5c]|br|[A-Za-z][^\s<>]{0,30}+>)")
_SQUARED = pattern(r"\[(?:/?THINK\]|unused1|BEGIN F)")  # of brackets, which formulas have
_CALCULATED = pattern(r"<<[^<>=\n]{1,80}+=[^<>\n]{1,40}+>>")  # of GSM8K's solutions: 3 + 4 = <<3+4=7>>7
_CHANNEL = "<|channel|>"
_HARMONY, _MESSAGE = "<|channel|>final", "<|message|>"  # between them may stand the format: <|constrain|>json
_THINK = [*zip(listed("thinking")[::2], listed("thinking")[1::2], strict=True)]
_THOUGHT = {mark: pair for pair in _THINK for mark in pair}
# What a template writes before the reply and nowhere else.
_REPLY = ("<|im_start|>answer\n", "[BEGIN FINAL RESPONSE]", "<|START_RESPONSE|>", "<|open|>response<|sep|>")
# Whatever of all these a text holds, in one search for each character that may begin it.
_MARKS = sorted({_CHANNEL, _HARMONY, *_THOUGHT, *_REPLY, *_ENDS}, key=len, reverse=True)
_MARK = {c: pattern("|".join(re.escape(mark) for mark in _MARKS if mark[0] == c)) for c in "<[◁"}
_ASKS = {*(word.capitalize() for word in every("question")), "Task", "Example", "Query", "question", "example"}
_NUMBERED = "(?:Problem|Question|Exercise|Example|Task)"
# The line of a further question, or of what stands before one in a prompt.
_LINE = (
    rf"(?:[ \t]*+[#*>]*+[ \t]*+(?:(?:Next|New|Another)[ \t])?+(?:{'|'.join(sorted(_ASKS, key=len, reverse=True))})"
    rf"[ \t]*+\d*+[ \t]*+\**+[ \t]*+[:：]|(?:#{{1,6}}[ \t]|\*\*){_NUMBERED}(?:[ \t]++\d++)?+\.?\**+[ \t]*+(?=\n|\Z)"
    rf"|{_NUMBERED}[ \t]++\d++\.?[ \t]*+(?=\n)"
    rf"|\*\*{_NUMBERED}[ \t]++\d++\.?\*\*|[\[<](?:[Qq]uestion|QUESTION|[Pp]roblem)[\]>]|(?:user|human)(?=\n|\Z)"
    rf"|(?i:[#*]*(?:{english('prompts')})))"
)
_INSTRUCTS = pattern(rf"(?i:\s*+[#*]*(?:{english('prompts')}))")
# What such a line begins with, behind its dress: nearly all others are told from it by their first letters.
_BEGINNINGS = sorted(
    {(word[0], re.escape(word[1:4])) for word in (*_ASKS, "user", "human", "<")}
    | {(word[0], word[1:] + r"[ \t]") for word in ("Next", "New", "Another")}
    | {(c, f"(?i:{re.escape(said[1:8])})") for said in PHRASES["prompts"] for c in (said[0], said[0].upper())}
)
_BRANCHES = [f"{c}(?:{'|'.join(rest for _, rest in same)})" for c, same in groupby(_BEGINNINGS, key=itemgetter(0))]
_LETTERS = "".join(w[0] for w in _BRANCHES) + r"\["
_SOON = rf"(?=[ \t#*>{_LETTERS}])(?=[ \t#*>]*+(?=[{_LETTERS}])(?:{'|'.join(_BRANCHES)}|\[))"
_QUESTION, _OPENS = pattern(r"\n" + _SOON + _LINE), pattern(r"\s*+" + _LINE)
# What a base model writes for the end of its answer, without its beginning.
_STRAY = pattern(r"(?<![A-Za-z<])<?(?:/(?:final_)?answer|/?end answer|answer)>", re.IGNORECASE)
_OPENED = pattern(r"<(?:final_)?answer>", re.IGNORECASE)
_EXPLAINS = pattern(rf"(?<=[.\n])\s?[#*]*+(?:{english('explains again')})", re.IGNORECASE)
_LEAD = 120  # characters that a reply may say before it opens with a question: "Here are the answers:"


def without_strays(turn: str) -> str:
    """A turn up to what a base model writes for its end, without tags that close nothing. Of a plain one it is all."""
    if ">" in turn and turn.rfind("nswer>") >= 0 and not _OPENED.search(turn):
        near = min(at for word in ("nswer>", "NSWER>") if (at := turn.find(word)) >= 0)
        stray = _STRAY.search(turn, max(0, near - 10))
        if stray and stray[0][0] in "aA" and turn[stray.end() : turn.find("</answer", stray.end()) + 1].strip(" <\n"):
            return f"{turn[: stray.start()]}<{turn[stray.start() :]}"  # a tag without its first character
        turn = turn[: stray.start()] if stray and turn.find("box", stray.end()) < 0 else turn
    return without_stray_tags(turn)


def is_plain(text: str) -> bool:
    """Whether a text has no mark of a template, no tag and no further question: all of it is the asked part."""
    return not (
        ("<" in text and _MARKUP.search(text))
        or ("[" in text and _SQUARED.search(text))
        or (">" in text and text.rfind("nswer>") >= 0)
        or "◁" in text
        or "\b" in text
        or _QUESTION.search(text)
    )


def parts(turn: str, prompt: str | None = None) -> list[str]:
    """The questions that a turn answers, the asked one first.

    Of a turn that opens with a question it is the one that the prompt asks, where this stands there; else the last.
    """
    found = [*_QUESTION.finditer(turn)]
    if found and not turn[found[-1].end() :].strip():
        turn = turn[: found.pop().start()]  # the label of one that never came
    if not found:
        return [turn]
    places = [match.start() for match in found]
    lead = turn[: min(places[0], _LEAD)]
    if _OPENS.match(turn) or not lead.strip() or (places[0] < _LEAD and lead.rstrip().endswith(":")):
        begins, ends = [0, *places], [*places, len(turn)]
        k, after = len(places), len(turn)
        if prompt is not None and (said := _restated(turn, prompt)) is not None:
            k, after = bisect_right(places, said[0]), said[1]
        if not turn[after : ends[k]].strip():
            k = len(places)  # it goes on with further questions before it answers the asked one
        return [turn[begins[k] : ends[k]]]
    if len(places) > MOST:
        places[MOST - 1 :] = places[-1:]
    return [turn[a:b] for a, b in zip([0, *places], [*places, len(turn)], strict=True)]


def _restated(turn: str, prompt: str) -> tuple[int, int] | None:
    """Where the turn says what the prompt asks: the last line of its last question that stands there once."""
    lines = [line for line in _TEMPLATE.sub("\n", prompt[-ASKED:]).split("\n") if line and not line.isspace()]
    for line in lines[: -LINES - 1 : -1]:
        label = _OPENS.match(line)
        said = line[label.end() :].strip() if label else line.strip()
        if len(said) >= TELLING and (at := turn.find(said)) >= 0 and turn.find(said, at + 1) < 0:
            return at, at + len(said)
        if label and not _INSTRUCTS.match(line) and "xample" not in label[0]:  # that may be an answer's, behind it
            break  # what stands above are examples
    return None


def before_explanation(part: str) -> str | None:
    """What stands before the explanation of an answer that is given first: "80 dollars", "Explanation: …"."""
    found = _EXPLAINS.search(part)
    return part[: found.start()] if found else None


def final_turn(text: str, *, open_think: bool = False) -> str | None:
    """The reply in what a template wrote: after the last closed thinking block, before the first end-of-turn token.

    None if a thinking block is open, unless `open_think` allows its text. Of a plain text it is all.
    """
    if "<<" in text:
        text = _CALCULATED.sub("", text)
    if "\b" in text:
        text = text.replace("\boxed", "\\boxed")  # written by what took the first two characters for a backspace
    found = {mark for c, marks in _MARK.items() if c in text for mark in marks.findall(text)}
    if _CHANNEL in found and _HARMONY not in found and not open_think:
        return None
    if _HARMONY in found:
        text = text.rpartition(_HARMONY)[2].partition(_MESSAGE)[2]
    text = next((text.rpartition(mark)[2] for mark in _REPLY if mark in found and mark in text), text)
    if opening := _OPENING.match(text):
        text = text[opening.end() :]
    if not found <= _THOUGHT.keys() and (end := _END.search(text)):
        text = text[: end.start()]
    for opens, closes in sorted({_THOUGHT[mark] for mark in found & _THOUGHT.keys()}, key=_THINK.index):
        if closes in found and (at := text.rfind(closes)) >= 0:  # faster than `in`, which searches forward
            text = text[at + len(closes) :]
        if opens in found and not open_think and text.rfind(opens) >= 0:
            return None
    return text
