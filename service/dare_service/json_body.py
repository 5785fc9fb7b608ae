"""A JSON body, read once for every route: cut emojis are mended, and a key that stands twice is refused by its name.

How much memory it takes once it is read is known before it is. Two bytes of JSON can become a list of a hundred, so a
limit on the body's bytes says little. What counts is how many values, strings, lists and objects it holds, and these
can be counted without reading it: outside of strings each value but the first follows a comma or an opening bracket.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from typing import Any

import numpy as np
import orjson
from pydantic_core import from_json

from dare_reward.errors import LimitError
from dare_reward.wire import MAX_HEADER

from .problems import RefusalError

# A pair is one character, and a backslash before a `u` may itself be escaped: both are passed over.
_SURROGATE = re.compile(
    rb"\\\\|\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|(\\u[dD][89a-fA-F][0-9a-fA-F]{2})"
)

_OPENING = re.compile(rb'\s*\{\s*"(?:query|prompts|labels)"\s*:')
_OPENING_BYTES = 4096  # a body that begins with more white space is no client's


def is_openrlhf(body: bytes | bytearray) -> bool:
    """The body's first key is one of OpenRLHF's, which no grouped request has: cheaper than parsing it twice."""
    return _OPENING.match(body, 0, _OPENING_BYTES) is not None


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
    if sum(bare.count(b":") for bare, _ in _without_strings(body)) == _keys(content):  # each key has one
        return
    with suppress(json.JSONDecodeError, RecursionError):  # what Python refuses, the parser that counts has taken
        json.loads(bytes(body), object_pairs_hook=_once)


def _usual_keys(content: Any) -> int:
    """Keys of a request whose rollouts hold no objects: few lines for the many rollouts of a step."""
    if not isinstance(content, dict) or not isinstance(params := content.get("params", {}), dict):
        return -1
    count = len(content) + len(params)
    groups = content.get("groups")
    with suppress(TypeError):  # of a rollout without a length: the count is too low, and is made again
        for group in groups if isinstance(groups, list) else ():
            if not isinstance(group, dict) or not isinstance(rollouts := group.get("rollouts"), list):
                return -1
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


# --- memory -----------------------------------------------------------------------------------------------------------

# What pydantic and Python need for one, measured with CPython 3.11 and rounded up.
VALUE, STRING, LIST, OBJECT = 80, 110, 256, 450
MOST = 180  # per byte of the worst body: an empty object and a comma
OWN = 4  # times its own bytes that a body may take in any case
PIECE = 1 << 16  # bytes that are looked at in one go, while other threads wait
COSTS = dict(zip(b',[{"', (VALUE, LIST, OBJECT, STRING // 2), strict=True))  # of a byte, wherever it stands


def check_json(body: bytes | bytearray, budget: int) -> None:
    """LimitError for a body that takes more than `budget` bytes and OWN times its own."""
    allowed = budget + OWN * len(body)
    if MOST * len(body) <= allowed or _at_most(body) <= allowed:
        return
    if (needed := json_memory(body)) > allowed:
        raise LimitError(
            f"this JSON of {_mb(len(body))} holds so many values that reading it takes {_mb(needed)} of memory. It may "
            f"take {_mb(allowed)}: {OWN} x its size, and {_mb(budget)}. Send a frame or "
            "mean entropies, or split the request by group",
            code="memory",
        )


def _mb(size: int) -> str:
    return f"{size / 1e6:,.1f} MB"


def check_frame(body: bytes | bytearray, budget: int) -> None:
    """The same for the header of a frame."""
    check_json(bytes(body[8 : 8 + min(int.from_bytes(body[:8], "little"), MAX_HEADER)]), budget)


def _at_most(body: bytes | bytearray) -> int:
    """No less than `json_memory`, at a tenth of its cost: it counts what stands within strings too."""
    total = len(body) + STRING // 2
    for start in range(0, len(body), PIECE):
        piece = np.frombuffer(body, np.uint8, min(PIECE, len(body) - start), start)
        total += sum(cost * int(np.count_nonzero(piece == byte)) for byte, cost in COSTS.items())
    return total


def json_memory(body: bytes | bytearray) -> int:
    """Bytes for the body and all that it becomes, at most. Of what is no JSON the figure means nothing."""
    total = len(body)
    for bare, strings in _without_strings(body):
        total += VALUE * bare.count(b",") + LIST * bare.count(b"[") + OBJECT * bare.count(b"{") + STRING * strings
    return total


def keys_at_most(body: bytes | bytearray | memoryview) -> int:
    """No fewer than the keys of a body, at a fraction of the cost of counting colons outside of strings.

    The quote that ends a key stands before a colon, with blanks between them at most, and no backslash escapes it.
    """
    total = 0
    for start in range(0, len(body) - 3, PIECE):
        piece = np.frombuffer(body, np.uint8, min(PIECE + 3, len(body) - start), start)
        after, slash = piece[3:], piece == ord("\\")
        ends = (piece[2:-1] == ord('"')) & ((after == ord(":")) | (after <= ord(" ")))
        total += int(np.count_nonzero(ends & (~slash[1:-2] | slash[:-3]) if slash.any() else ends))
    return total


def _without_strings(body: bytes | bytearray | memoryview) -> Iterator[tuple[bytes, int]]:
    """The body piece by piece: what stands outside of strings, and how many strings ended."""
    inside, rest = 0, b""
    for start in range(0, len(body), PIECE):
        piece = (rest + body[start : start + PIECE]).replace(rb"\\", b"").replace(rb"\"", b"")
        parts = piece.split(b'"')
        ends = len(parts) - 1 + inside
        yield b"".join(parts[inside::2]), ends // 2
        # What is escaped may be the next piece's first character.
        inside, rest = ends % 2, b"\\" if piece.endswith(b"\\") else b""
