"""Where in a text its final answer stands, and which tokens that is.

Training on the tokens of the answer itself teaches a policy to say what its votes say (OM-GRPO, arXiv:2608.03119). With
spans a trainer can leave them out of the loss, and of the KL term.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Sequence

__all__ = ["Span", "answer_span", "outside_span", "span_tokens"]

Span = tuple[int, int]

OCCURRENCES = 32  # looked at, from the last one on
PARTS = 16  # tokens that one character may have
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


def span_tokens(
    text: str, ids: Sequence[int], decode: Callable[[Sequence[int]], str], span: Span | None
) -> Span | None:
    """[first, last) of the tokens that share a character with `span`, for a stack that has token ids and no offsets.

    `ids` are the tokens of `text`, as they were generated: encoding the text again may give others. None without a
    span, or if no run of whole characters holds it.
    """
    if span is None:
        return None

    def whole(k: int) -> int | None:
        """Characters of the first k tokens, None if they end within one."""
        begun = decode(ids[:k])
        return len(begun) if text.startswith(begun) else None

    def near(characters: int) -> int:
        return bisect_left(range(len(ids) + 1), characters, key=lambda k: len(decode(ids[:k])))

    low, high = near(span[0] + 1), near(span[1])
    first = next(
        (k for k in range(low, max(low - PARTS, -1), -1) if (n := whole(k)) is not None and n <= span[0]), None
    )
    last = next(
        (k for k in range(high, min(high + PARTS, len(ids)) + 1) if (n := whole(k)) is not None and n >= span[1]), None
    )
    return None if first is None or last is None else (first, last)
