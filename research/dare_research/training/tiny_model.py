"""The tokenizer and the model: one token per character and one for `\\boxed{`, the architecture of Qwen3."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

CHARACTERS: Final = "0123456789+-*/%=;,:|~?<> abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ}"
PAD, EOS, BOX = "<pad>", "<eos>", "\\boxed{"


@dataclass(frozen=True, slots=True)
class ModelSize:
    """Sizes of a model; heads have 32 dimensions each."""

    hidden: int = 96
    layers: int = 3

    @property
    def heads(self) -> int:
        return self.hidden // 32

    @property
    def inner(self) -> int:
        return self.hidden * 8 // 3 // 32 * 32


def new_tokenizer() -> Any:
    """A `PreTrainedTokenizerFast` that any Hugging Face trainer or engine loads."""
    from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    pieces = {piece: i for i, piece in enumerate((PAD, EOS, BOX, *CHARACTERS))}
    inner = Tokenizer(models.WordLevel(pieces, unk_token="?"))
    inner.pre_tokenizer = pre_tokenizers.Split(Regex(r"\\boxed\{|[\s\S]"), "isolated")
    inner.decoder = decoders.Fuse()
    return PreTrainedTokenizerFast(tokenizer_object=inner, eos_token=EOS, pad_token=PAD)


def new_model(shape: ModelSize, tokenizer: Any, *, seed: int) -> Any:
    """A `Qwen3ForCausalLM` with random weights."""
    import torch
    from transformers import Qwen3Config, Qwen3ForCausalLM

    torch.manual_seed(seed)
    config = Qwen3Config(
        vocab_size=len(tokenizer),
        hidden_size=shape.hidden,
        intermediate_size=shape.inner,
        num_hidden_layers=shape.layers,
        num_attention_heads=shape.heads,
        num_key_value_heads=shape.heads,
        head_dim=32,
        max_position_embeddings=512,
        initializer_range=0.05,
        tie_word_embeddings=False,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
        bos_token_id=None,
    )
    return Qwen3ForCausalLM(config)
