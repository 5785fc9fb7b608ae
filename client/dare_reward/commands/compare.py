"""`dare-reward score --compare dare,ttrl,scrl FILE`: several methods side by side on the same rollouts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations
from typing import Any

import numpy as np

from dare_reward.analysis import rank_correlation
from dare_reward.commands.tables import number, short_answer, table
from dare_reward.reply import GroupReply

__all__ = ["comparison"]

SHOWN = 20


def comparison(results: Mapping[str, Sequence[GroupReply]]) -> str:
    """The methods one by one, in pairs, and the groups on whose pseudo-label they disagree."""
    parts = [_each(results), _pairs(results), _disagreements(results)]
    return "\n\n".join(p for p in parts if p)


def _values(group: GroupReply) -> list[float] | None:
    """Rewards, or advantages of the rollouts that have one, with 0 for the rest."""
    values: Sequence[float | None] | None = group.rewards if group.rewards is not None else group.advantages
    return None if values is None else [v or 0.0 for v in values]


def _each(results: Mapping[str, Sequence[GroupReply]]) -> str:
    rows = []
    for method, groups in results.items():
        scored = [g for g in groups if g.error is None]
        rows.append(
            [
                method,
                f"{len(scored)}/{len(groups)}",
                str(sum(g.pseudo_label is not None for g in scored)),
                _mean(scored, "label_accuracy"),
                _mean(scored, "reward_accuracy"),
                str(sum("zero_variance" in (g.flags or ()) for g in scored)),
            ]
        )
    head = ("method", "scored", "with a label", "label right", "reward right", "zero variance")
    return table(head, rows, right=True)


def _mean(groups: Sequence[GroupReply], name: str) -> str:
    values = [float(g.diagnostics[name]) for g in groups if g.diagnostics and name in g.diagnostics]
    return number(float(np.mean(values)) if values else None, 4)


def _pairs(results: Mapping[str, Sequence[GroupReply]]) -> str:
    rows = []
    for a, b in combinations(results, 2):
        both = [(x, y) for x, y in zip(results[a], results[b], strict=True) if x.error is None and y.error is None]
        found = [rank_correlation(_values(x) or [], _values(y) or []) for x, y in both]
        known = [r for r in found if r is not None]
        differ = sum(x.pseudo_label != y.pseudo_label for x, y in both)
        rows.append([f"{a}, {b}", f"{np.mean(known):.4f}" if known else "-", str(len(known)), f"{differ}/{len(both)}"])
    return table(("pair", "rank correlation", "over groups", "other label"), rows, right=True) if rows else ""


def _disagreements(results: Mapping[str, Sequence[GroupReply]]) -> str:
    rows: list[list[str]] = []
    for groups in zip(*results.values(), strict=True):
        labels = [_label(g) for g in groups]
        if len(set(labels)) > 1:
            rows.append([groups[0].group_id, *labels])
    if not rows:
        return "The methods agree on every pseudo-label."
    more = f"\n({len(rows) - SHOWN} more)" if len(rows) > SHOWN else ""
    return table(("group", *results), rows[:SHOWN]) + more


def _label(group: GroupReply) -> Any:
    if group.error is not None:
        return f"({group.error.code})"
    return "(none)" if group.pseudo_label is None else short_answer(group.pseudo_label)
