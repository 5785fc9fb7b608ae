"""The array inputs of the methods, declared once: JSON models, frame and in-process checks follow from here.

A field is per rollout (`scalar`) or per generated token of each rollout (`tokens`). Adding one here is all it takes
for every form of a request to carry it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal

__all__ = ["FIELDS", "MAX_ENTROPY", "Field"]

# More than any vocabulary can give (ln V = 12 for 150,000 tokens): above it is a unit error, and sums stay finite.
MAX_ENTROPY = 1000.0


@dataclass(frozen=True, slots=True)
class Field:
    """One input. Values are finite and within [ge, le]; a scalar may be missing, an element of `tokens` may not."""

    name: str
    shape: Literal["scalar", "tokens"]
    type: Literal["float", "int", "bool"]
    doc: str
    ge: float | None = None
    le: float | None = None

    @property
    def rule(self) -> str:
        noun = {"float": "a finite number", "int": "an integer", "bool": "true or false"}[self.type]
        low = "" if self.ge is None else f" >= {self.ge:g}"
        high = "" if self.le is None else f"{' and' if low else ''} <= {self.le:g}"
        return noun + low + high


FIELDS: Mapping[str, Field] = MappingProxyType(
    {
        f.name: f
        for f in (
            Field("mean_entropy", "scalar", "float", "mean token entropy of the rollout in nats", 0, MAX_ENTROPY),
            Field("num_tokens", "scalar", "int", "number of tokens that the policy generated", 0, 2**31),
            Field("token_entropies", "tokens", "float", "entropy of each generated token in nats", 0, MAX_ENTROPY),
            Field("token_mask", "tokens", "bool", "which of these tokens the policy generated (tool output: false)"),
        )
    }
)
