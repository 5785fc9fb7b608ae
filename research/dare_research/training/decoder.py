"""The next token of many sequences at a time: the forward of the study's model over a cache with a slot a sequence.

The operations of transformers' Qwen3 in their order: a slot's logits have the bits that `model(...)` gives it, whatever
the others hold.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import embedding, linear, scaled_dot_product_attention, silu

# MKL multiplies fewer rows by another kernel. From as many on, a row of a product does not depend on the others.
LEAST = 4


class Decoder:
    """`slots` sequences of at most `longest` tokens.

    step   logits after the given tokens, (slots, tokens), of the first slots; later calls take one token a slot
    copy   slots become copies of others
    """

    def __init__(self, model: Any, slots: int, longest: int) -> None:
        body, config = model.model, model.config
        self.vocabulary: int = config.vocab_size
        self._embed, self._head, self._norm = body.embed_tokens.weight, model.lm_head.weight, body.norm
        self._layers = [
            (
                layer,
                torch.cat([getattr(layer.self_attn, f"{n}_proj").weight for n in "qkv"]),
                torch.cat([layer.mlp.gate_proj.weight, layer.mlp.up_proj.weight]),
            )
            for layer in body.layers
        ]
        self._cos, self._sin = body.rotary_emb(self._embed, torch.arange(longest))
        self._cache = torch.empty(slots, len(self._layers), 2, config.num_attention_heads, longest, config.head_dim)
        self._length = 0

    def step(self, ids: Tensor) -> Tensor:
        slots, tokens = ids.shape
        now, end = slice(self._length, self._length + tokens), self._length + tokens
        cos, sin = self._cos[now, None], self._sin[now, None]
        x = embedding(ids, self._embed)
        for i, (layer, qkv, gate_up) in enumerate(self._layers):
            attention, cache = layer.self_attn, self._cache[:slots, i]
            heads = linear(_normed(layer.input_layernorm, x), qkv).view(slots, tokens, 3, -1, attention.head_dim)
            q, k, v = heads.unbind(2)
            cache[:, 0, :, now] = _rotated(_normed(attention.k_norm, k), cos, sin).transpose(1, 2)
            cache[:, 1, :, now] = v.transpose(1, 2)
            found = scaled_dot_product_attention(
                _rotated(_normed(attention.q_norm, q), cos, sin).transpose(1, 2),
                cache[:, 0, :, :end],
                cache[:, 1, :, :end],
                is_causal=tokens > 1,
                scale=attention.scaling,
            )
            x = x + linear(found.transpose(1, 2).reshape(slots, tokens, -1), attention.o_proj.weight)
            gate, up = linear(_normed(layer.post_attention_layernorm, x), gate_up).chunk(2, -1)
            x = x + linear(silu(gate) * up, layer.mlp.down_proj.weight)
        self._length = end
        return linear(_normed(self._norm, x[:, -1]), self._head)

    def copy(self, sources: Tensor, targets: Tensor) -> None:
        self._cache[targets, ..., : self._length, :] = self._cache[sources, ..., : self._length, :]


def _normed(norm: Any, x: Tensor) -> Tensor:
    """RMSNorm."""
    return norm.weight * (x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + norm.variance_epsilon))


def _rotated(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Rotary positions."""
    one, other = x.chunk(2, -1)
    return x * cos + torch.cat((-other, one), -1) * sin
