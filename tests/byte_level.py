"""Answers of characters that are several bytes, and so several tokens, at both edges; and which tokens that is."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import accumulate
from typing import Any

SPECIAL = ("<|endoftext|>", "<|im_end|>")
# What a policy says and its answer. The groups of four differ; in the second all agree, so that no advantage is left.
MIXED = (
    ("ответ: \\boxed{½π}🙂", "½π"),
    ("so it is \\boxed{12}, 12", "12"),
    ("it is \\boxed{½π}", "½π"),
    ("nothing", None),
)
AGREED = tuple((f"{word}, {word} \\boxed{{€5¥}} {word}", "€5¥") for word in ("да", "yes", "はい", "oui"))


def trained(
    size: int = 290,
    texts: Iterable[str] = tuple(text for text, _ in MIXED + AGREED),
    special: Iterable[str] = SPECIAL,
) -> Any:
    """A byte-level BPE whose merges do not follow the edges of the answers; of 257 tokens it has no merges."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

    inner = Tokenizer(models.BPE())
    inner.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    inner.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(
        vocab_size=size, initial_alphabet=alphabet, special_tokens=list(special), show_progress=False
    )
    inner.train_from_iterator(texts, trainer)
    return inner


def tokenizer() -> Any:
    from transformers import PreTrainedTokenizerFast

    return PreTrainedTokenizerFast(tokenizer_object=trained(), pad_token=SPECIAL[0], eos_token=SPECIAL[1])


class Fast:
    """The same where transformers is not installed: what is called of its fast tokenizers."""

    is_fast, all_special_ids = True, (0, 1)

    def __init__(self) -> None:
        self.inner = trained()

    def __call__(self, text: str, **_: Any) -> dict[str, Any]:
        encoded = self.inner.encode(text)
        return {"input_ids": encoded.ids, "offset_mapping": encoded.offsets}

    def decode(self, ids: Iterable[int], *, skip_special_tokens: bool) -> str:
        return self.inner.decode(list(ids), skip_special_tokens=skip_special_tokens)


def outside(tokens: list[str], text: str, answer: str | None) -> list[bool]:
    """Which tokens share no byte with the answer in its box: in a byte-level vocabulary a letter of a token is a byte."""
    ends = list(accumulate(map(len, tokens)))
    assert ends[-1] == len(text.encode())
    low = len(text.partition("{")[0].encode()) + 1
    high = low + len((answer or "").encode())
    return [not (end - len(token) < high and end > low) for token, end in zip(tokens, ends, strict=True)]
