"""Replies as text for people: aligned tables, nothing else."""

from __future__ import annotations

import math
from collections.abc import Sequence

from ..reply import GroupReply, Support

__all__ = ["group_table", "number", "short_answer", "table"]

COLUMNS = ("answer", "votes", "u", "p-hat", "kept", "p", "bonus", "reward")
WIDTH = 32


def table(head: Sequence[str], rows: Sequence[Sequence[str]], *, right: bool = False) -> str:
    """Columns as wide as they need; `right` aligns all but the first to the right, for numbers."""
    widths = [max(len(row[i]) for row in (head, *rows)) for i in range(len(head))]
    lines = [_line(row, widths, right) for row in (head, ["-" * w for w in widths], *rows)]
    return "\n".join(line.rstrip() for line in lines)


def group_table(group: GroupReply, *, top: int | None = None) -> str:
    """One group: a heading, and a row per answer, most votes first; `top` limits the rows."""
    if group.error is not None:
        return f"{group.group_id}: {group.error.code}: {group.error.message}"
    support = sorted(group.support or (), key=lambda s: -s.count)
    shown = support[:top]
    rows = [_row(s) for s in shown]
    if rest := support[len(shown) :]:
        rows.append([f"({len(rest)} more answers)", str(sum(s.count for s in rest)), *[""] * 6])
    return f"{_heading(group)}\n{table(COLUMNS, rows, right=True)}"


def _heading(group: GroupReply) -> str:
    rewards, valid = group.rewards or (), group.valid or ()
    parts = [
        f"{group.group_id}: {len(rewards)} rollouts, {sum(valid)} with an answer",
        f"pseudo-label {short_answer(group.pseudo_label) if group.pseudo_label is not None else 'none'}",
        f"entropies {group.entropy_source}",
    ]
    if group.flags:
        parts.append("flags " + ", ".join(group.flags))
    return " | ".join(parts)


def _row(s: Support) -> list[str]:
    kept = "yes" if s.kept else "pruned"
    return [
        short_answer(s.answer),
        str(s.count),
        number(s.uncertainty, 4),
        number(s.p_hat, 4),
        kept,
        number(s.p, 4),
        number(s.bonus, 4),
        number(s.reward, 4),
    ]


def number(value: float | None, digits: int = 3) -> str:
    return "-" if value is None or math.isnan(value) else f"{value:.{digits}f}"


def short_answer(text: str) -> str:
    """One printable line: control characters and lone surrogates escaped, long answers cut."""
    safe = text if text.isprintable() else text.encode("unicode_escape", "surrogatepass").decode("ascii")
    return safe if len(safe) <= WIDTH else safe[: WIDTH - 3] + "..."


def _line(cells: Sequence[str], widths: Sequence[int], right: bool) -> str:
    return "  ".join(
        c.rjust(w) if right and i else c.ljust(w) for i, (c, w) in enumerate(zip(cells, widths, strict=True))
    )
