"""Whether a line of a run log holds what it should: a log may be edited, cut, or written by somebody else."""

from __future__ import annotations

from collections.abc import Mapping
from inspect import isfunction
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from .._reply_check import Read, Unfit, reader
from ..reply import Problem
from .line import LINE, LineField


class _Votes(NamedTuple):
    """What every reader needs of a row of the support."""

    answer: str
    count: int  # type: ignore[assignment]  # in place of the method of tuples


# Numbers of a group that hold further numbers by name, and those that hold such objects by name.
NESTED: Final = MappingProxyType({"no_answer": 1, "shadow": 2})
_number, _numbers = reader(float | None), reader(tuple[float | None, ...] | None)


def _named(value: Any, read: Read) -> None:
    """Each value of an object."""
    for entry in reader(Mapping[str, Any])(value).values():
        read(entry)


def _scalars(value: Any, depth: int = 0) -> None:
    """A text, a number or null; or objects of them by name, so many deep."""
    if depth and value is not None:
        _named(value, lambda entry: _scalars(entry, depth - 1))
    elif not isinstance(value, str):
        _number(value)


def _diagnostics(value: Any) -> None:
    for name, entry in reader(Mapping[str, Any])(value).items():
        _scalars(entry, NESTED.get(name, 0))


KINDS: Final[Mapping[str, Any]] = MappingProxyType(
    {
        "any": Any,
        "text": str | None,
        "flag": bool | None,
        "number": float | None,
        "integer": int | None,
        "texts": tuple[str | None, ...] | None,
        "numbers": tuple[float | None, ...] | None,
        "integers": tuple[int | None, ...] | None,
        "diagnostics": _diagnostics,
        "support": tuple[_Votes, ...],
        "error": Problem,
        "inputs": lambda value: _named(value, _numbers),
    }
)


def _read_of(field: LineField) -> Read:
    hint = KINDS[field.holds]
    return hint if isfunction(hint) else reader(tuple[hint, ...] if field.of == "rollout" else hint)  # type: ignore[valid-type]


CHECKS: Final = tuple((f.name, f.of == "rollout" and f.holds != "inputs", _read_of(f)) for f in LINE)


def fault(line: Mapping[str, Any]) -> str:
    """What is wrong with the first of its keys that no reader could use; empty if nothing is."""
    count = None
    for name, per_rollout, read in CHECKS:
        value = line.get(name)
        if value is None:
            continue
        try:
            read(value)
        except Unfit as unfit:
            return f"{name}{''.join(unfit.path)} is not {unfit.words}"
        if per_rollout and count not in {None, len(value)}:
            return f"{name} has {len(value)} entries, and other keys have {count}"
        count = len(value) if per_rollout else count
    return ""
