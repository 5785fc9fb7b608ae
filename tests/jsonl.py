"""Files of JSON lines, as people hand them to a command, and the data of a page that one makes of them."""

from __future__ import annotations

import gzip
import json
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any


def write_lines(path: Path, rows: Iterable[Any]) -> Path:
    """The file, which holds a row a line; a row that is a text is written as it is."""
    path.write_text("".join((row if isinstance(row, str) else json.dumps(row)) + "\n" for row in rows))
    return path


def read_lines(path: Path) -> list[Any]:
    """What stands on each line of the file, compressed or not."""
    data = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    return [json.loads(line) for line in data.decode().split("\n") if line]


def page_data(path: Path) -> Any:
    """What the HTML file of a report shows."""
    return json.loads(re.search(r'id="data">(.*?)</script>', path.read_text())[1])
