"""Everything that can go wrong, as one tree. Each error carries the HTTP status that the service answers with.

DareError
├── RequestError          422  the request is invalid: names the place and the rule
│   ├── FrameError        400  the bytes are not JSON or not a frame
│   └── LimitError        413  more than the stated limit
├── GroupError                 one group cannot be scored; its neighbours are (never an HTTP status)
├── ServiceError               the client got no usable reply
│   ├── UnavailableError  503  no service, or no answer in time
│   ├── RefusedError           the service refused the request; carries its status and problem document
│   └── ReplyError        502  the reply does not fit the request
└── ConfigError           409  the service (or a fallback) would score by another configuration than the pinned one
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence
from functools import partial
from typing import Any

__all__ = [
    "ConfigError",
    "DareError",
    "FrameError",
    "GroupError",
    "LimitError",
    "RefusedError",
    "ReplyError",
    "RequestError",
    "ServiceError",
    "UnavailableError",
]

Loc = tuple[str | int, ...]


class DareError(Exception):
    """Base of all errors of this package."""

    status: int = 500


class RequestError(DareError, ValueError):
    """The request is invalid. `loc` is the path to the place, `code` a stable name of the rule."""

    status = 422

    def __init__(self, message: str, *, loc: Sequence[str | int] = (), code: str = "invalid") -> None:
        self.loc: Loc = tuple(loc)
        self.code = code
        self.message = message
        super().__init__(f"{path(self.loc)}: {message}" if self.loc else message)

    # Errors cross processes (Ray, spawn): an exception is rebuilt from its arguments, not from its text.
    def __reduce__(self) -> tuple[Any, ...]:
        return partial(type(self), self.message, loc=self.loc, code=self.code), ()


class FrameError(RequestError):
    """The bytes are neither JSON nor a frame."""

    status = 400


class LimitError(RequestError):
    """More than the stated limit."""

    status = 413


class GroupError(DareError, ValueError):
    """One group cannot be scored."""

    def __init__(self, code: str, message: str) -> None:
        self.code = code
        self.message = message
        super().__init__(message)

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.code, self.message)


class ServiceError(DareError):
    """The client got no usable reply."""

    status = 502


class UnavailableError(ServiceError):
    """There is no service, or no answer in time."""

    status = 503


class RefusedError(ServiceError):
    """The service refused the request; `problem` is its RFC 9457 document."""

    def __init__(self, status: int, problem: dict[str, Any]) -> None:
        self.status = status
        self.problem = problem
        super().__init__(f"{status}: {problem.get('detail') or problem.get('title') or 'refused'}")

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.status, self.problem)


class ReplyError(ServiceError):
    """The reply does not fit the request."""


class ConfigError(DareError):
    """The service, or a fallback, would score by another configuration than the pinned one."""

    status = 409


def unknown_name(what: str, name: str, known: Iterable[str], *, listed: bool = False) -> str:
    """A message for a key that is none of `known`, with the likeliest ones meant, and with all if `listed`."""
    known = list(known)
    return f"unknown {what} {name[:64]!r}{_likely(name, known)}{_all(known, name) if listed else ''}"


def unknown_value(what: str, value: str, known: Iterable[str]) -> str:
    """The same for a value, with all. It is not repeated: errors reach logs and other people."""
    known = list(known)
    return f"unknown {what}{_likely(value, known)}{_all(known, value)}"


def misspelt_variables(known: Iterable[str], environment: Iterable[str]) -> list[str]:
    """A sentence for each variable of `environment` that nothing reads and whose name is close to one of `known`."""
    names = {name.removeprefix("DARE_"): name for name in known}
    strange = sorted(n for n in environment if n.startswith("DARE_") and n.removeprefix("DARE_") not in names)
    near = {name: difflib.get_close_matches(name.removeprefix("DARE_"), names, n=1, cutoff=0.6) for name in strange}
    return [
        f"the variable {name[:64]} is not read. Did you mean {names[best[0]]}?" for name, best in near.items() if best
    ]


def _all(known: Sequence[str], name: str) -> str:
    return f"{'' if _likely(name, known) else '.'} Known: {', '.join(known) or 'none'}"


def _likely(name: str, known: Iterable[str]) -> str:
    near = difflib.get_close_matches(name[:64], list(known), n=3, cutoff=0.5)
    return f". Did you mean {' or '.join(near)}?" if near else ""


def path(loc: Sequence[str | int]) -> str:
    """`("groups", 0, "rollouts")` -> `groups[0].rollouts`."""
    out = ""
    for part in loc:
        out += f"[{part}]" if isinstance(part, int) else f".{part}" if out else part
    return out


def placed(error: RequestError, known: int) -> str:
    """What an error says, its place without the first `known` parts, which whoever reads it knows."""
    loc = error.loc[known:]
    return f"{path(loc)}: {error.message}" if loc else error.message


def counted(count: int, what: str) -> str:
    """`1 prompt`, `2 prompts`."""
    return f"{count:,} {what}{'s' * (count != 1)}"


def printable(text: str, *, keep: str = "") -> str:
    """Text that other people wrote, as a message or a terminal may show it.

    What clears a screen, colours, turns or hides text is written out, as `\\x1b`.

    Args:
        keep: characters of these kinds that stay, such as a line break
    """
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() or c in keep else c.encode("unicode_escape").decode() for c in text)
