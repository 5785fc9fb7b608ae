"""Prompts in a file of their own, joined to groups by `group_id`: the batches of vLLM and OpenAI return none.

{"group_id": "7", "prompt": "What is 12 * 17?"}                       under any name of docs/data.md
{"custom_id": "7", "body": {"messages": [{"role": "user", ...}]}}     a line of the batch that you sent
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import closing
from typing import Any

from ..errors import RequestError
from .content import open_records
from .shapes import GROUP_NAMES, named, prompt_texts, read_value


class PromptFile:
    """The prompts of a file, by `group_id`. RequestError where a line has no id or no prompt, or an id has two."""

    def __init__(self, file: str) -> None:
        self.file = file
        self.prompts: dict[str, str] = {}
        self._joined: set[str] = set()
        self._bare: list[str] = []  # groups that stay without a prompt
        with closing(open_records(file)) as records:
            for number, value in records.items:
                place = f"{file}: {records.unit} {number}"
                name, prompt = _prompt(value, place)
                if self.prompts.setdefault(name, prompt) != prompt:
                    raise RequestError(f"{place}: {name[:64]!r} had another prompt above", code="prompts")

    def join(self, group: Mapping[str, Any]) -> dict[str, Any]:
        """The group with its prompt; one that has a prompt keeps it."""
        name = str(group.get("group_id"))
        if name in self.prompts:
            self._joined.add(name)
        elif not group.get("prompt"):
            self._bare.append(name)
        return {**group, "prompt": group.get("prompt") or self.prompts.get(name)}

    def say(self, tell: Callable[[str], None]) -> None:
        """How many groups stay without a prompt."""
        if self._bare:
            tell(f"{self.file}: has no prompt for {len(self._bare)} of the groups, such as {self._bare[0][:64]}")

    def check_joined(self) -> None:
        """RequestError if no prompt was of any group."""
        if not self._joined:
            ours = f", of a group {self._bare[0][:64]!r}" if self._bare else ""
            raise RequestError(
                f"{self.file}: none of its {len(self.prompts)} prompts is of a group here (its first id is "
                f"{next(iter(self.prompts))[:64]!r}{ours}). They are joined by group_id.",
                code="prompts",
            )


def _prompt(value: Any, place: str) -> tuple[str, str]:
    """The id and the prompt of a line."""
    if isinstance(value, RequestError):
        raise RequestError(f"{place}: {value}", code="prompts")
    if not isinstance(value, Mapping):
        raise RequestError(f"{place}: must be an object with group_id and prompt", code="prompts")
    name = read_value(named(value, group=True)[0].get("group_id"), None)
    body = value.get("body")
    texts = prompt_texts(body if isinstance(body, Mapping) else value)
    if not isinstance(name, str) or not name or texts is None:
        lacks, names = ("prompt", GROUP_NAMES["prompt"]) if name else ("group_id", GROUP_NAMES["group_id"])
        raise RequestError(f"{place}: it has no {lacks} (or another of {', '.join(names)})", code="prompts")
    return name, "\n".join(texts)
