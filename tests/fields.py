"""Values of declared inputs, so that a new input of a group is in the tests of all methods without a line."""

from __future__ import annotations

from typing import Any

from dare_reward.inputs import GROUP_FIELDS, Field

OTHERS: dict[str, Any] = {
    "bool": True,
    "text": "x",
    "texts": ["x", "y"],
    "object": {"mine": 1},
    "options": 4,
    "rollouts": [{"answer": "1"}],
}


def good(field: Field) -> Any:
    """A value of the input."""
    if field.type == "choice":
        return field.choices[-1]
    if field.type in {"float", "int"}:
        value = float if field.type == "float" else int
        one = value(field.le if field.le is not None and field.le < 1 else max(field.ge or 0, 1))
        return {"scalar": one, "tokens": [one], "list": [one], "vector": [one], "matrix": [[one, one]]}[field.shape]
    return [True] if field.ragged else OTHERS[field.type]


def group_numbers(*known: str) -> dict[str, Any]:
    """A value of each number that a group may have, without `known` and its size, which is that of its rollouts."""
    numbers = [f for f in GROUP_FIELDS.values() if f.type in {"float", "int"}]
    return {f.name: good(f) for f in numbers if f.name not in {"group_size", *known}}
