"""Where a reply begins and ends: its final turn, without the thinking, up to what is no reply any more.

    text -> final turn -> parts, the asked one first

A base model that has answered goes on with a further question of an imagined list, and a chat model that was shown
examples answers these again. So a reply that opens with a question has its own answer last; one that opens with text
has it first.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Mapping

from ..._pattern import pattern
from ..languages import PHRASES, english, every
from .fields import without_stray_tags

MOST = 8  # parts that are looked at
LINES = 64  # of a prompt, from its end, in which its question stands
TELLING = 12  # characters of a line that tell one question from others

# An end-of-turn token that detokenisation left in the text: what follows is another turn, or garbage.
_END = pattern(
    r"<(?:\|(?:im_end|im_start|eot_id|eom_id|endoftext|end_of_text|begin_of_text|start_header_id|end|return|user|EOT"
    r"|END_OF_TURN_TOKEN|endofturn|END_RESPONSE|end_of_msg|begin_user|close\|>response<\|sep)\|>|\|turn>|turn\|>|/s>|eos>|end_of_turn>|start_of_turn>|｜end▁of▁sentence｜>|｜User｜>)"
)
_OPENING = pattern(
    r"\s*+(?:<(?:\|(?:im_start|endoftext|begin_of_text|assistant|begin_assistant)\|>|s>|start_of_turn>|\|turn>"
    r"|｜begin▁of▁sentence｜>|｜Assistant｜>)\s*+(?:(?:assistant|model)\b)?+\s*+"
    r"|<\|start_header_id\|>\s*+assistant\s*+<\|end_header_id\|>\s*+){1,4}+"
)
_MARKUP = pattern(r"<[|/A-Za-z\uff5c]")
_CHANNEL = "<|channel|>"
_HARMONY, _MESSAGE = "<|channel|>final", "<|message|>"  # between them may stand the format: <|constrain|>json
Pairs = tuple[tuple[str, str], ...]
# A word of each pair, which is looked for first, and the pair.
_THINK: dict[str, Pairs] = {
    "hink>": (("<think>", "</think>"), ("<seed:think>", "</seed:think>"), ("<longcat_think>", "</longcat_think>")),
    "thinking>": (("<thinking>", "</thinking>"),),
    "THINK": (("[THINK]", "[/THINK]"), ("<|START_THINKING|>", "<|END_THINKING|>")),
    "think▷": (("◁think▷", "◁/think▷"),),
    "thought": (("<thought>", "</thought>"), ("<|begin_of_thought|>", "<|end_of_thought|>")),
    "reasoning>": (("<reasoning>", "</reasoning>"),),
    "channel": (("<|channel>", "<channel|>"),),
    "|inner_": (("<|inner_prefix|>", "<|inner_suffix|>"),),
    "think<": (("<|open|>think<|sep|>", "<|close|>think<|sep|>"),),
    "[unused1": (("[unused16]", "[unused17]"),),
}
_SQUARE = {word: square for word, pairs in _THINK.items() if (square := tuple(p for p in pairs if p[0][0] == "["))}
# What a template writes before the reply and nowhere else.
_REPLY = ("<|im_start|>answer\n", "[BEGIN FINAL RESPONSE]", "<|START_RESPONSE|>", "<|open|>response<|sep|>")
_ASKS = sorted({*(word.capitalize() for word in every("question")), "Task", "Example", "question", "example"}, key=len)
_NUMBERED = "(?:Problem|Question|Exercise|Example|Task)"
# The line of a further question, or of what stands before one in a prompt.
_LINE = (
    rf"(?:[ \t]*+[#*>]*+[ \t]*+(?:(?:Next|New|Another)[ \t])?+(?:{'|'.join(reversed(_ASKS))})"
    rf"[ \t]*+\d*+[ \t]*+\**+[ \t]*+[:：]|(?:#{{1,6}}[ \t]|\*\*){_NUMBERED}(?:[ \t]++\d++)?+\.?\**+[ \t]*+(?=\n|\Z)"
    rf"|\*\*{_NUMBERED}[ \t]++\d++\.?\*\*|[\[<](?:[Qq]uestion|QUESTION|[Pp]roblem)[\]>]|(?:user|human)(?=\n|\Z)"
    rf"|(?i:[#*]*(?:{english('prompts')})))"
)
_QUESTION, _OPENS = pattern(r"\n" + _LINE), pattern(r"\s*+" + _LINE)
_BEGINNINGS = [*_ASKS, "Next", "New", "Another", "user", "human", *PHRASES["prompts"]]
# What such a line begins with, behind its dress, so that nearly all others are told from it.
_THREE = frozenset(said[:3] for word in _BEGINNINGS for said in (word, word.capitalize(), word.upper()) if word[2:])
_ONE = frozenset({"[", "<", *(word[0] for word in _ASKS if not word[2:])})
# What a base model writes for the end of its answer, without its beginning.
_STRAY = pattern(r"(?<![A-Za-z<])<?(?:/(?:final_)?answer|/?end answer|answer)>", re.IGNORECASE)
_OPENED = pattern(r"<(?:final_)?answer>", re.IGNORECASE)
_EXPLAINS = pattern(rf"(?<=[.\n])\s?[#*]*+(?:{english('explains again')})", re.IGNORECASE)
_LEAD = 120  # characters that a reply may say before it opens with a question: "Here are the answers:"


def final_turn(text: str, *, open_think: bool = False) -> str | None:
    """The text after the last closed thinking block and before the first end-of-turn token.

    None if a thinking block is open, unless `open_think` allows its text.
    """
    if "\b" in text:
        text = text.replace(
            "\boxed", "\\boxed"
        )  # written by something that took the first two characters for a backspace
    marked = "<" in text and _MARKUP.search(text) is not None
    turn: str | None = text
    if marked:
        if _CHANNEL in text and _HARMONY not in text and not open_think:
            return None
        text = _reply(text)
        if opening := _OPENING.match(text):
            text = text[opening.end() :]
        if end := _END.search(text):
            text = text[: end.start()]
        turn = _after_thinking(text, _THINK, open_think=open_think)
    elif "[" in text or "◁" in text:
        turn = _after_thinking(_reply(text), _THINK if "◁" in text else _SQUARE, open_think=open_think)
    if turn and ">" in turn and "nswer>" in turn and not _OPENED.search(turn):
        stray = _STRAY.search(turn)
        turn = turn[: stray.start()] if stray and turn.find("box", stray.end()) < 0 else turn
    return without_stray_tags(turn) if turn and marked else turn


def parts(turn: str, prompt: str | None = None) -> list[str]:
    """The questions that a turn answers, the asked one first.

    Of a turn that opens with a question it is the one that the prompt asks, where this stands there; else the last.
    """
    lines = [line for line in turn.split("\n") if (s := line.lstrip(" \t#*>"))[:3] in _THREE or s[:1] in _ONE]
    if not any(map(_OPENS.match, lines)):
        return [turn]
    places = [match.start() for match in _QUESTION.finditer(turn)] or [0]
    lead = turn[: min(places[0], _LEAD)]
    if _OPENS.match(turn) or not lead.strip() or (places[0] < _LEAD and lead.rstrip().endswith(":")):
        at = len(turn) if prompt is None else _restated(turn, prompt)
        begins, ends = [0, *places], [*places, len(turn)]
        k = bisect_right(places, at)
        return [turn[begins[k] : ends[k]]]
    if len(places) > MOST:
        places[MOST - 1 :] = places[-1:]
    return [turn[a:b] for a, b in zip([0, *places], [*places, len(turn)], strict=True)]


def _restated(turn: str, prompt: str) -> int:
    """Where the turn says what the prompt asks: the last line of the prompt that stands there once. Else its end."""
    for line in reversed(prompt.rsplit("\n", LINES)[-LINES:]):
        label = _OPENS.match(line)
        said = line[label.end() :].strip() if label else line.strip()
        if len(said) >= TELLING and (at := turn.find(said)) >= 0 and turn.find(said, at + 1) < 0:
            return at
    return len(turn)


def before_explanation(part: str) -> str | None:
    """What stands before the explanation of an answer that is given first: "80 dollars", "Explanation: …"."""
    found = _EXPLAINS.search(part)
    return part[: found.start()] if found else None


def _reply(text: str) -> str:
    """What follows the mark that a template writes before the reply."""
    if _CHANNEL in text and _HARMONY in text:
        text = text.rpartition(_HARMONY)[2].partition(_MESSAGE)[2]
    for mark in _REPLY:
        if (mark[0] == "[" or "<" in text) and text.rfind(mark) >= 0:
            return text.rpartition(mark)[2]
    return text


def _after_thinking(text: str, pairs_of: Mapping[str, Pairs], *, open_think: bool) -> str | None:
    for opening, closing in [pair for word, pairs in pairs_of.items() if word in text for pair in pairs]:
        end = text.rfind(closing)
        if end >= 0:
            text = text[end + len(closing) :]
        if text.rfind(opening) >= 0 and not open_think:
            return None
    return text
