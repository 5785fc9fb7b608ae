"""Generalisation: a matrix of accuracies by adaptation and evaluation set."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

Accuracies = Mapping[str, Mapping[str, Mapping[str, float]]]


@dataclass(frozen=True, slots=True)
class OodRow:
    """A method's accuracy away from where it was adapted.

    mean        mean over the pairs with train != eval
    gain        the same minus the model before adaptation
    over_rival  the same minus the rival method, NaN without it
    wins        pairs in which it is above the rival; `pairs` of how many (equal is no win)
    """

    method: str
    mean: float
    gain: float
    over_rival: float
    wins: int
    pairs: int


def ood_table(accuracy: Accuracies, before: Mapping[str, float], *, rival: str = "ttrl") -> list[OodRow]:
    """One row per method of accuracy[method][train][eval], off the diagonal; `before` is accuracy[eval] untrained."""
    rows = []
    for method, matrix in accuracy.items():
        pairs = [(t, e) for t, row in matrix.items() for e in row if t != e]
        own = np.array([matrix[t][e] for t, e in pairs])
        base = np.array([before[e] for _, e in pairs])
        shared = [(t, e) for t, e in pairs if e in accuracy.get(rival, {}).get(t, {})]
        delta = np.array([matrix[t][e] - accuracy[rival][t][e] for t, e in shared])
        rows.append(
            OodRow(
                method=method,
                mean=float(own.mean()) if pairs else np.nan,
                gain=float((own - base).mean()) if pairs else np.nan,
                over_rival=float(delta.mean()) if shared else np.nan,
                wins=int((delta > 0).sum()),
                pairs=len(shared),
            )
        )
    return rows
