"""Which generated tokens a rollout's final answer stands in: for `over=answer`, whose entropies these are, and for
`train_on=reasoning`, where they are trained neither by the loss nor by its KL term (OM-GRPO, arXiv:2608.03119)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ..answers import Span, answer_span, outside_span, span_tokens
from ..openrlhf import AnswerRules, Label

NO_LABEL = Label()


def answer_tokens(
    rollout: Mapping[str, Any], ids: Sequence[int], *, tokenizer: Any, rules: AnswerRules, label: Label = NO_LABEL
) -> tuple[Span | None, bool]:
    """[first, last) of the generated tokens `ids` that share a character with the answer as the run reads it, and
    whether there is an answer whose tokens cannot be told.

    `rollout` has the `text` that `ids` decode to without special tokens; a stop string may be cut off its end.
    """
    text = rollout["text"]

    def read(part: str) -> str | None:
        return rules.read({**rollout, "text": part}, label)

    span = answer_span(text, read)
    tokens = None if span is None else _tokens(text, ids, span, tokenizer)
    return tokens, tokens is None and (span is not None or bool(read(text)))


def outside_answer(
    rollout: Mapping[str, Any], ids: Sequence[int], *, tokenizer: Any, rules: AnswerRules
) -> tuple[list[bool], bool]:
    """Which of the generated tokens `ids` to train: without an answer, and without its place, every one. And whether
    there is an answer whose tokens cannot be told."""
    span, lost = answer_tokens(rollout, ids, tokenizer=tokenizer, rules=rules)
    first, last = span or (0, 0)
    return [not first <= k < last for k in range(len(ids))], lost


def _tokens(text: str, ids: Sequence[int], span: Span, tokenizer: Any) -> Span | None:
    """By the tokenizer's offsets, if it writes the text in the very tokens that were generated; else by decoding."""
    special = set(getattr(tokenizer, "all_special_ids", ()))
    ordinary = [k for k, token in enumerate(ids) if token not in special]
    if getattr(tokenizer, "is_fast", False):
        again = tokenizer(text, add_special_tokens=False, return_offsets_mapping=True, verbose=False)
        if list(again["input_ids"]) == [ids[k] for k in ordinary]:
            outside = outside_span(again["offset_mapping"], span)
            inside = [k for k, out in zip(ordinary, outside, strict=True) if not out]
            return (inside[0], inside[-1] + 1) if inside else None
    return span_tokens(text, ids, lambda some: tokenizer.decode(some, skip_special_tokens=True), span)
