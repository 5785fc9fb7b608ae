"""Hashes: of long texts, so that keys stay short, and of names, so that each has a number of its own."""

from __future__ import annotations

from hashlib import blake2b

_MAX_READABLE = 80


def short(text: str) -> str:
    """`text`, or its hash where it is long."""
    return text if len(text) <= _MAX_READABLE else hashed(text)


def hashed(text: str) -> str:
    """32 hexadecimal digits. A lone surrogate is hashed like any other character."""
    return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()


def seed(text: str) -> int:
    """A number below 2^64 that is the same on every machine."""
    return int.from_bytes(blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).digest(), "big")
