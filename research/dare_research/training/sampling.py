"""Rollouts from a Hugging Face model with the entropy of every token, many at a time, on a CPU."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

ROWS = 512  # rollouts at a time
LIVE = 0.7  # below this share of unfinished rows, the finished ones are dropped


@dataclass(frozen=True, slots=True, eq=False)
class SampledRollout:
    """Generated tokens, the last one the end if it came; per token, in nats, over the whole vocabulary at the sampling
    temperature: the entropy, KL(uniform || policy), and the log-probability of the token itself."""

    ids: list[int]
    entropies: NDArray[np.float32]
    certainties: NDArray[np.float32]
    logprobs: NDArray[np.float32]


def sample(
    model: Any, prompts: Sequence[Sequence[int]], *, each: int, longest: int, end: int, temperature: float = 1.0
) -> list[list[SampledRollout]]:
    """`each` rollouts of every prompt, at most `longest` tokens each.

    Prompts of one length are generated together, so nothing is padded.
    """
    import torch

    by_length: dict[int, list[int]] = defaultdict(list)
    for i, prompt in enumerate(prompts):
        by_length[len(prompt)] += [i] * each
    out: list[list[SampledRollout]] = [[] for _ in prompts]
    with torch.no_grad():
        for rows in by_length.values():
            for start in range(0, len(rows), ROWS):
                part = rows[start : start + ROWS]
                ids = torch.tensor([prompts[i] for i in part])
                for i, completion in zip(part, _batch(model, ids, longest, end, temperature), strict=True):
                    out[i].append(completion)
    return out


def _batch(model: Any, ids: Any, longest: int, end: int, temperature: float) -> list[SampledRollout]:
    import torch
    from transformers import DynamicCache

    count, cache = len(ids), DynamicCache(config=model.config)
    tokens = torch.full((count, longest), end)
    entropies, certainties, logprobs = torch.zeros(3, count, longest)
    at, unfinished = torch.arange(count), torch.ones(count, dtype=torch.bool)
    lengths = torch.full((count,), longest)
    for t in range(longest):
        logits = model(input_ids=ids, past_key_values=cache, use_cache=True, logits_to_keep=1).logits[:, -1].float()
        logp = (logits / temperature).log_softmax(-1)
        p = logp.exp()
        ids = torch.multinomial(p, 1)
        tokens[at, t] = ids[:, 0]
        entropies[at, t] = -(p * logp).sum(-1)
        logprobs[at, t] = logp.gather(1, ids)[:, 0]
        certainties[at, t] = -logp.mean(-1) - float(np.log(logp.shape[-1]))
        ended = unfinished & (ids[:, 0] == end)
        lengths[at[ended]] = t + 1
        unfinished &= ~ended
        if not unfinished.any():
            break
        if unfinished.float().mean() < LIVE:
            keep = unfinished.nonzero()[:, 0]
            at, ids, unfinished = at[keep], ids[keep], unfinished[keep]
            cache.batch_select_indices(keep)
    numbers = (x.numpy() for x in (entropies.clamp(min=0), certainties.clamp(min=0), logprobs.clamp(max=0)))
    rows = zip(tokens, lengths.tolist(), *numbers, strict=True)
    return [SampledRollout(ids[:n].tolist(), *(x[:n] for x in own)) for ids, n, *own in rows]
