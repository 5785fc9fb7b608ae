"""A file of sampled groups, written as they come, so that the same command resumes.

A line is a group of `POST /reward` whose `meta` says how it was sampled, and holds its greedy rollout, if it was asked
for one. A group may have several lines, each with some of its rollouts, until they are joined. What a cut left of a
last line is taken away.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from dare_reward.errors import ConfigError
from dare_reward.files.output import append_line, check_not_input, mend_end, write_files
from dare_reward.params import Param

from ..launch.questions import LabelledQuestion


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasurePlan:
    """What the model is asked, and how. A file of rollouts belongs to one of these.

    data   the benchmark's name
    url    an endpoint was asked, which tells no entropies
    """

    model: str
    data: str
    url: bool = False
    seed: int = 0
    rollouts: Annotated[int, Param("Rollouts of each prompt", ge=1)] = 64
    temperature: Annotated[float, Param("The temperature that you will train with", ge=0)] = 1.0
    top_p: Annotated[float, Param("The top-p that you will train with", gt=0, le=1)] = 0.95
    max_tokens: Annotated[int, Param("The most new tokens of a rollout", ge=1)] = 3072
    chat: Annotated[
        bool, Param("Ask by the model's chat template; --no-chat sends the bare text, which a base model goes on with")
    ] = True
    as_is: Annotated[bool, Param("Add no instruction to reason and to put the answer into \\boxed{}")] = False
    prefix: Annotated[str, Param("Put this before every prompt; \\n is a line break")] = ""
    stop: tuple[str, ...] = ()
    tokens: Annotated[bool, Param("Write each token's id, entropy and log-probability, not their means alone")] = False

    def sent(self, problem: LabelledQuestion) -> str:
        """What the model is sent of a problem."""
        return self.prefix + problem.sent(as_is=self.as_is)


@dataclass(frozen=True, slots=True)
class Want:
    """What a problem still lacks: so many rollouts, and the greedy one."""

    problem: LabelledQuestion
    rollouts: int
    greedy: bool

    @property
    def sequences(self) -> int:
        return self.rollouts + self.greedy

    @property
    def parts(self) -> list[bool]:
        """What is asked for: rollouts (False), a greedy one (True), or both."""
        return [False] * bool(self.rollouts) + [True] * self.greedy


JSON = dict[str, Any]
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
        self.lines: dict[str, list[JSON]] = {}
        lines = path.read_bytes().splitlines() if path.exists() else []
        for line in lines:
            try:
                self._take(json.loads(line))
            except ValueError:
                if line is not lines[-1] or line[: len(OPENING)] != OPENING[: len(line)]:
                    raise self._refused("is no file of sampled groups") from None
        if lines:
            mend_end(path)

    def rollouts(self, group_id: str) -> list[JSON]:
        """All that were sampled of a group."""
        return [rollout for line in self.lines.get(group_id, ()) for rollout in line["rollouts"]]

    def greedy(self, group_id: str) -> JSON | None:
        """The control: what the model says of it, decoded greedily."""
        return next((x["meta"]["greedy"] for x in self.lines.get(group_id, ()) if "greedy" in x["meta"]), None)

    def group(self, group_id: str) -> JSON:
        """A group of all its lines."""
        lines, alone = self.lines[group_id], self.greedy(group_id)
        meta = {**lines[0]["meta"], **({} if alone is None else {"greedy": alone})}
        return {**lines[0], "meta": meta, "rollouts": self.rollouts(group_id)}

    def add(self, group: Mapping[str, Any]) -> None:
        """Write what was sampled of a group at the file's end."""
        group = {**group, "meta": {**group["meta"], "sampling": self.plan}}
        self.path.parent.mkdir(parents=True, exist_ok=True)
        append_line(self.path, group)
        self.lines.setdefault(group["group_id"], []).append(group)

    def join(self) -> None:
        """Write every group as one line, as other commands read it. The file changes as a whole, or not at all."""
        if all(len(lines) == 1 for lines in self.lines.values()):
            return
        self.lines = {name: [self.group(name)] for name in self.lines}
        text = "".join(json.dumps(line) + "\n" for (line,) in self.lines.values())
        write_files({self.path: text}, force=True)

    def _take(self, group: Any) -> None:
        before = group.get("meta", {}).get("sampling") if isinstance(group, dict) else None
        if not isinstance(before, dict) or not {"group_id", "rollouts"} <= group.keys():
            raise self._refused("is no file of sampled groups")
        if changed := sorted(name for name, value in self.plan.items() if before.get(name) != value):
            raise self._refused(f"was not sampled with this {', '.join('--' + n.replace('_', '-') for n in changed)}")
        if (name := group["group_id"]) not in self.asked:
            raise self._refused(f"has a group {name!r} that --data lacks")
        if other := ", ".join(_differences(group, self.asked[name])):
            raise self._refused(f"has another {other} of the group {name!r} than --data")
        self.lines.setdefault(name, []).append(group)

    def _refused(self, why: str) -> ConfigError:
        return ConfigError(f"{self.path} {why}: choose another --out")


def _differences(line: Mapping[str, Any], asked: Mapping[str, Any]) -> list[str]:
    """The names of what a line was sampled or is graded by, where it is not what is asked now.

    A line is compared by what it stores: spellings that came to be accepted refuse no file. Where no text was `asked`,
    the prompt was sent.
    """
    stored = {**line["meta"], **line}
    names = [name for name in ("kind", "options", "prompt", "asked") if stored.get(name) != asked.get(name)]
    return names + ["label"] * ("label" in asked and not _listed(line.get("label")) <= _listed(asked["label"]))


def _listed(label: Any) -> set[str]:
    return {*label} if isinstance(label, list) else {str(label)}
