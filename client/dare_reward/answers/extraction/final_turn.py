"""The part of a rollout in which its answer stands: the final turn, without the thinking, up to a run-on question."""

from __future__ import annotations

from ..._pattern import pattern
from ..languages import every
from .fields import without_stray_tags

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
# A word of each pair, which is looked for first, and the pair.
_THINK = {
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
# A base model that has answered often goes on with the next question of an imagined list.
_QUESTION = pattern(
    rf"\n(?:[ \t]*+[#*>]*+[ \t]*+(?:{'|'.join(word.capitalize() for word in every('question'))})"
    r"[ \t]*+\d*+[ \t]*+\**+[ \t]*+[:：]"
    r"|(?:#{1,6}[ \t]|\*\*)(?:Problem|Question|Exercise|Example)[ \t]++\d++\.?\**+[ \t]*+(?=\n))"
)


def final_turn(text: str, *, open_think: bool = False) -> str | None:
    """The text after the last closed thinking block and before the first end-of-turn token.

    None if a thinking block is open, unless `open_think` allows its text.
    """
    if "\b" in text:
        text = text.replace(
            "\boxed", "\\boxed"
        )  # written by something that took the first two characters for a backspace
    marked = "<" in text and _MARKUP.search(text) is not None
    if marked:
        if _CHANNEL in text and _HARMONY not in text and not open_think:
            return None
        text = _reply(text)
        if opening := _OPENING.match(text):
            text = text[opening.end() :]
        if end := _END.search(text):
            text = text[: end.start()]
    elif "[" not in text and "◁" not in text:
        return text
    else:
        text = _reply(text)
    turn = _after_thinking(text, open_think=open_think, marked=marked)
    return without_stray_tags(turn) if turn and marked else turn


def _reply(text: str) -> str:
    """What follows the mark that a template writes before the reply."""
    if _CHANNEL in text and _HARMONY in text:
        text = text.rpartition(_HARMONY)[2].partition(_MESSAGE)[2]
    for mark in _REPLY:
        if (mark[0] == "[" or "<" in text) and text.rfind(mark) >= 0:
            return text.rpartition(mark)[2]
    return text


def questions(text: str) -> list[int]:
    """Where up to eight lines begin that open another question."""
    if ":" not in text and "：" not in text and "#" not in text and "*" not in text:
        return []
    found = []
    for match in _QUESTION.finditer(text):
        found.append(match.start())
        if len(found) == 8:
            break
    return found


def _after_thinking(text: str, *, open_think: bool, marked: bool) -> str | None:
    think = _THINK if marked or "\u25c1" in text else _SQUARE
    for opening, closing in [pair for word, pairs in think.items() if word in text for pair in pairs]:
        end = text.rfind(closing)
        if end >= 0:
            text = text[end + len(closing) :]
        if text.rfind(opening) >= 0 and not open_think:
            return None
    return text
