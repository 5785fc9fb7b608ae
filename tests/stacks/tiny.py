"""Tiny language models with their tokenizers, made on the spot: Qwen3 of two layers that answers small sums in a box.

`python tiny.py OUT` makes the one for vLLM. Nothing is downloaded, and seconds teach each the form of an answer.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

CHARACTERS = "\n !\"#$%&'()*+,-./0123456789:;<=>?@ABCDEFGHIJKLMNOPQRSTUVWXYZ[\\]^_`abcdefghijklmnopqrstuvwxyz{|}~"
CHAT = (
    "{% for m in messages %}<|im_start|>{{ m['role'] }}\n{{ m['content'] }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
SPECIAL = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")


def make(folder: Path) -> Path:
    """Hidden size 32, one token per character; right two times in three, so that samples of one prompt agree and differ,
    as a chat and as plain text."""
    import torch

    tokens, generator = tokenizer(), torch.Generator().manual_seed(1)

    def text(i: int, j: int) -> str:
        answer = f"so \\boxed{{{(i % 3 + i // 3) + (j > 5)}}}"
        return chat(tokens, question(i), answer) if j % 2 else question(i) + answer + SPECIAL[2]

    drawn = (torch.randint(0, 9, (16, 2), generator=generator).tolist() for _ in range(150))
    return save(
        folder, taught(untrained(tokens), tokens, ([text(i, j) for i, j in rows] for rows in drawn), 1e-2), tokens
    )


def make_for_vllm(folder: Path) -> Path:
    """120,000 parameters, tokens of bytes, in 8 s."""
    import torch

    torch.set_num_threads(1)  # 300 tiny steps: threads would only wait for each other
    rng = random.Random(0)
    pairs = [problem(rng) for _ in range(4000)]
    tokens = byte_pairs(f"{asked}\n{solution}" for asked, solution in pairs)
    texts = ([chat(tokens, *pair) for pair in rng.sample(pairs, 16)] for _ in range(300))
    return save(folder, taught(untrained(tokens, width=64, longest=2048), tokens, texts, 3e-3), tokens)


def question(i: int) -> str:
    return f"{i % 3}+{i // 3 % 3}?"


def problem(rng: random.Random) -> tuple[str, str]:
    a, b, sign = rng.randint(0, 9), rng.randint(0, 9), rng.choice("+-*")
    value = {"+": a + b, "-": a - b, "*": a * b}[sign]
    return f"What is {a} {sign} {b}?", f"We compute {a} {sign} {b} step by step. So the answer is \\boxed{{{value}}}."


def chat(tokens: Any, asked: str, answer: str) -> str:
    talk = [{"role": "user", "content": asked}, {"role": "assistant", "content": answer}]
    return tokens.apply_chat_template(talk, tokenize=False)


def tokenizer() -> Any:
    from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers

    inner = Tokenizer(models.WordLevel({piece: i for i, piece in enumerate((*SPECIAL, *CHARACTERS))}, unk_token="?"))
    inner.pre_tokenizer = pre_tokenizers.Split(Regex("[\\s\\S]"), "isolated")
    inner.decoder = decoders.Fuse()
    return fast(inner, additional_special_tokens=[SPECIAL[1]])


def byte_pairs(texts: Iterable[str]) -> Any:
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

    inner = Tokenizer(models.BPE())
    inner.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    inner.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    inner.train_from_iterator(
        texts, trainers.BpeTrainer(vocab_size=1024, special_tokens=[*SPECIAL], initial_alphabet=alphabet)
    )
    return fast(inner)


def fast(inner: Any, **more: Any) -> Any:
    from transformers import PreTrainedTokenizerFast

    out = PreTrainedTokenizerFast(tokenizer_object=inner, eos_token=SPECIAL[2], pad_token=SPECIAL[0], **more)
    out.chat_template = CHAT
    return out


def untrained(tokens: Any, *, width: int = 32, longest: int = 256) -> Any:
    import torch
    from transformers import Qwen3Config, Qwen3ForCausalLM

    torch.manual_seed(0)
    config = Qwen3Config(
        vocab_size=len(tokens), hidden_size=width, intermediate_size=2 * width, num_hidden_layers=2, num_attention_heads=2, num_key_value_heads=1,
        head_dim=width // 2, max_position_embeddings=longest, tie_word_embeddings=False, eos_token_id=tokens.eos_token_id, pad_token_id=tokens.pad_token_id, bos_token_id=None,
    )  # fmt: skip
    return Qwen3ForCausalLM(config)


def taught(model: Any, tokens: Any, batches: Iterable[list[str]], lr: float) -> Any:
    import torch

    optimizer = torch.optim.AdamW(model.parameters(), lr=lr)
    for texts in batches:
        batch = tokens(texts, return_tensors="pt", padding=True)
        labels = batch["input_ids"].masked_fill(batch["attention_mask"] == 0, -100)
        model(input_ids=batch["input_ids"], attention_mask=batch["attention_mask"], labels=labels).loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    return model


def save(folder: Path, model: Any, tokens: Any) -> Path:
    model.save_pretrained(folder)
    tokens.save_pretrained(folder)
    return folder


if __name__ == "__main__":
    make_for_vllm(Path(sys.argv[1]))
