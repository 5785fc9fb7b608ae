"""The data set that `dare-reward plan` writes for a stack, whatever commands the environment was installed with."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from dare_reward.commands import plan
from dare_reward.commands.command import Command


def data_set(folder: Path, prompts: list[str], labels: dict[int, Any], *, stack: str, name: str) -> str:
    """Half of its rows are the prompts that have labels, by their places."""
    rollouts = [{"answer": a, "mean_entropy": 0.3} for a in "12"]
    rows = [
        {"group_id": str(i), "prompt": p, "rollouts": rollouts, **({"label": labels[i]} if i in labels else {})}
        for i, p in enumerate(prompts)
    ]
    (folder / "in.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    parser = Command(prog="dare-reward")
    plan.register(parser.add_subparsers())
    words = ["plan", str(folder / "in.jsonl"), "--params", "method=ttrl", "--stack", stack, "--out", str(folder / name)]
    arguments = parser.parse_args(words)
    assert arguments.run(arguments) == 0
    return str(folder / name)
