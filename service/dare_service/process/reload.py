"""SIGHUP: settings are read again, and those that may change under way do."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import fields, replace
from typing import TYPE_CHECKING, Final

from ..log import logger
from ..settings import SECRET, Settings, SettingsError

if TYPE_CHECKING:
    from ..app import State

LIVE: Final = ("token", "run_log", "run_log_texts", "run_log_max_bytes", "run_log_max_age")


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
