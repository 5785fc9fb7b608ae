"""Which owner a single rollout belongs to: a stable hash of its run and its group.

Every replica must say the same, whatever its version, so this reads no more of a request than that takes. What it
cannot read is no single rollout: the replica answers it itself, as one process does.
"""

from __future__ import annotations

import hashlib
import json
from typing import Any
from urllib.parse import parse_qs

from pydantic_core import from_json

from ..json_size import check_json


def group_of(query: str, body: bytes | bytearray, *, address: str, memory: int) -> bytes | None:
    """A digest of run and group; None: not one single rollout. `memory`: bytes that reading the body may take."""
    try:
        check_json(body, memory)
        content = from_json(body, cache_strings=False)
        names = _openrlhf(content, query, address)
    except (ValueError, TypeError, KeyError, IndexError, AttributeError):
        return None
    return hashlib.blake2b(json.dumps(names).encode(), digest_size=16).digest()


def owner_of(group: bytes, owners: int) -> int:
    return int.from_bytes(group[:8], "little") % owners


def _openrlhf(content: Any, query: str, address: str) -> tuple[str, ...]:
    queries: list[Any] = content["query"]
    if not (isinstance(queries, list) and len(queries) == 1):
        raise ValueError
    runs = parse_qs(query).get("run", [])
    run = f"run {runs[0]}" if runs else f"address {address}"
    if key := content.get("group_key"):
        return ("openrlhf", run, "key", str(key[0]))
    (label,) = content.get("labels", [None])
    return ("openrlhf", run, str(content["prompts"][0]), json.dumps(label, sort_keys=True))
