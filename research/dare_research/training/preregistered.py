"""Which commit a campaign was preregistered by, and which one ran: they stand in every record, so that nobody has to
trust a date.
"""

from __future__ import annotations

import subprocess
from pathlib import Path

from dare_reward.errors import ConfigError


def registered(page: Path) -> dict[str, str]:
    """`preregistration`: the last commit that changed the page; ConfigError if it is not committed as it is.

    `code`: the commit that is checked out, with `-dirty` after it if a module that git knows has changed since.
    """
    folder = page.parent
    if not page.is_file():
        raise ConfigError(f"{page} does not exist: preregister the campaign there, and commit it, before any run")
    if _git(folder, "status", "--porcelain", "--", page.name):
        raise ConfigError(f"{page} has changes that are not committed: a preregistration is a commit")
    commit = _git(folder, "log", "-1", "--format=%H", "--", page.name)
    if not commit:
        raise ConfigError(f"{page} is in no commit: a preregistration is a commit")
    changed = _git(folder, "status", "--porcelain", "--untracked-files=no", "--", ":/*.py")
    return {"preregistration": commit, "code": _git(folder, "rev-parse", "HEAD") + ("-dirty" if changed else "")}


def _git(folder: Path, *words: str) -> str:
    try:
        found = subprocess.run(  # noqa: S603  (our own words)
            ["git", *words],  # noqa: S607
            cwd=folder,
            check=True,
            capture_output=True,
            text=True,
        )
    except (OSError, subprocess.CalledProcessError) as error:
        raise ConfigError(f"{folder}: the campaign runs in a git checkout ({error})") from None
    return found.stdout.strip()
