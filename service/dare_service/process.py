"""What a supervisor and an operator do with the running process.

systemd, or whoever speaks its protocol, hands the service a socket and is told how it is; SIGHUP reads settings again.

The listening socket: it stays open while the service is away, so that connections wait for the next process in place of
being refused. Readiness, the stop, and a sign of life of the event loop go to its datagram socket.
"""

from __future__ import annotations

import logging
import os
import socket
from collections.abc import Callable, MutableMapping
from contextlib import suppress
from dataclasses import fields, replace
from typing import TYPE_CHECKING, Final

from .log import logger
from .settings import SECRET, Settings, SettingsError

if TYPE_CHECKING:
    from .app import State

FIRST: Final = 3  # the first descriptor that is handed over
FAMILIES: Final = {socket.AF_INET, socket.AF_INET6, socket.AF_UNIX}
# What SIGHUP may change under way.
LIVE: Final = ("token", "run_log", "run_log_texts", "run_log_max_bytes", "run_log_max_age")


def inherited(environment: MutableMapping[str, str] = os.environ, *, first: int = FIRST) -> socket.socket | None:
    """The listening socket that the supervisor holds for this process, or None. SettingsError if it is none to use.

    The variables are removed, as no child of this process is meant.
    """
    count, pid = environment.pop("LISTEN_FDS", ""), environment.pop("LISTEN_PID", "")
    environment.pop("LISTEN_FDNAMES", None)
    if not count or pid != str(os.getpid()):
        return None
    if count != "1":
        raise SettingsError(
            f"the supervisor hands over {count[:8]} sockets (LISTEN_FDS), and the service takes one: "
            "leave one ListenStream= in the .socket unit"
        )
    try:
        listener = socket.socket(fileno=first)
    except OSError as error:
        raise SettingsError(f"LISTEN_FDS=1, but descriptor {first} is no socket: {error.strerror}") from None
    why = ""
    if listener.family not in FAMILIES or listener.type != socket.SOCK_STREAM:
        why = "is no TCP and no Unix stream socket: use ListenStream="
    elif not listener.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN):
        why = "does not listen: use ListenStream= and Accept=no"
    if why:
        listener.close()
        raise SettingsError(f"the supervisor's socket {why}")
    listener.set_inheritable(False)
    return listener


class Supervisor:
    """Whom the service tells how it is: nobody, where no `NOTIFY_SOCKET` is named."""

    def __init__(self, environment: MutableMapping[str, str] = os.environ) -> None:
        name = environment.pop("NOTIFY_SOCKET", "")
        period, pid = environment.pop("WATCHDOG_USEC", ""), environment.pop("WATCHDOG_PID", "")
        self._address = "\0" + name[1:] if name.startswith("@") else name
        mine = period.isdecimal() and pid in {"", str(os.getpid())}
        self._every = int(period) / 2e6 if mine else float("inf")  # half of what it allows
        self._next = 0.0

    def tell(self, message: str) -> None:
        """Send a message as of sd_notify(3); a supervisor that cannot be reached changes nothing."""
        if self._address:
            with suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as sender:
                sender.setblocking(False)
                sender.sendto(message.encode(), self._address)

    def alive(self, now: float) -> None:
        """The event loop turns: called often, it tells as often as the watchdog asks for."""
        if self._every < float("inf") and now >= self._next:
            self._next = now + self._every
            self.tell("WATCHDOG=1")


def reload(state: State, read: Callable[[], Settings]) -> None:
    """Take what `read` returns as far as it may change now, and say what did and what waits for a restart.

    A wrong setting changes nothing. A service that has a token keeps one, and one without gets none: which names and
    addresses may reach it was decided when it began.
    """
    old = state.settings
    try:
        new = read()
    except (SettingsError, OSError) as error:
        logger.error("reload", extra={"fields": {"why": f"nothing has changed: {error}"}})
        return
    different = [f.name for f in fields(Settings) if getattr(new, f.name) != getattr(old, f.name)]
    live = [n for n in different if n in LIVE and (n != "token" or bool(new.tokens) == bool(old.tokens))]
    state.settings = replace(old, **{name: getattr(new, name) for name in live})
    if set(live) - SECRET:
        state.recorder.set_up(state.settings)
    waiting = [name for name in different if name not in live]
    level = logging.WARNING if waiting else logging.INFO
    outcome = {"tokens": len(state.settings.tokens), "changed": live}
    outcome |= {"why": "these settings change at a restart", "unchanged": waiting} if waiting else {}
    logger.log(level, "reload", extra={"fields": outcome})
