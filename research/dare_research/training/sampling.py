"""Rollouts from the study's model with the entropy of every token, many at a time, on a CPU."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from .decoder import Decoder

ROWS = 512  # rollouts at a time
LIVE = 0.7  # below this share of unfinished rows, nothing is drawn for the finished ones


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

    Prompts of one length are generated together, so nothing is padded. Rollouts of a prompt go through the model once
    for as long as their tokens are the same; each draws tokens of its own.
    """
    import torch

    by_length: dict[int, list[int]] = defaultdict(list)
    for i, prompt in enumerate(prompts):
        by_length[len(prompt)] += [i] * each
    out: list[list[SampledRollout]] = [[] for _ in prompts]
    with torch.inference_mode():
        for rows in by_length.values():
            for start in range(0, len(rows), ROWS):
                part = rows[start : start + ROWS]
                ids = torch.tensor([prompts[i] for i in part])
                for i, completion in zip(part, _batch(model, ids, longest, end, temperature), strict=True):
                    out[i].append(completion)
    return out


def _batch(model: Any, ids: Any, longest: int, end: int, temperature: float) -> list[SampledRollout]:
    import torch

    from .decoder import LEAST, Decoder

    count, decoder = len(ids), Decoder(model, len(ids), ids.shape[1] + longest)
    tokens = torch.full((count, longest), end)
    entropies, certainties, logprobs = torch.zeros(3, count, longest)
    # Rows are the rollouts that are drawn for: place in the batch, whether it goes on, and slot of the decoder.
    at, unfinished = torch.arange(count), torch.ones(count, dtype=torch.bool)
    lengths = torch.full((count,), longest)
    ids, slot = ids.unique(dim=0, return_inverse=True)
    for t in range(longest):
        spare = max(0, min(LEAST, len(at)) - len(ids))
        logits = decoder.step(torch.nn.functional.pad(ids, (0, 0, 0, spare)))[: len(ids)]
        logp = (logits / temperature).log_softmax(-1)
        p = logp.exp()
        drawn = torch.multinomial(p[slot], 1)[:, 0]
        tokens[at, t] = drawn
        entropies[at, t] = -(p * logp).sum(-1)[slot]
        logprobs[at, t] = logp[slot, drawn]
        certainties[at, t] = (-logp.mean(-1) - float(np.log(logp.shape[-1])))[slot]
        ended = unfinished & (drawn == end)
        lengths[at[ended]] = t + 1
        unfinished &= ~ended
        if not unfinished.any():
            break
        if unfinished.float().mean() < LIVE:
            at, slot, drawn, unfinished = (x[unfinished] for x in (at, slot, drawn, unfinished))
        ids, slot = _parted(decoder, slot, drawn, unfinished)
    numbers = (x.numpy() for x in (entropies.clamp(min=0), certainties.clamp(min=0), logprobs.clamp(max=0)))
    rows = zip(tokens, lengths.tolist(), *numbers, strict=True)
    return [SampledRollout(ids[:n].tolist(), *(x[:n] for x in own)) for ids, n, *own in rows]


def _parted(decoder: Decoder, slot: Any, drawn: Any, unfinished: Any) -> tuple[Any, Any]:
    """Next token of each slot, and slot of each row: unfinished rows of a slot that drew the same token share one.

    Slots have no gaps. Of those that come from one slot the first stays there if it can; the others are copied.
    """
    import torch

    pairs, of_row = (slot * decoder.vocabulary + drawn)[unfinished].unique(return_inverse=True)
    source, token = pairs // decoder.vocabulary, pairs % decoder.vocabulary
    stays = source < len(pairs)
    stays[1:] &= source[1:] != source[:-1]
    free = torch.ones(len(pairs), dtype=torch.bool)
    free[source[stays]] = False
    target = source.clone()
    target[~stays] = free.nonzero()[:, 0]
    decoder.copy(source[~stays], target[~stays])
    ids, slots = torch.empty_like(token)[:, None], torch.zeros_like(slot)
    ids[target, 0] = token
    slots[unfinished] = target[of_row]
    return ids, slots
