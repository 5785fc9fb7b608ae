"""Replies as text for people: aligned tables that fit the terminal, where standard output is one."""

from __future__ import annotations

import math
import shutil
import sys
import textwrap
from collections.abc import Sequence
from itertools import zip_longest

from ..answers.classes import Labels, listed
from ..errors import counted, printable
from ..reply import GroupReply, Support

COLUMNS = ("answer", "votes", "u", "p-hat", "kept", "p", "bonus", "reward")
WIDTH = 32
NARROWEST = 24  # a column is not wrapped below this; the last columns are left out instead


def _screen() -> int | None:
    """The columns of the terminal; None of a file or a pipe, which takes as many as a table wants."""
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else None


def table(head: Sequence[str], rows: Sequence[Sequence[str]], *, right: bool = False) -> str:
    """Aligned columns of one line each. `right` aligns all but the first to the right, for numbers.

    Where the terminal is narrower, long cells are wrapped; if that is not enough, the last columns are left out, and a
    line below says so.
    """
    head, *rows = [[printable(cell) for cell in row] for row in (head, *rows)]
    widths = [max(len(row[i]) for row in (head, *rows)) for i in range(len(head))]
    if (limit := _screen()) is not None:
        widths = _fitted(widths, limit)
    shown = head[: len(widths)]
    lines = [line for row in (shown, ["-" * w for w in widths], *rows) for line in _lines(row, widths, right=right)]
    if left := head[len(widths) :]:
        lines.append(f"(`| less -S` shows {', '.join(left)} too)")
    return "\n".join(line.rstrip() for line in lines)


def wrapped(text: str, *, indent: str = "") -> str:
    """Prose that fits the terminal, of one paragraph."""
    text, limit = printable(text), _screen()
    return text if limit is None else textwrap.fill(text, limit, subsequent_indent=indent, break_on_hyphens=False)


def group_table(group: GroupReply, *, top: int | None = None) -> str:
    """One group: a heading, and a row per answer, most votes first; `top` limits the rows."""
    if group.error is not None:
        return wrapped(f"{group.group_id}: {group.error.code}: {group.error.message}")
    support = sorted(group.support or (), key=lambda s: -s.count)
    shown = support[:top]
    rows = [_row(s) for s in shown]
    if hidden := support[len(shown) :]:
        rows.append([f"({len(hidden)} more answers)", str(sum(s.count for s in hidden)), *[""] * 6])
    return f"{wrapped(_heading(group), indent='  ')}\n{table(COLUMNS, rows, right=True)}"


def _heading(group: GroupReply) -> str:
    rewards, valid = group.rewards or (), group.valid or ()
    parts = [
        f"{group.group_id}: {counted(len(rewards), 'rollout')}, {sum(valid)} with an answer",
        f"pseudo-label {short_answer(group.pseudo_label) if group.pseudo_label is not None else 'none'}",
        f"entropies {group.entropy_source}",
    ]
    if group.flags:
        parts.append("flags " + ", ".join(group.flags))
    return " | ".join(parts)


def _row(s: Support) -> list[str]:
    u, p_hat, p, bonus, reward = (number(x, 4) for x in (s.uncertainty, s.p_hat, s.p, s.bonus, s.reward))
    return [short_answer(s.answer), str(s.count), u, p_hat, "yes" if s.kept else "pruned", p, bonus, reward]


def number(value: float | None, digits: int = 3) -> str:
    return "-" if value is None or math.isnan(value) else f"{value:.{digits}f}"


def short_answer(text: Labels) -> str:
    """One printable line; long answers are cut."""
    safe = printable(" or ".join(listed(text)))
    return safe if len(safe) <= WIDTH else safe[: WIDTH - 3] + "..."


def _fitted(widths: Sequence[int], limit: int) -> list[int]:
    """Widths of the columns that are shown: the widest give way, then the last are left out."""
    fitted = list(widths)
    while sum(fitted) + 2 * (len(fitted) - 1) > limit:
        widest = max(fitted)
        if widest > NARROWEST:
            fitted[fitted.index(widest)] -= 1
        elif len(fitted) > 2:
            fitted = list(widths[: len(fitted) - 1])
        else:
            break
    return fitted


def _lines(cells: Sequence[str], widths: Sequence[int], *, right: bool) -> list[str]:
    """A row as one line, or as many as its longest cell takes."""
    parts = [textwrap.wrap(c, w) if len(c) > w else [c] for c, w in zip(cells, widths, strict=False)]
    return [
        "  ".join(c.rjust(w) if right and i else c.ljust(w) for i, (c, w) in enumerate(zip(line, widths, strict=True)))
        for line in zip_longest(*parts, fillvalue="")
    ]
