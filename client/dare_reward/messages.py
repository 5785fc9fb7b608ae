"""What the messages of a chat ask and reply, to every way in: stacks, files, questions of `data` and `measure`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from .answers.rollouts import spoken, written

ASSISTANT: Final = "assistant"


def is_messages(value: Any) -> bool:
    """Whether it is a list of messages with roles."""
    several = isinstance(value, list | tuple) and bool(value)
    return several and all(isinstance(m, Mapping) and "role" in m for m in value)


def asked_text(prompt: Any, *, whole: bool = False) -> str:
    """The text of a prompt, or of its messages, a line or more each; empty for anything else.

    whole   it is a whole conversation, whose last turns may be the assistant's reply: they are not asked
    """
    if not is_messages(prompt):
        return prompt if isinstance(prompt, str) else ""
    last = len(prompt)
    while whole and last and prompt[last - 1]["role"] == ASSISTANT:
        last -= 1
    return "\n".join(filter(None, (written(m.get("content")) for m in prompt[:last])))


def last_reply(messages: Any) -> Any:
    """What the assistant says last, without its reasoning; None where it says nothing. RequestError for a part that is
    no text."""
    replies = (m.get("content") for m in reversed(messages) if m.get("role") == ASSISTANT)
    return spoken(next(replies, None))
