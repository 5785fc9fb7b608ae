"""Which commit a campaign was preregistered by: it stands in every record, so that nobody has to trust a date."""

from __future__ import annotations

import subprocess
from pathlib import Path

from dare_reward.errors import ConfigError

__all__ = ["PAGE", "registered"]

PAGE = "campaign.md"


def registered(folder: Path) -> str:
    """The last commit that changed the page of the campaign; ConfigError if it is not committed as it is."""
    page = folder / PAGE
    if not page.is_file():
        raise ConfigError(f"{page} does not exist: preregister the campaign there, and commit it, before any run")
    if _git(folder, "status", "--porcelain", "--", PAGE):
        raise ConfigError(f"{page} has changes that are not committed: a preregistration is a commit")
    commit = _git(folder, "log", "-1", "--format=%H", "--", PAGE)
    if not commit:
        raise ConfigError(f"{page} is in no commit: a preregistration is a commit")
    return commit


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
