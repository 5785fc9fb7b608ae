"""What systemd, or whoever speaks its protocol, hands to the service and is told by it.

The listening socket: it stays open while the service is away, so that connections wait for the next process in place of
being refused. Readiness, the stop, and a sign of life of the event loop go to its datagram socket.
"""

from __future__ import annotations

import os
import socket
from collections.abc import MutableMapping
from contextlib import suppress
from typing import Final

from ..settings import SettingsError

FIRST: Final = 3  # the first descriptor that is handed over
FAMILIES: Final = {socket.AF_INET, socket.AF_INET6, socket.AF_UNIX}


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
