"""Entropies that a file does not have, estimated from the log-probabilities that it has.

logprob   the mean of -log p over the sampled tokens, or their sum over their number: right on average, and noisy
topk      from the k largest log-probabilities of each token (`dare_reward.topk_entropy`), k >= 2
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final, TypeGuard

from ..errors import RequestError
from ..inputs import Source
from ..scoring.array_inputs import PER_TOKEN, Table, read_columns
from ..topk_entropy import bounds

ROUNDING: Final = 1e-3
OTHER: Final = "mean by the other estimate"  # no name of a field: what a file says in `meta` stays
OTHERS: Final[Mapping[str, Source]] = {"topk": "logprob", "logprob": "topk"}
COLUMNS: Final[Mapping[str, str]] = {"topk": "topk_logprobs", "logprob": "token_logprobs"}  # what each is made of
WORDS: Final[Mapping[str, str]] = {
    "topk": "the k largest log-probabilities of each token",
    "logprob": "the mean of -log p over the sampled tokens",
}


@dataclass(frozen=True, slots=True)
class EntropyEstimate:
    """How a rollout's entropies are made of an input that has an entry for each token. In nats.

    vocab_size   of the model, for `topk`; where it is known, the mean by the other estimate is kept in the rollout's
                 `meta` as OTHER: None where it cannot be made
    """

    source: Source
    vocab_size: int | None = None

    def tokens(self, column: list[Any]) -> Sequence[float]:
        """Engines list the sampled token beside the k largest, so every token counts as many as the shortest has."""
        if self.source == "logprob":
            return [-x for x in column]
        k = min(map(len, column))
        try:
            rows = [sorted(row, reverse=True)[:k] for row in column]
            return bounds(rows, self.vocab_size or k).estimate.tolist()  # type: ignore[no-any-return]
        except ValueError as error:
            raise RequestError(f"topk_logprobs: {error}", code="range") from None

    def fits(self, column: list[Any]) -> bool:
        """A number for each token; for `topk` a list of two or more."""
        if self.source == "logprob":
            return all(map(_is_number, column))
        return all(isinstance(row, list) and len(row) > 1 and all(map(_is_number, row)) for row in column)


def estimate_of(name: Source, vocab_size: int | None = None) -> EntropyEstimate | None:
    """Of `exact` (none), `logprob` and `topk`. RequestError where `topk` lacks the size of the vocabulary, or `exact`
    has one."""
    if name == "exact" and vocab_size is not None:
        raise RequestError("--vocab-size means nothing without --entropy topk: add it", code="conflict")
    if name == "topk" and vocab_size is None:
        why = "--entropy topk needs --vocab-size, which the model's config.json calls vocab_size"
        raise RequestError(why, code="missing")
    return None if name == "exact" else EntropyEstimate(name, vocab_size)


def fill(group: dict[str, Any], how: EntropyEstimate) -> bool:
    """Whether it could: no rollout has an entropy, and some have the column. The others stay without."""
    rollouts = group["rollouts"]
    if any(not isinstance(r, dict) or r.get("mean_entropy") is not None or r.get("token_entropies") for r in rollouts):
        return False
    if how.vocab_size is not None:
        _keep(rollouts, EntropyEstimate(OTHERS[how.source], how.vocab_size))
    means = _means(rollouts, how)
    for place, (mean, count) in means.items():
        rollout = rollouts[place]
        rollout["mean_entropy"] = mean
        rollout.setdefault("num_tokens", count)
        if how.source == "logprob" and mean is not None:  # what a path's probability is made of
            rollout.setdefault("sum_logprob", -mean * count)
        rollout.pop(COLUMNS[how.source], None)
        if rollout.keys().isdisjoint(PER_TOKEN):
            rollout.pop("token_mask", None)
    if means:
        group["entropy_source"] = how.source
    return bool(means)


def _keep(rollouts: Sequence[dict[str, Any]], how: EntropyEstimate) -> None:
    means: Mapping[int, tuple[float | None, int]] = {}
    with suppress(RequestError):
        means = _means(rollouts, how)
    for place, rollout in enumerate(rollouts):
        if isinstance(meta := rollout.get("meta") or {}, dict):
            rollout["meta"] = {**meta, OTHER: means.get(place, (None,))[0]}


def _means(rollouts: Sequence[dict[str, Any]], how: EntropyEstimate) -> dict[int, tuple[float | None, int]]:
    """The mean over the generated tokens of each rollout that has the column, and their number."""
    found = ((place, r.get(COLUMNS[how.source]) or _of_sum(how, r)) for place, r in enumerate(rollouts))
    columns = {place: c for place, c in found if isinstance(c, list) and c and how.fits(c)}
    if not columns:
        return {}
    highest = max(max(entry) if isinstance(entry, list) else entry for column in columns.values() for entry in column)
    if highest > ROUNDING:
        raise RequestError(f"{COLUMNS[how.source]}: {highest:g} is above 0, and so no log-probability", code="range")
    masks = {place: {"token_mask": mask} for place in columns if (mask := rollouts[place].get("token_mask"))}
    rows = [{"token_entropies": [max(x, 0.0) for x in how.tokens(c)], **masks.get(p, {})} for p, c in columns.items()]
    read: Any = read_columns(Table.of(rows), {}, lambda i: ("rollouts", [*columns][i]))
    means = [None if math.isnan(mean) else mean for mean in read["mean_entropy"].tolist()]
    return dict(zip(columns, zip(means, read["num_tokens"].astype(int).tolist(), strict=True), strict=True))


def _of_sum(how: EntropyEstimate, rollout: dict[str, Any]) -> list[float]:
    """The mean log-probability, where a file has the sum and the number alone."""
    total, count = rollout.get("sum_logprob"), rollout.get("num_tokens")
    if how.source != "logprob" or not _is_number(total) or not _is_number(count) or not count:
        return []
    return [total / count]


def _is_number(value: Any) -> TypeGuard[int | float]:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
