"""What runs of `train.py` learnt: pass@1 before and after, on adapted and unseen questions, with 95% intervals.

    python learnt.py RECORD [RECORD ...]        records of one form

pass@1 of a question is its share of right rollouts at temperature 1. The control stands beside it: the model before and
after, decoded greedily. An arm's figure of a question is the mean over its seeds. Intervals are bootstraps over
questions: they say what other questions would have given, and nothing of other seeds.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from dare_reward.analysis.bootstrap import mean_interval

Record = Mapping[str, Any]


def changes(records: Sequence[Record], names: Sequence[str]) -> np.ndarray[Any, np.dtype[np.float64]]:
    """Points of pass@1 that each question gained, mean over the records."""
    each = [[(r["after"][n] - r["before"][n]) / r["evaluated"] * 100 for n in names] for r in records]
    return np.mean(each, axis=0)


def shown(values: np.ndarray[Any, Any]) -> str:
    found = mean_interval(values)
    return f"{found.estimate:+.1f} ({found.low:.1f} to {found.high:.1f})"


def greedy(records: Sequence[Record], names: Sequence[str]) -> str:
    """Of questions that are right when decoded greedily, the share before and after; of runs that kept them."""
    kept = [r["controls"] for r in records if "controls" in r]
    if not kept:
        return "-"
    return " to ".join(
        f"{100 * np.mean([c[w]['greedy'][n] for c in kept for n in names]):.1f}%" for w in ("before", "after")
    )


def table(records: Sequence[Record]) -> str:
    """A row for each arm; differences are to the first arm."""
    arms: dict[str, list[Record]] = {}
    for record in records:
        arms.setdefault(record["arm"], []).append(record)
    unseen = set(records[0]["unseen"])
    parts = {
        "adapted": [n for n in records[0]["before"] if n not in unseen],
        "unseen": [n for n in records[0]["before"] if n in unseen],
    }
    base = next(iter(arms))
    head = f"{'questions':10}{'arm':18}{'before':>8}{'after':>8}  {'change, points (95%)':24}{'greedy':>16}"
    lines = [f"{head}  minus {base}"]
    for part, names in parts.items():
        for arm, own in arms.items():
            before, after = (
                100 * np.mean([r[when][n] / r["evaluated"] for r in own for n in names]) for when in ("before", "after")
            )
            gained = changes(own, names)
            against = "" if arm == base else shown(gained - changes(arms[base], names))
            row = f"{part:10}{arm:18}{before:7.1f}%{after:7.1f}%  {shown(gained):24}{greedy(own, names):>16}"
            lines.append(f"{row}  {against}".rstrip())
    seeds = max(map(len, arms.values()))
    lines.append(
        f"{records[0]['form']}; seeds: {seeds}. Intervals are over questions: they say nothing of other seeds."
    )
    return "\n".join(lines)


if __name__ == "__main__":
    print(table([json.loads(Path(name).read_text(encoding="utf-8")) for name in sys.argv[1:]]))
