"""The array inputs of the methods, declared once: JSON models, frame and in-process checks follow from here.

Adding one here is all it takes for every form of a request to carry it. Shapes, for R rollouts:

    scalar   one number per rollout                               [R], may be missing
    tokens   one per generated token                              ragged, same lengths as all other token inputs
    matrix   a row of k numbers per generated token               ragged rows, the same k in the whole request
    list     as many per rollout as it takes                      ragged, with lengths of its own
    vector   a row of D numbers per rollout                       [R, D], a whole row may be missing
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal

__all__ = ["FIELDS", "MAX_ENTROPY", "Field", "Shape"]

Shape = Literal["scalar", "tokens", "matrix", "list", "vector"]

# More than any vocabulary can give (ln V = 12 for 150,000 tokens): above it is a unit error, and sums stay finite.
MAX_ENTROPY = 1000.0
# Log-probabilities and confidences from engines that mask tokens reach -1e4 and more; beyond this they are not numbers.
MAX_SURPRISAL = 1e6


@dataclass(frozen=True, slots=True)
class Field:
    """One input. Values are finite and within [ge, le]; a scalar or vector may be missing, a list's element not.

    `gives` is the scalar that follows from this input, and how: the mean or the sum of its unmasked tokens.
    """

    name: str
    shape: Shape
    type: Literal["float", "int", "bool"]
    doc: str
    ge: float | None = None
    le: float | None = None
    gives: tuple[str, Literal["mean", "sum"]] | None = None

    @property
    def rule(self) -> str:
        noun = {"float": "a finite number", "int": "an integer", "bool": "true or false"}[self.type]
        low = "" if self.ge is None else f" >= {self.ge:g}"
        high = "" if self.le is None else f"{' and' if low else ''} <= {self.le:g}"
        return noun + low + high

    @property
    def per_token(self) -> bool:
        return self.shape in {"tokens", "matrix"}

    @property
    def ragged(self) -> bool:
        return self.shape in {"tokens", "matrix", "list"}

    @property
    def unit(self) -> str:
        """What one entry of the input is for."""
        return {
            "scalar": "rollout",
            "tokens": "token",
            "matrix": "token, k of each",
            "list": "entry",
            "vector": "component",
        }[self.shape]


def _fields() -> tuple[Field, ...]:
    entropy, surprisal = (0, MAX_ENTROPY), (-MAX_SURPRISAL, 0)
    return (
        Field("mean_entropy", "scalar", "float", "mean token entropy of the rollout in nats", *entropy),
        Field("num_tokens", "scalar", "int", "number of tokens that the policy generated", 0, 2**31),
        Field("sum_logprob", "scalar", "float", "sum of the sampled tokens' log-probabilities in nats", -1e12, 0),
        Field(
            "mean_self_certainty",
            "scalar",
            "float",
            "mean over tokens of KL(uniform || policy), or of it plus ln V",
            0,
            MAX_ENTROPY,
        ),
        Field("confidence", "scalar", "float", "a ready trace confidence, greater is surer", 0, MAX_SURPRISAL),
        Field("verified", "scalar", "int", "1 if an external check agrees with the rollout's answer, else 0", 0, 1),
        Field("pass_rate", "scalar", "float", "share of self-verifications that accept the rollout's answer", 0, 1),
        Field("format", "scalar", "float", "format score of the rollout", 0, 1),
        Field(
            "base_ref_mean_prob",
            "scalar",
            "float",
            "mean probability of the reference's tokens without reasoning",
            0,
            1,
        ),
        Field(
            "token_entropies",
            "tokens",
            "float",
            "entropy of each generated token in nats",
            *entropy,
            ("mean_entropy", "mean"),
        ),
        Field("token_mask", "tokens", "bool", "which of these tokens the policy generated (tool output: false)"),
        Field(
            "token_logprobs",
            "tokens",
            "float",
            "log-probability of each sampled token in nats",
            *surprisal,
            ("sum_logprob", "sum"),
        ),
        Field(
            "token_self_certainty",
            "tokens",
            "float",
            "KL(uniform || policy) of each token, or that plus ln V, in nats",
            0,
            MAX_ENTROPY,
            ("mean_self_certainty", "mean"),
        ),
        Field(
            "topk_logprobs",
            "matrix",
            "float",
            "log-probabilities of the k >= 2 likeliest tokens at each position",
            *surprisal,
        ),
        Field("step_ends", "list", "int", "index after the last token of each reasoning step, ascending", 1, 2**31),
        Field(
            "ref_token_probs",
            "list",
            "float",
            "probability of each token of the reference answer after this rollout's reasoning",
            0,
            1,
        ),
        Field("token_ids", "list", "int", "generated token ids, for overlap diagnostics", 0, 2**31),
        Field("embedding", "vector", "float", "embedding of the rollout's reasoning", -1e6, 1e6),
    )


FIELDS: Mapping[str, Field] = MappingProxyType({f.name: f for f in _fields()})
