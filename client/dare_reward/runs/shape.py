"""Whether a line of a run log holds what it should: a log may be edited, cut, or written by somebody else."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType, NoneType
from typing import Any, Final

from .line import LINE

LARGEST: Final = float(1 << 63)
# Numbers of a group that hold further numbers by name, and those that hold such objects by name.
NESTED: Final = MappingProxyType({"no_answer": 1, "shadow": 2})


def fault(line: Mapping[str, Any]) -> str:
    """What is wrong with the first of its keys that no reader could use; empty if nothing is."""
    count = None
    for name, per_rollout, good, what in CHECKS:
        value = line.get(name)
        if value is None:
            continue
        if not per_rollout:
            if not good(value):
                return f"{name} must be {what}"
        elif not isinstance(value, list) or not _each(value, good):
            return f"{name} must be a list with {what} for each rollout"
        elif count is not None and len(value) != count:
            return f"{name} has {len(value)} entries, and other keys have {count}"
        else:
            count = len(value)
    return ""


def _each(values: list[Any], good: Callable[[Any], bool]) -> bool:
    return all(value is None or good(value) for value in values)


def _text(value: Any) -> bool:
    return isinstance(value, str)


def _flag(value: Any) -> bool:
    return isinstance(value, bool)


def _number(value: Any) -> bool:
    return isinstance(value, int | float) and -LARGEST < value < LARGEST


def _integer(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and -LARGEST < value < LARGEST


def _list_of(good: Callable[[Any], bool]) -> Callable[[Any], bool]:
    return lambda value: isinstance(value, list) and _each(value, good)


def _scalar(value: Any) -> bool:
    return _text(value) or _number(value)


def _object(value: Any, depth: int = 1) -> bool:
    """Scalars by name, or, below, objects of them."""
    if not isinstance(value, dict):
        return False
    return all(x is None or (_scalar(x) if depth == 1 else _object(x, depth - 1)) for x in value.values())


def _diagnostics(value: Any) -> bool:
    return isinstance(value, dict) and all(
        x is None or (_object(x, NESTED[name]) if name in NESTED else _scalar(x)) for name, x in value.items()
    )


def _support(value: Any) -> bool:
    return isinstance(value, list) and all(
        _object(x) and _text(x.get("answer")) and _integer(x.get("count")) for x in value
    )


def _error(value: Any) -> bool:
    return isinstance(value, dict) and value.keys() == {"code", "message"} and all(map(_text, value.values()))


def _inputs(value: Any) -> bool:
    return isinstance(value, dict) and all(isinstance(x, NoneType) or _list_of(_number)(x) for x in value.values())


KINDS: Final[Mapping[str, tuple[Callable[[Any], bool], str]]] = MappingProxyType(
    {
        "any": (lambda _: True, "a value"),
        "text": (_text, "a text"),
        "flag": (_flag, "true or false"),
        "number": (_number, "a number"),
        "integer": (_integer, "an integer"),
        "texts": (_list_of(_text), "a list of texts"),
        "numbers": (_list_of(_number), "a list of numbers"),
        "integers": (_list_of(_integer), "a list of integers"),
        "diagnostics": (_diagnostics, "an object of numbers"),
        "support": (_support, "a list of answers with their counts"),
        "error": (_error, "an object with code and message"),
        "inputs": (_inputs, "an object of lists of numbers"),
    }
)
CHECKS: Final = tuple((f.name, f.of == "rollout" and f.holds != "inputs", *KINDS[f.holds]) for f in LINE)
