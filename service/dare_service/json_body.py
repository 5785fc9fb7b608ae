"""A JSON body, read once for every route: cut emojis are mended, and a key that stands twice is refused by its name."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import Any

import orjson
from pydantic_core import from_json

from .json_size import colons, keys_at_most
from .problems import RefusalError

# A pair is one character, and a backslash before a `u` may itself be escaped: both are passed over.
_SURROGATE = re.compile(
    rb"\\\\|\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|(\\u[dD][89a-fA-F][0-9a-fA-F]{2})"
)


def read_json(body: bytes | bytearray | memoryview) -> Any:
    """The value that a body writes. RefusalError 400 for what is no JSON, and for a key that stands twice."""
    content = _parsed(body)
    _check_keys(body, content)
    return content


def _parsed(body: bytes | bytearray | memoryview) -> Any:
    with suppress(ValueError):
        return orjson.loads(body)
    # Half of an emoji that a limit of tokens has cut is written as an escape by most clients, and is no character.
    mended = _SURROGATE.sub(lambda found: rb"\ufffd" if found[1] else found[0], bytes(body))
    with suppress(ValueError):
        return orjson.loads(mended)
    try:  # says where: NaN, Infinity and 1e999 are refused where they stand
        # The cache of strings doubles the time of the longest call, that of a hundred thousand different keys.
        return from_json(mended, cache_strings=False)
    except ValueError as error:
        raise RefusalError(400, f"not JSON: {error}", code="json") from None


def _check_keys(body: bytes | bytearray | memoryview, content: Any) -> None:
    """RefusalError for a key that stands twice in its object, of which parsers keep the last.

    orjson does not say so, and a parser that does takes ten times as long. But of no more keys than the content has,
    none is lost. The count is from above where it can be, and exact only where it has to be: each key has a colon.
    """
    if keys_at_most(body) == _usual_keys(content):
        return
    raw = bytes(body) if isinstance(body, memoryview) else body
    if colons(raw) == _keys(content):
        return
    with suppress(json.JSONDecodeError, RecursionError):  # what Python refuses, the parser that counts has taken
        json.loads(raw, object_pairs_hook=_once)


def _usual_keys(content: Any) -> int:
    """Keys of a request whose rollouts hold no objects: few lines for the many rollouts of a step."""
    if not isinstance(content, dict) or not isinstance(params := content.get("params", {}), dict):
        return -1
    count = len(content) + len(params)
    groups = content.get("groups")
    for group in groups if isinstance(groups, list) else ():
        if not isinstance(group, dict) or not isinstance(rollouts := group.get("rollouts"), list):
            return -1
        with suppress(TypeError):
            count += len(group) + sum(map(len, rollouts))
    return count


def _keys(value: Any) -> int:
    count, left = 0, [value]
    while left:
        one = left.pop()
        if isinstance(one, Mapping):
            count += len(one)
            left += one.values()
        elif isinstance(one, list):
            left += one
    return count


def _once(pairs: Iterable[tuple[str, Any]]) -> dict[str, Any]:
    out: dict[str, Any] = {}
    for key, value in pairs:
        if key in out:
            raise RefusalError(400, f"the key {key[:64]!r} stands twice in one object: keep one", code="duplicate_key")
        out[key] = value
    return out
