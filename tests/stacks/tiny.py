"""A tiny language model and its tokenizer, made on the spot: Qwen3, 2 layers, hidden 32, one token per character."""

from __future__ import annotations

import sys
from pathlib import Path

CHARACTERS = "\n !\"#$%&'()*+,-./0123456789:;<=>?@ABCDEFGHIJKLMNOPQRSTUVWXYZ[\\]^_`abcdefghijklmnopqrstuvwxyz{|}~"
CHAT = (
    "{% for m in messages %}<|im_start|>{{ m['role'] }}\n{{ m['content'] }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
SPECIAL = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")


def make(folder: Path) -> Path:
    """Save model and tokenizer to `folder`; the model is trained for seconds until it writes boxed digits."""
    tokens = tokenizer()
    model = untrained(tokens)
    _teach(model, tokens)
    return save(folder, model, tokens)


def save(folder: Path, model, tokens) -> Path:
    model.save_pretrained(folder)
    tokens.save_pretrained(folder)
    return folder


def untrained(tokens):
    import torch
    from transformers import Qwen3Config, Qwen3ForCausalLM

    torch.manual_seed(0)
    config = Qwen3Config(
        vocab_size=len(tokens), hidden_size=32, intermediate_size=64, num_hidden_layers=2, num_attention_heads=2, num_key_value_heads=1,
        head_dim=16, max_position_embeddings=256, tie_word_embeddings=False, eos_token_id=tokens.eos_token_id, pad_token_id=tokens.pad_token_id, bos_token_id=None,
    )  # fmt: skip
    return Qwen3ForCausalLM(config)


def tokenizer():
    from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    inner = Tokenizer(models.WordLevel({piece: i for i, piece in enumerate((*SPECIAL, *CHARACTERS))}, unk_token="?"))
    inner.pre_tokenizer = pre_tokenizers.Split(Regex("[\\s\\S]"), "isolated")
    inner.decoder = decoders.Fuse()
    out = PreTrainedTokenizerFast(
        tokenizer_object=inner, eos_token=SPECIAL[2], pad_token=SPECIAL[0], additional_special_tokens=[SPECIAL[1]]
    )
    out.chat_template = CHAT
    return out


def question(i: int) -> str:
    return f"{i % 3}+{i // 3 % 3}?"


def _teach(model, tokenizer) -> None:
    """Right two times in three, so that samples of one prompt agree and differ; as a chat and as plain text."""
    import torch

    generator = torch.Generator().manual_seed(1)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    for _ in range(150):
        texts = []
        for i, j in torch.randint(0, 9, (16, 2), generator=generator).tolist():
            answer = f"so \\boxed{{{(i % 3 + i // 3) + (j > 5)}}}"
            chat = [{"role": "user", "content": question(i)}, {"role": "assistant", "content": answer}]
            texts.append(
                tokenizer.apply_chat_template(chat, tokenize=False) if j % 2 else question(i) + answer + SPECIAL[2]
            )
        batch = tokenizer(texts, return_tensors="pt", padding=True)
        labels = batch["input_ids"].masked_fill(batch["attention_mask"] == 0, -100)
        model(input_ids=batch["input_ids"], attention_mask=batch["attention_mask"], labels=labels).loss.backward()
        optimizer.step()
        optimizer.zero_grad()


if __name__ == "__main__":
    make(Path(sys.argv[1]))
