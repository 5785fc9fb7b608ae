"""The room's tables: files of tables/. A row begins a line or follows two blanks; blanks that begin a line go on."""

from __future__ import annotations

import re
from pathlib import Path

_FOLDER = Path(__file__).with_name("tables")


def rows(name: str) -> list[str]:
    return re.split(r"\n(?! )|(?<=\S)  (?=\S)", (_FOLDER / f"{name}.txt").read_text(encoding="utf-8").strip())


def spellings(name: str) -> dict[str, str]:
    """Each spelling of a table, in the order of the rows, with the first word of its row, for which it stands."""
    return {word: row.split()[0] for row in rows(name) for word in row.split()[1:]}


def listed(name: str) -> tuple[str, ...]:
    """The words of a row of tables/lists.txt, which begins with its name."""
    return _LISTS[name]


def words(*lines: str) -> tuple[str, ...]:
    return tuple(word for line in lines for word in line.split())


_LISTS = {row.split()[0]: tuple(row.split()[1:]) for row in rows("lists")}
