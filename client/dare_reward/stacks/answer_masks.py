"""`train_on=reasoning`: the tokens of the final answer are not trained, neither by the loss nor by its KL term
(OM-GRPO, arXiv:2608.03119)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ..answers import Span, answer_span, outside_span, span_tokens
from ..openrlhf import AnswerRules, Label

NO_LABEL = Label()


def outside_answer(
    rollout: Mapping[str, Any], ids: Sequence[int], *, tokenizer: Any, rules: AnswerRules
) -> tuple[list[bool], bool]:
    """Which of the generated tokens `ids` to train, and whether there is an answer whose tokens cannot be told.

    False for the tokens that share a character with the answer as the run reads it. Without an answer, and without its
    place, every token is trained. `rollout` has the `text` that `ids` decode to without special tokens.
    """
    text = rollout["text"]

    def read(said: str) -> str | None:
        return rules.read({**rollout, "text": said}, NO_LABEL)

    span = answer_span(text, read)
    if span is None:
        return [True] * len(ids), bool(read(text))
    mask = _outside(text, ids, span, tokenizer)
    return mask or [True] * len(ids), mask is None


def _outside(text: str, ids: Sequence[int], span: Span, tokenizer: Any) -> list[bool] | None:
    """By the tokenizer's offsets, if it writes the text in the very tokens that were generated; else by decoding."""
    special = set(tokenizer.all_special_ids)
    own = [k for k, token in enumerate(ids) if token not in special]
    if getattr(tokenizer, "is_fast", False):
        again = tokenizer(text, add_special_tokens=False, return_offsets_mapping=True, verbose=False)
        if list(again["input_ids"]) == [ids[k] for k in own]:
            outside = dict(zip(own, outside_span(again["offset_mapping"], span), strict=True))
            return [outside.get(k, True) for k in range(len(ids))]
    found = span_tokens(text, ids, lambda some: tokenizer.decode(some, skip_special_tokens=True), span)
    return None if found is None else [not found[0] <= k < found[1] for k in range(len(ids))]
