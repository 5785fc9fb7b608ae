"""A file of sampled groups, written as they come, so that the same command resumes.

A line is a group of `POST /reward` whose `meta` says how it was sampled. A group may have several lines, each with some
of its rollouts, until they are joined. A torn line does not count.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from dare_reward.errors import ConfigError
from dare_reward.files.output import write_files

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
        self._torn_lines = False
        self._torn = not content.endswith((b"", b"\n")[bool(content)])
        for line in content.splitlines():
            try:
                self._take(json.loads(line))
            except ValueError:
                self._torn_lines = True
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

    def join(self) -> None:
        """Write every group as one line, as other commands read it. The file changes as a whole, or not at all."""
        if not self._torn_lines and all(len(lines) == 1 for lines in self.lines.values()):
            return
        self.lines = {name: [_joined(lines)] for name, lines in self.lines.items()}
        text = "".join(json.dumps(line) + "\n" for (line,) in self.lines.values())
        write_files({self.path: text}, force=True)
        self._torn_lines = self._torn = False

    def _take(self, group: Any) -> None:
        before = group.get("meta", {}).get("sampling") if isinstance(group, dict) else None
        if not isinstance(before, dict):
            raise ConfigError(f"{self.path} is no file of sampled groups: choose another --out")
        if changed := sorted(name for name, value in self.plan.items() if before.get(name) != value):
            flags = ", ".join(f"--{name.replace('_', '-')}" for name in changed)
            raise ConfigError(f"{self.path} was not sampled with this {flags}: choose another --out")
        self.lines.setdefault(group["group_id"], []).append(group)


def _joined(lines: list[dict[str, Any]]) -> dict[str, Any]:
    """One group of all its lines; its tokens are unknown where those of a line are."""
    tokens = [line["meta"].get("completion_tokens") for line in lines]
    known = all(isinstance(count, int) for count in tokens)
    meta = {**lines[0]["meta"], "completion_tokens": sum(tokens) if known else None}
    return {**lines[0], "meta": meta, "rollouts": [rollout for line in lines for rollout in line["rollouts"]]}


def digest(asked: Any) -> str:
    """Of what is asked: ids alone do not tell two files apart."""
    return hashlib.sha256(json.dumps(asked).encode()).hexdigest()[:16]
