"""The paper's rows, with averages computed from their own numbers: many of the printed ones do not match."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files


@dataclass(frozen=True, slots=True)
class Row:
    """A row of the paper's tables: pass@1 in per cent by benchmark name."""

    model: str
    method: str
    scores: Mapping[str, float]
    printed: float

    @property
    def average(self) -> float:
        """Mean of the five scores, whatever the paper prints."""
        return sum(self.scores.values()) / len(self.scores)


@cache
def rows() -> tuple[Row, ...]:
    content = json.loads(files(__package__).joinpath("paper_tables.json").read_text(encoding="utf-8"))
    names = {title: name for name, title in content["benchmarks"].items()}
    return tuple(
        Row(r["model"], r["method"], {names[t]: s for t, s in r["scores"].items()}, r["avg_printed"])
        for r in content["rows"]
    )


def models() -> tuple[str, ...]:
    """The paper's models, in its order."""
    return tuple(dict.fromkeys(r.model for r in rows()))
