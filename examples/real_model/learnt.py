"""What runs of `train.py` learnt: pass@1 before and after, on adapted and unseen questions, with 95% intervals.

    python learnt.py RECORD [RECORD ...] [ROLLOUTS.jsonl]

RECORD is of one form; ROLLOUTS.jsonl holds what `dare-reward measure` sampled of the untrained model. With it, a second
table says how much of each gain the run sharpened, learnt and lost (docs/report.md), on the adapted questions.

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
from dare_reward.analysis.learnt import PARTS, Learnt, Visit, learnt, visit
from dare_reward.analysis.shown import percent, signed
from dare_reward.scoring.diagnostics import correctness
from dare_reward.scoring.request import prepare_file

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


def ledger(records: Sequence[Record], sampled: Sequence[Record]) -> str:
    """A row for each arm: points and questions that it sharpened, learnt and lost, means over its seeds."""
    by_id = {group["group_id"]: group for group in sampled}
    lines = [f"{'of the gain, adapted questions':34}{''.join(f'{name:16}' for name in PARTS)}".rstrip()]
    for arm in dict.fromkeys(r["arm"] for r in records):
        found = [changed(r, by_id) for r in records if r["arm"] == arm]
        row = f"{arm:18}{signed(np.mean([f.after - f.before for f in found])):16}"
        for name in PARTS:
            gain, share = (np.mean([getattr(f.parts[name], what) for f in found]) for what in ("gain", "share"))
            row += f"{f'{signed(gain)} ({percent(share)}%)':16}"
        lines.append(row.rstrip())
    lines.append("In brackets: of the questions. 16 votes call 5 to 7% of them learnt by chance (docs/report.md).")
    return "\n".join(lines)


def changed(record: Record, sampled: Mapping[str, Record]) -> Learnt:
    """What a run changed: votes of the sampled rollouts before it, and of its counted answers after it."""
    unseen = set(record["unseen"])
    groups = [sampled[n] for n in record["before"] if n not in unseen and n in sampled]
    counted = [record["answers"][g["group_id"]] for g in groups]
    after = [[{"answer": answer or None} for answer, n in own.items() for _ in range(n)] for own in counted]
    before_P, after_P = (
        np.array([record[when][g["group_id"]] / record["evaluated"] for g in groups]) for when in ("before", "after")
    )
    answered = [{**g, "rollouts": own} for g, own in zip(groups, after, strict=True)]
    unmarked = "sentence" if record["form"] == "bare" else "none"  # as `run.py` says to the trainer
    return learnt(Visit(before_P, votes(groups, unmarked)), Visit(after_P, votes(answered, unmarked)))


def votes(groups: Sequence[Record], unmarked: str) -> np.ndarray[Any, Any]:
    """Of each group, the share of its most voted answers that are right."""
    kept = ("kind", "options", "label", "rollouts")
    prepared = prepare_file([{k: g[k] for k in kept if k in g} for g in groups], {"unmarked": unmarked})
    return visit(prepared.groups, correctness(prepared)).vote_P


def rows(path: str) -> list[Record]:
    """The values of a file of JSON, or of JSON lines."""
    text = Path(path).read_text(encoding="utf-8")
    return [json.loads(line) for line in text.splitlines()] if path.endswith(".jsonl") else [json.loads(text)]


if __name__ == "__main__":
    runs, sampled = (
        [row for name in sys.argv[1:] if name.endswith(".jsonl") == lines for row in rows(name)]
        for lines in (False, True)
    )
    print(table(runs))
    if sampled:
        print("", ledger(runs, sampled), sep="\n")
