"""Where in a text its final answer stands, and which tokens that is.

Training on the tokens of the answer itself teaches a policy to say what its votes say (OM-GRPO, arXiv:2608.03119). With
spans a trainer can leave them out of the loss, and of the KL term.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from itertools import chain

Span = tuple[int, int]
SCANNED = 1024  # occurrences of an answer that may be part of many words, from the last one on
LONG = 8  # characters of one that is not
TRIED = 32  # of those that are no part of a word, and of the others
PARTS = 16  # tokens that one character may have
STAND_INS = ("7", "x")  # a number and a letter, one of which no answer equals
CHOICES = ("A", "B")


def answer_span(text: str, read: Callable[[str], str | None]) -> Span | None:
    """[start, end) in characters of the answer that `read` finds in `text`, None if it stands nowhere as it is.

    Args:
        text: the rollout's text
        read: the reader, as `lambda text: extract(text).answer`

    The answer is where it is read from: of its occurrences the last one without which `read` finds another answer. So
    whatever the reader's rules are, the span follows them. Those within words come last: with the n of `</answer>` gone
    there is another answer too.
    """
    answer = read(text)
    if not answer:
        return None
    stand_ins = [next(s for s in STAND_INS if s not in answer or len(answer) > 1)]
    if len(answer) == 1 and answer.isalpha():  # a choice, and in place of it a number is none: an earlier one is read
        stand_ins.append(next(s for s in CHOICES if s != answer.upper()))
    spellings = [(text, answer)]
    if len(text.lower()) == len(text):  # the choice B may be written b
        spellings.append((text.lower(), answer.lower()))
    seen = set[int]()
    for start in chain.from_iterable(_occurrences(*own) for own in spellings):
        end = start + len(answer)
        if start in seen:
            continue
        seen.add(start)
        if any(read(text[:start] + stand_in + text[end:]) != answer for stand_in in stand_ins):
            return start, end
    return None


def _occurrences(text: str, answer: str) -> Iterator[int]:
    """Where `answer` begins in `text`, from the last place on; those within a word come after the others."""
    tried, within, end = 0, list[int](), len(text)
    for _ in range(SCANNED if len(answer) < LONG else TRIED):
        if tried == TRIED or (start := text.rfind(answer, 0, end)) < 0:
            break
        end = start + len(answer) - 1
        if _in_word(text, start) or _in_word(text, start + len(answer)):
            within.append(start)
        else:
            tried += 1
            yield start
    yield from within[:TRIED]


def _in_word(text: str, at: int) -> bool:
    """Letters on both sides."""
    return 0 < at < len(text) and text[at - 1 : at + 1].isalpha()


def outside_span(offsets: Sequence[Span], span: Span | None) -> list[bool]:
    """A mask over tokens: False for those that share a character with `span`. Without a span nothing is masked.

    Args:
        offsets: the tokens' [start, end) in characters, as fast tokenizers return them. Several tokens of one
            character, of which a tokenizer of bytes makes some, all have its offsets. A token without characters stays.
        span: [start, end) in characters, or None
    """
    if span is None:
        return [True] * len(offsets)
    return [not (start < span[1] and end > span[0]) or start == end for start, end in offsets]


def span_tokens(
    text: str, ids: Sequence[int], decode: Callable[[Sequence[int]], str], span: Span | None
) -> Span | None:
    """[first, last) of the tokens that share a character with `span`, for a stack that has token ids and no offsets.

    Args:
        text: the rollout's text
        ids: its tokens as they were generated; encoding the text again may give others
        decode: the tokenizer's
        span: [start, end) in characters, or None

    Returns:
        None without a span, or if no run of whole characters contains it.
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
