"""Where the response begins in a `query` of OpenRLHF, which holds the prompt too.

Every search goes over pieces of the text: other threads run between two of them, however long the query is.
"""

from __future__ import annotations

from collections.abc import Iterator

__all__ = ["response_start"]

# What an assistant's turn begins with, if the prompt cannot be found in the query.
TURNS = (
    "<|im_start|>assistant",
    "<|start_header_id|>assistant<|end_header_id|>",
    "<start_of_turn>model",
    "<｜Assistant｜>",
    "<|assistant|>",
    "[/INST]",
)
TAILS = (1024, 256, 64)
SPACELESS = 64
PIECE = 1 << 18  # characters that are searched at a time, a fraction of a millisecond


def response_start(query: str, prompt: str) -> tuple[int, bool]:
    """Index of the first generated character, and whether the prompt was found in the query.

    A query is decode(encode(prompt) + response), with special tokens: it may begin with a token that the prompt lacks,
    its spaces may differ, and of a long prompt only the end may be there. So after the whole prompt its last characters
    are looked for, then the same without regard to spaces.
    """
    if query.startswith(prompt):
        return len(prompt), True
    for length in TAILS:
        tail = prompt[-length:]
        if tail and (at := _find(query, tail)) >= 0:
            return at + len(tail), True
    marks = "".join(prompt.split())[-SPACELESS:]
    if marks and (end := _end_spaceless(query, marks)) >= 0:
        return end, True
    return max((_end_of_last(query, turn) for turn in TURNS), default=0), False


def _starts(text: str) -> Iterator[int]:
    return iter(range(0, len(text), PIECE))


def _find(text: str, part: str) -> int:
    """`text.find(part)`."""
    found = (text.find(part, at, at + PIECE + len(part) - 1) for at in _starts(text))
    return next((at for at in found if at >= 0), -1)


def _end_of_last(text: str, part: str) -> int:
    """Where the last `part` ends; 0 if there is none."""
    for at in reversed(range(0, len(text), PIECE)):
        found = text.rfind(part, at, at + PIECE + len(part) - 1)
        if found >= 0:
            return found + len(part)
    return 0


def _end_spaceless(text: str, marks: str) -> int:
    """Where the first `marks` ends in the text, whatever white space stands between its characters; -1: nowhere."""
    before = ""
    for start in _starts(text):
        piece = text[start : start + PIECE]
        bare = before + "".join(piece.split())
        if (at := bare.find(marks)) >= 0:
            return start + _end_of_nth(piece, at + len(marks) - len(before))
        before = bare[-(len(marks) - 1) :] if len(marks) > 1 else ""
    return -1


def _end_of_nth(piece: str, number: int) -> int:
    """Where the `number`-th character that is no white space ends."""
    for at, character in enumerate(piece, 1):
        number -= not character.isspace()
        if not number:
            return at
    raise ValueError("the piece holds fewer characters")
