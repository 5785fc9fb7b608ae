"""The letters that the answers of a choice group may be."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress

from dare_reward.errors import RequestError

ALPHABET = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
_CAPITALS = frozenset(ALPHABET)
DEFAULT = tuple(ALPHABET[:10])  # MMLU-Pro has ten options, the most of the sets in common use


def option_letters(options: Sequence[str] | int | None) -> tuple[str, ...]:
    """The letters of a group's options: A-J by default, the first n for a count n, capital letters as given."""
    if options is None:
        return DEFAULT
    if isinstance(options, bool) or not isinstance(options, int | Sequence):
        raise RequestError("options must be a count or a list of letters", loc=("options",), code="options")
    if isinstance(options, int):
        if not 1 <= options <= len(ALPHABET):
            raise RequestError("options must be a count from 1 to 26", loc=("options",), code="options")
        return tuple(ALPHABET[:options])
    letters = tuple(options)
    with suppress(TypeError):  # what has no hash is no letter
        if letters and len(_CAPITALS.intersection(letters)) == len(letters):
            return letters
    raise RequestError("options must be different capital letters A-Z", loc=("options",), code="options")
