"""A file of sampled groups, written as they come, so that the same command resumes.

A line is a group of `POST /reward` whose `meta` says how it was sampled. A group may have several lines, each with some
of its rollouts, until they are joined. A torn line does not count.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from dare_reward.errors import ConfigError
from dare_reward.files.opened import check_not_input
from dare_reward.files.output import write_files

OPENING = b'{"group_id": '


class RolloutFile:
    """The file at `path`. It belongs to one plan (how it was sampled) and to the questions of one data set.

    asked   by id, what decides a question's samples and their grading, by the names that a line has for it
    lines   those of each group, by its id
    """

    def __init__(self, path: Path, plan: Mapping[str, Any], asked: Mapping[str, Mapping[str, Any]]) -> None:
        """Read what is there. ConfigError if the file is somebody else's, or was sampled otherwise."""
        check_not_input(path)  # lines are added to it
        self.path = path
        self.plan, self.asked = json.loads(json.dumps([plan, asked]))
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
        if not isinstance(before, dict) or not {"group_id", "rollouts"} <= group.keys():
            raise ConfigError(f"{self.path} is no file of sampled groups: choose another --out")
        # Files of before 24 November 2026 have a digest of all questions behind the name of their data.
        data, older, _ = str(before.get("data")).partition(":")
        before = {**before, "data": data}
        if changed := sorted(name for name, value in self.plan.items() if before.get(name) != value):
            flags = ", ".join(f"--{name.replace('_', '-')}" for name in changed)
            raise ConfigError(f"{self.path} was not sampled with this {flags}: choose another --out")
        name = group["group_id"]
        if name not in self.asked:
            raise ConfigError(f"{self.path} has a group {name!r} that --data lacks: choose another --out")
        if other := ", ".join(_differences(group, self.asked[name], bool(older))):
            raise ConfigError(
                f"{self.path} has another {other} of the group {name!r} than --data: choose another --out"
            )
        self.lines.setdefault(name, []).append(group)


def _joined(lines: list[dict[str, Any]]) -> dict[str, Any]:
    """One group of all its lines; its tokens are unknown where those of a line are."""
    tokens = [line["meta"].get("completion_tokens") for line in lines]
    known = all(isinstance(count, int) for count in tokens)
    meta = {**lines[0]["meta"], "completion_tokens": sum(tokens) if known else None}
    return {**lines[0], "meta": meta, "rollouts": [rollout for line in lines for rollout in line["rollouts"]]}


def _differences(line: Mapping[str, Any], asked: Mapping[str, Any], older: bool) -> list[str]:
    """The names of what a line was sampled or is graded by, where it is not what is asked now.

    A line is compared by what it stores. Spellings that came to be accepted refuse no file, nor does `asked` (in meta)
    refuse an older one, which does not say what was sent. In others no `asked` means that the prompt was sent.
    """
    stored = {**({"asked": asked.get("asked")} if older else {}), **line["meta"], **line}
    names = [name for name in ("kind", "options", "prompt", "asked") if stored.get(name) != asked.get(name)]
    return names + ["label"] * ("label" in asked and not _listed(line.get("label")) <= _listed(asked["label"]))


def _listed(label: Any) -> set[str]:
    return {*label} if isinstance(label, list) else {str(label)}
