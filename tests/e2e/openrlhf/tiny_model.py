"""A Qwen3 of 120,000 parameters that answers small sums in a box, with its own tokenizer: `python tiny_model.py OUT`.

Nothing is downloaded. 300 steps (8 s) teach it the form of an answer, so that groups have votes that differ.
"""

import random
import sys
from pathlib import Path

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import PreTrainedTokenizerFast, Qwen3Config, Qwen3ForCausalLM

CHAT = (
    "{% for m in messages %}<|im_start|>{{ m['role'] }}\n{{ m['content'] }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
SPECIAL = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]


def problem(rng):
    a, b, sign = rng.randint(0, 9), rng.randint(0, 9), rng.choice("+-*")
    value = {"+": a + b, "-": a - b, "*": a * b}[sign]
    return f"What is {a} {sign} {b}?", f"We compute {a} {sign} {b} step by step. So the answer is \\boxed{{{value}}}."


def tokenizer(pairs):
    bpe = Tokenizer(models.BPE())
    bpe.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    bpe.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    bpe.train_from_iterator(
        (f"{q}\n{s}" for q, s in pairs),
        trainers.BpeTrainer(vocab_size=1024, special_tokens=SPECIAL, initial_alphabet=alphabet),
    )
    out = PreTrainedTokenizerFast(tokenizer_object=bpe, eos_token="<|im_end|>", pad_token="<|endoftext|>")
    out.chat_template = CHAT
    return out


def main(folder, vocabulary=0, steps=300):
    torch.manual_seed(0)
    torch.set_num_threads(1)  # 300 tiny steps: threads would only wait for each other
    rng = random.Random(0)
    pairs = [problem(rng) for _ in range(4000)]
    tok = tokenizer(pairs)
    config = Qwen3Config(
        vocab_size=max(vocabulary, len(tok)),
        hidden_size=64,
        intermediate_size=128,
        num_hidden_layers=2,
        num_attention_heads=2,
        num_key_value_heads=1,
        head_dim=32,
        max_position_embeddings=2048,
        tie_word_embeddings=False,
        eos_token_id=tok.eos_token_id,
        pad_token_id=tok.pad_token_id,
        bos_token_id=None,
    )
    model = Qwen3ForCausalLM(config)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    for _ in range(steps):
        rows = [
            tok.apply_chat_template(
                [{"role": "user", "content": q}, {"role": "assistant", "content": s}], tokenize=False
            )
            for q, s in rng.sample(pairs, 16)
        ]
        batch = tok(rows, return_tensors="pt", padding=True)
        batch.pop("token_type_ids", None)
        labels = batch["input_ids"].masked_fill(batch["attention_mask"] == 0, -100)
        model(**batch, labels=labels).loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    model.save_pretrained(folder)
    tok.save_pretrained(folder)


if __name__ == "__main__":
    main(Path(sys.argv[1]), *map(int, sys.argv[2:]))
