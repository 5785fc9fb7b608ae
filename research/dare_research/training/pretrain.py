"""Base models: a trunk that learns to solve, and from it one base for each regime of entropy.

The bases of a trunk differ in their last few hundred steps alone, so that regimes do not differ in how much was
learned. Trunks are independent of each other.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from random import Random
from typing import Any

from .corpus import Corpus, held_out
from .sampling import sample
from .tiny_model import ModelSize, new_model, new_tokenizer

Say = Callable[[str], None]
Rows = list[tuple[int, list[int]]]  # of a batch: tokens of the prompt, all tokens


@dataclass(frozen=True, slots=True)
class Pretraining:
    """Deterministic for a seed: no clock decides.

    target      mean pass@1 on probe problems at which a trunk is done, if no family is below `least`
    most        steps after which it is done in any case
    finishing   steps of a base on its regime, while the learning rate falls to 0
    """

    shape: ModelSize = field(default_factory=ModelSize)
    target: float = 0.35
    least: float = 0.2
    most: int = 2400
    finishing: int = 800
    every: int = 150
    batch: int = 64
    lr: float = 3e-3
    warmup: int = 50
    probes: int = 24


def grow(corpus: Corpus, settings: Pretraining, *, seed: int, said: Say = lambda _: None) -> tuple[Any, Any, int]:
    """A trunk: model, tokenizer, steps."""
    tokenizer = new_tokenizer()
    model = new_model(settings.shape, tokenizer, seed=seed)
    step = 0
    batches = _batches(corpus, tokenizer, settings.batch, Random(seed))
    for step in _steps(model, batches, settings, settings.most, lambda _: settings.lr):
        if step % settings.every == 0:
            rates = solved(model, tokenizer, corpus.families, settings.probes)
            said(f"step {step}: {' '.join(f'{k} {v:.2f}' for k, v in rates.items())}")
            if sum(rates.values()) / len(rates) >= settings.target and min(rates.values()) >= settings.least:
                break
    return model.eval(), tokenizer, step


def finish(model: Any, tokenizer: Any, corpus: Corpus, settings: Pretraining, *, seed: int) -> dict[str, float]:
    """Make a trunk a base of the corpus's regime, in place; pass@1 on probe problems."""

    def rate(step: int) -> float:
        return settings.lr * (settings.finishing - step + 1) / settings.finishing

    batches = _batches(corpus, tokenizer, settings.batch, Random(seed))
    for _ in _steps(model.train(), batches, settings, settings.finishing, rate):
        pass
    model.eval()
    return solved(model, tokenizer, corpus.families, settings.probes)


def _steps(
    model: Any, batches: Iterator[Rows], settings: Pretraining, count: int, rate: Callable[[int], float]
) -> Iterator[int]:
    """Train; the number of each step when it is done."""
    import torch

    optimizer = torch.optim.AdamW(model.parameters(), lr=settings.lr, betas=(0.9, 0.98), weight_decay=0.05)
    for step in range(1, count + 1):
        for group in optimizer.param_groups:
            group["lr"] = rate(step) * min(1.0, step / settings.warmup)
        optimizer.zero_grad()
        _loss(model, next(batches)).backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        yield step


def solved(model: Any, tokenizer: Any, families: tuple[str, ...], count: int, *, each: int = 16) -> dict[str, float]:
    """pass@1 of each family on probe problems."""
    out = {}
    for family in families:
        problems = held_out(family, "probe", count, seed=0)
        prompts = [tokenizer(p.prompt)["input_ids"] for p in problems]
        groups = sample(model, prompts, each=each, longest=64, end=tokenizer.eos_token_id)
        texts = [tokenizer.batch_decode([c.ids for c in g], skip_special_tokens=True) for g in groups]
        right = sum(t.endswith(f"\\boxed{{{p.answer}}}") for p, ts in zip(problems, texts, strict=True) for t in ts)
        out[family] = right / (count * each)
    return out


def _batches(corpus: Corpus, tokenizer: Any, size: int, random: Random) -> Iterator[Rows]:
    """Eight batches at a time, sorted by length, in random order."""
    while True:
        examples = [corpus.example(random) for _ in range(8 * size)]
        prompts = tokenizer([e.prompt for e in examples])["input_ids"]
        whole = tokenizer([e.prompt + e.solution for e in examples])["input_ids"]
        rows = [(len(p), [*ids, tokenizer.eos_token_id]) for p, ids in zip(prompts, whole, strict=True)]
        rows.sort(key=lambda row: len(row[1]))
        batches = [rows[i : i + size] for i in range(0, len(rows), size)]
        random.shuffle(batches)
        yield from batches


def _loss(model: Any, rows: Rows) -> Any:
    """Cross-entropy of the solutions."""
    import torch

    width = max(len(ids) for _, ids in rows)
    pad = model.config.pad_token_id
    ids = torch.tensor([row + [pad] * (width - len(row)) for _, row in rows])
    labels = ids.clone()
    for i, (prompt, row) in enumerate(rows):
        labels[i, :prompt] = -100
        labels[i, len(row) :] = -100
    logits = model(input_ids=ids).logits[:, :-1]
    return torch.nn.functional.cross_entropy(logits.flatten(0, 1), labels[:, 1:].flatten(), ignore_index=-100)
