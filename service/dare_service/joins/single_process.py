"""How many processes would serve: the join holds groups in memory, so members that reach two processes never meet.

`dare-reward serve` is one process whatever the environment says, and does not ask.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence

OFF = (
    "this service joins no single rollouts (DARE_JOIN=off): a group that is spread over several replicas never fills. "
    "Post whole groups to /reward, or single rollouts to a service that is one process"
)

VARIABLES = ("WEB_CONCURRENCY", "UVICORN_WORKERS", "GRANIAN_WORKERS")
FLAG = re.compile(r"(?:--workers|-w)(?:=(\d+))?")


def join_refusal(environment: Mapping[str, str], argv: Sequence[str]) -> str:
    """Why this process must not join, or the empty string."""
    for name in VARIABLES:
        if _number(environment.get(name, "")) > 1:
            return _advice(f"{name}={environment[name]}", f"unset {name}")
    for where, words in (
        ("the command line", argv),
        ("GUNICORN_CMD_ARGS", _words(environment.get("GUNICORN_CMD_ARGS", ""))),
    ):
        if (count := _flag(words)) > 1:
            return _advice(f"{where} asks for {count} workers", "start one")
    return ""


def _advice(found: str, remedy: str) -> str:
    return (
        f"single rollouts are joined in the memory of one process, and {found}: members of a group would wait for each "
        f"other in different processes. {remedy} (`dare-reward serve` is one process and serves thousands of waiting "
        "rollouts), put one replica behind one address, or post whole groups to /reward"
    )


def _flag(words: Sequence[str]) -> int:
    for i, word in enumerate(words):
        if found := FLAG.fullmatch(word):
            return _number(found[1] or (words[i + 1] if i + 1 < len(words) else ""))
        if attached := re.fullmatch(r"-w(\d+)", word):
            return _number(attached[1])
    return 1


def _number(text: str) -> int:
    return int(text) if text.isascii() and text.isdigit() else 1


def _words(text: str) -> list[str]:
    try:
        return shlex.split(text)
    except ValueError:
        return text.split()
