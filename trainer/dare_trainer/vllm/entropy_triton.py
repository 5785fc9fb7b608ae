"""Entropy of softmax(logits / T) in one read of the logits. Triton, because vLLM ships it and samples with it.

Loaded only by `entropy_torch`, in a process whose vLLM has Triton.
"""

from __future__ import annotations

import os
from importlib import import_module
from typing import Any

torch: Any = import_module("torch")
triton: Any = import_module("triton")
tl: Any = import_module("triton.language")  # Triton resolves the name `tl` in a kernel's globals

INTERPRETED = os.environ.get("TRITON_INTERPRET") == "1"  # on a CPU, for tests
BLOCK = 8192  # logits of one row that one program holds at a time: 152,000 are 19 blocks


@triton.jit  # type: ignore[untyped-decorator]
def _entropy_kernel(  # type: ignore[no-untyped-def]  # noqa: ANN202, PLR0917
    out, logits, stride, size, temperature, asked,  # noqa: ANN001  (Triton would look up the annotations' names)
    GREEDY: tl.constexpr, HAS_TEMPERATURE: tl.constexpr, HAS_ASKED: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """One program a row. With z = x / T and m the largest z so far it keeps

        s = sum exp(z - m)        t = sum (z - m) exp(z - m)        H = ln s - t / s

    where a new m' = m + d makes s' = e^-d s and t' = e^-d (t - d s). Both parts of H are >= 0: nothing cancels.
    """
    row = tl.program_id(0)
    if HAS_ASKED:  # noqa: SIM102  (this one is decided at compile time, the next in the kernel)
        if tl.load(asked + row) == 0:
            tl.store(out + row, float("nan"))
            return
    divisor = 1.0
    if HAS_TEMPERATURE:
        divisor = tl.load(temperature + row).to(tl.float32)
        divisor = tl.where(divisor < GREEDY, 1.0, divisor)
    start = logits + row.to(tl.int64) * stride
    m = float("-inf")
    s = 0.0
    t = 0.0
    for first in range(0, size, BLOCK):
        columns = first + tl.arange(0, BLOCK)
        z = tl.load(start + columns, mask=columns < size, other=float("-inf")).to(tl.float32) / divisor
        largest = tl.maximum(m, tl.max(z, axis=0))
        base = tl.where(largest == float("-inf"), 0.0, largest)  # nothing but masked logits yet
        drop = tl.where(m == float("-inf"), 0.0, m - base)
        scale = tl.exp(drop)
        e = tl.exp(z - base)
        # exp(-inf) = 0: a masked logit adds nothing, and -inf * 0 is kept out of t. NaN passes into s.
        t = tl.where(scale > 0.0, scale * (t + drop * s), 0.0) + tl.sum(tl.where(e > 0.0, z - base, 0.0) * e, axis=0)
        s = scale * s + tl.sum(e, axis=0)
        m = largest
    tl.store(out + row, tl.log(s) - t / s)


def entropy(logits: Any, temperature: Any, asked: Any, *, greedy: float) -> Any:
    """`entropy_torch.entropy` in one launch without synchronisation, which a CUDA graph may capture."""
    out = torch.empty(logits.shape[0], dtype=torch.float32, device=logits.device)
    if len(out):
        _entropy_kernel[(len(out),)](
            out, logits, logits.stride(0), logits.shape[1], temperature, asked,
            GREEDY=greedy, HAS_TEMPERATURE=temperature is not None, HAS_ASKED=asked is not None, BLOCK=BLOCK,
            num_warps=8,
        )  # fmt: skip
    return out
