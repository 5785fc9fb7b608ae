"""Lists of words as one reads them."""

from __future__ import annotations


def words(*lines: str) -> tuple[str, ...]:
    return tuple(word for line in lines for word in line.split())
