"""Files of JSON lines, as people hand them to a command."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any


def write_lines(path: Path, rows: Iterable[Any]) -> Path:
    """The file, which holds a row a line; a row that is a text is written as it is."""
    path.write_text("".join((row if isinstance(row, str) else json.dumps(row)) + "\n" for row in rows))
    return path


def read_lines(path: Path) -> list[Any]:
    """What stands on each line of the file."""
    return [json.loads(line) for line in path.read_text().splitlines()]
