"""Where in a text its final answer stands, and which tokens that is.

Training on the tokens of the answer itself teaches a policy to say what its votes say (OM-GRPO, arXiv:2608.03119). With
spans a trainer can leave them out of the loss, and of the KL term.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

__all__ = ["Span", "answer_span", "outside_span"]

Span = tuple[int, int]

OCCURRENCES = 32  # looked at, from the last one on
STAND_INS = ("7", "x")  # a number and a letter, one of which no answer equals


def answer_span(text: str, read: Callable[[str], str | None]) -> Span | None:
    """[start, end) in characters of the answer that `read` finds in `text`, None if it stands nowhere as it is.

    The answer is where it is read from: of its occurrences the last one without which `read` finds another answer. So
    whatever the reader's rules are, the span follows them.
    """
    answer = read(text)
    if not answer:
        return None
    stand_in = next(s for s in STAND_INS if s not in answer or len(answer) > 1)
    end = len(text)
    for _ in range(OCCURRENCES):
        start = text.rfind(answer, 0, end)
        if start < 0:
            return None
        if read(text[:start] + stand_in + text[start + len(answer) :]) != answer:
            return start, start + len(answer)
        end = start + len(answer) - 1
    return None


def outside_span(offsets: Sequence[Span], span: Span | None) -> list[bool]:
    """A mask over tokens: False for those that share a character with `span`. Without a span nothing is masked.

    `offsets` are the tokens' [start, end) in characters, as fast tokenizers return them. Several tokens of one
    character, of which a tokenizer of bytes makes some, all have its offsets. A token without characters stays.
    """
    if span is None:
        return [True] * len(offsets)
    return [not (start < span[1] and end > span[0]) or start == end for start, end in offsets]
