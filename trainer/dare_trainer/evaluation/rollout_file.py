"""A file of sampled groups, written as they come, so that the same command resumes.

A line is a group of `POST /reward` whose `meta` says how it was sampled. A group may have several lines, each with some
of its rollouts. A torn line does not count, and stays.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from dare_reward.errors import ConfigError

OPENING = b'{"group_id": '


class RolloutFile:
    """The file at `path`, which belongs to one plan: what is asked, and how.

    lines   those of each group, by its id
    """

    def __init__(self, path: Path, plan: Mapping[str, Any]) -> None:
        """Read what is there. ConfigError if the file is somebody else's, or was sampled by another plan."""
        self.path = path
        self.plan = json.loads(json.dumps(plan))
        self.lines: dict[str, list[dict[str, Any]]] = {}
        content = path.read_bytes() if path.exists() else b""
        self._torn = not content.endswith((b"", b"\n")[bool(content)])
        for line in content.splitlines():
            try:
                self._take(json.loads(line))
            except ValueError:
                if line[: len(OPENING)] != OPENING[: len(line)]:
                    raise ConfigError(f"{path} is no file of sampled groups: choose another --out") from None

    def rollouts(self, group_id: str) -> list[dict[str, Any]]:
        """All that were sampled of a group."""
        return [rollout for line in self.lines.get(group_id, ()) for rollout in line["rollouts"]]

    def add(self, group: Mapping[str, Any]) -> None:
        group = {**group, "meta": {**group["meta"], "sampling": self.plan}}
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with self.path.open("a", encoding="utf-8") as file:
            file.write("\n" * self._torn + json.dumps(group) + "\n")  # what a cut left behind keeps a line of its own
        self._torn = False
        self.lines.setdefault(group["group_id"], []).append(group)

    def _take(self, group: Any) -> None:
        before = group.get("meta", {}).get("sampling") if isinstance(group, dict) else None
        if not isinstance(before, dict):
            raise ConfigError(f"{self.path} is no file of sampled groups: choose another --out")
        if changed := sorted(name for name, value in self.plan.items() if before.get(name) != value):
            flags = ", ".join(f"--{name.replace('_', '-')}" for name in changed)
            raise ConfigError(f"{self.path} was not sampled with this {flags}: choose another --out")
        self.lines.setdefault(group["group_id"], []).append(group)


def digest(asked: Any) -> str:
    """Of what is asked: ids alone do not tell two files apart."""
    return hashlib.sha256(json.dumps(asked).encode()).hexdigest()[:16]
