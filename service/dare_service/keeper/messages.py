"""What the service and its keeper say to each other, as pickles over two pipes that nobody else holds."""

from __future__ import annotations

import fcntl
import pickle
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import Any, Final

from dare_reward.runs.line import RunRecord

__all__ = ["Answer", "Ask", "Setup", "Status", "Warned", "receive", "send", "widen"]

PIPE: Final = 1 << 20  # bytes that a pipe holds, where the system allows it: a step is handed over in one go


@dataclass(frozen=True, slots=True)
class Setup:
    """The first message to the keeper. `folder` is empty without a run log."""

    folder: str
    asked: frozenset[str]
    max_bytes: int
    max_age: float
    page: bool


@dataclass(frozen=True, slots=True)
class Ask:
    """To the keeper: settle (write and add up all that came before), and return the page's view if `view`."""

    number: int
    view: bool


@dataclass(frozen=True, slots=True)
class Answer:
    """From the keeper: what was asked for."""

    number: int
    view: bytes


@dataclass(frozen=True, slots=True)
class Status:
    """From the keeper: the counts of the run log, the page's version, and groups that the page left out."""

    log: dict[str, int]
    version: int
    left_out: int


@dataclass(frozen=True, slots=True)
class Warned:
    """From the keeper: an event with its sentence."""

    event: str
    why: str


Message = Setup | Ask | Answer | Status | Warned | tuple[float, RunRecord]


def send(pipe: Connection, message: Message) -> None:
    """OSError if the other side is gone."""
    pipe.send_bytes(pickle.dumps(message, pickle.HIGHEST_PROTOCOL))


def receive(pipe: Connection) -> Any:
    """The next message; EOFError or OSError if the other side is gone."""
    return pickle.loads(pipe.recv_bytes())  # noqa: S301  (no third process holds an end of the pipe)


def widen(descriptor: int) -> None:
    with suppress(OSError, AttributeError):
        fcntl.fcntl(descriptor, fcntl.F_SETPIPE_SZ, PIPE)
