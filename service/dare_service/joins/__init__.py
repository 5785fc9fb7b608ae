"""OpenRLHF's plain posts: single rollouts become groups, in the memory of one process.

Members that reach two processes never meet. `dare-reward serve` is one process whatever the environment says, and does
not ask.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Final

OFF: Final = (
    "this service joins no single rollouts (DARE_JOIN=off): a group that is spread over several replicas never fills. "
    "Post whole groups to /reward, or single rollouts to a service that is one process"
)
VARIABLES: Final = ("WEB_CONCURRENCY", "UVICORN_WORKERS", "GRANIAN_WORKERS")
FLAG: Final = re.compile(r"(?<!\S)(?:--workers[= ]|-w ?)['\"]?([0-9]{1,9})['\"]?(?!\S)")


def join_refusal(environment: Mapping[str, str], argv: Sequence[str]) -> str:
    """Why this process must not join, or the empty string."""
    asked = [(f"{name}={environment.get(name)}", environment.get(name, ""), f"unset {name}") for name in VARIABLES]
    lines = {"the command line": " ".join(argv), "GUNICORN_CMD_ARGS": environment.get("GUNICORN_CMD_ARGS", "")}
    for where, line in lines.items():
        asked += [(f"{where} asks for {found[1]} workers", found[1], "start one") for found in FLAG.finditer(line)]
    for found, count, remedy in asked:
        if re.fullmatch("[0-9]{1,9}", count) and int(count) > 1:
            return (
                f"single rollouts are joined in the memory of one process, and {found}: members of a group would wait "
                f"for each other in different processes. {remedy} (`dare-reward serve` is one process and serves "
                "thousands of waiting rollouts), put one replica behind one address, or post whole groups to /reward"
            )
    return ""
