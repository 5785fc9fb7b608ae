"""What a reply has to be before anything of it is handed on.

`read_json` is strict JSON with numbers that are numbers. `built` makes a reply of such a body: the annotations of its
class say what each field is. Whether that reply answers what was asked, `reply.check_fit` says.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping
from dataclasses import MISSING, fields, is_dataclass
from functools import cache
from types import NoneType, UnionType
from typing import Any, Final, Literal, TypeVar, get_args, get_origin, get_type_hints

from .errors import DareError, ReplyError

T = TypeVar("T")
Read = Callable[[Any], Any]

# A 64-bit integer has at most 20 characters. What is longer is no count, and float() of it may overflow.
LONGEST_INTEGER: Final = 20


def read_json(content: bytes | bytearray | str) -> Any:
    """The JSON value of `content`; ReplyError if there is none, or if a number of it is not finite."""
    try:
        text = content if isinstance(content, str) else content.decode("utf-8")
        return json.loads(text, parse_float=_float, parse_int=_int, parse_constant=_refuse)
    except RecursionError:
        raise ReplyError("the reply is nested too deeply") from None
    except ValueError as error:  # of JSON, and of UTF-8
        raise ReplyError(f"the reply is not JSON: {str(error)[:200]}") from None


def _float(text: str) -> float:
    if abs(value := float(text)) > sys.float_info.max:
        raise ValueError(f"{text[:20]} is not a finite number")
    return value


def _int(text: str) -> int:
    if len(text) > LONGEST_INTEGER:
        raise ValueError(f"an integer of {len(text)} digits")
    return int(text)


def _refuse(constant: str) -> Any:
    raise ValueError(f"{constant} is not a finite number")


# --- types -----------------------------------------------------------------------------------------------------------


class Unfit(DareError):  # noqa: N818  (who asks says what was read)
    """A value is not what its annotation says: in words, with the path to it from the outermost."""

    def __init__(self, words: str, *path: str) -> None:
        self.words, self.path = words, path


def built(kind: type[T], body: Any) -> T:
    """The object of a data class that `body` writes; ReplyError that names the first field of another type.

    Lists become tuples, and keys that the class does not know are left out. Numbers are finite, integers are counts.
    """
    try:
        made: T = reader(kind)(body)  # type: ignore[arg-type]
    except Unfit as unfit:
        place = "".join(unfit.path).removeprefix(".")
        raise ReplyError(f"not a reply of this service: {place or 'it'} is not {unfit.words}") from None
    return made


# True is no number, and NaN is not <=.
SCALARS: Final[Mapping[Any, tuple[str, Callable[[Any], bool]]]] = {
    str: ("a string", lambda value: isinstance(value, str)),
    bool: ("true or false", lambda value: isinstance(value, bool)),
    int: ("a count", lambda value: type(value) is int and 0 <= value < 1 << 63),
    float: ("a finite number", lambda value: type(value) in {int, float} and abs(value) <= sys.float_info.max),
    Mapping: ("an object", lambda value: isinstance(value, Mapping)),
}


@cache
def reader(hint: Any) -> Read:
    """What makes a value of the type `hint` of its JSON, or raises Unfit."""
    origin, parts = get_origin(hint), get_args(hint)
    if hint is Any:
        return lambda value: value
    if origin is UnionType:
        return _or_null(next(part for part in parts if part is not NoneType))
    if origin is Literal:
        return _scalar(" or ".join(parts), lambda value: value in parts)
    if origin is tuple:
        return _each(parts[0]) if parts[-1] is Ellipsis else _pair
    if is_dataclass(hint):
        return _object(hint, {f.name for f in fields(hint) if f.default is f.default_factory is MISSING})
    if hasattr(hint, "_fields"):
        return _object(hint, set(hint._fields))
    return _scalar(*SCALARS[hint if origin is None else Mapping])


def _scalar(words: str, holds: Callable[[Any], bool]) -> Read:
    def read(value: Any) -> Any:
        if not holds(value):
            raise Unfit(words)
        return value

    return read


def _or_null(hint: Any) -> Read:
    read_one = reader(hint)

    def read(value: Any) -> Any:
        if value is None:
            return None
        try:
            return read_one(value)
        except Unfit as unfit:
            raise Unfit(unfit.words if unfit.path else f"{unfit.words} or null", *unfit.path) from None

    return read


def _each(hint: Any) -> Read:
    read_one, scalars = reader(hint), {part for part in get_args(hint) or (hint,) if part in SCALARS}
    holds = SCALARS[scalars.pop()][1] if get_origin(hint) in {None, UnionType} and scalars else lambda _: False
    or_null = holds if NoneType not in get_args(hint) else lambda value: value is None or holds(value)

    def read(value: Any) -> tuple[Any, ...]:
        if not isinstance(value, list | tuple):
            raise Unfit("a list")
        if all(map(or_null, value)):  # the usual case, in a quarter of the time
            return tuple(value)
        out = []
        for i, entry in enumerate(value):
            try:
                out.append(read_one(entry))
            except Unfit as unfit:
                raise Unfit(unfit.words, f"[{i}]", *unfit.path) from None
        return tuple(out)

    return read


def _pair(value: Any) -> tuple[int, int]:
    if not isinstance(value, list | tuple) or len(value) != 2 or not all(map(SCALARS[int][1], value)):
        raise Unfit("a start and an end")
    start, end = value
    if start >= end:
        raise Unfit("a start and an end")
    return start, end


def _object(kind: Any, needed: set[str]) -> Read:
    readers = {name: reader(hint) for name, hint in get_type_hints(kind).items()}

    def read(value: Any) -> Any:
        if not isinstance(value, Mapping):
            raise Unfit("an object")
        out = {}
        for name, read_one in readers.items():
            if name in value or name in needed:
                try:
                    out[name] = read_one(value.get(name))
                except Unfit as unfit:
                    raise Unfit(unfit.words, f".{name}", *unfit.path) from None
        return kind(**out)

    return read
