"""verl's rows: which of them is a session's last output, and what it says. Keys are {uid}_{session}_{index}."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ..answers.classes import Labels
from .rollout import label_of


def final_rows(keys: Sequence[str], padding: Sequence[bool]) -> dict[str, int]:
    """The row of the last output of each session; keys are {uid}_{session}_{index}, padding rows are no session.

    In the order of the sessions, not of the rows, which verl shuffles: a tie goes to the answer that was seen first.
    """
    order = sorted((i for i, pad in enumerate(padding) if not pad), key=lambda i: int(keys[i].rsplit("_", 1)[1]))
    rows = {session_of(keys[i]): i for i in order}
    return dict(sorted(rows.items(), key=lambda item: number_of(item[0])))


def padding_of(batch: Any, masks: Sequence[Any]) -> list[bool]:
    """Which rows verl added to fill the batch."""
    return [bool(tag.get("is_padding")) or not int(m.sum()) for tag, m in zip(batch.tags, masks, strict=True)]


def said(trainer: Any, response: Any) -> dict[str, Any]:
    """The tokens of a response and how it ended; the reader of rollouts decodes those that the policy generated."""
    return {
        "token_ids": response,
        "finish_reason": "length" if len(response) >= trainer.config.data.max_response_length else "stop",
    }


def truth_of(data: Any, i: int, kind: str = "math") -> Labels | None:
    """The ground truth of a row: for diagnostics, and for `labelled=gt`. A row of label-free data has none."""
    model = data["reward_model"][i] if "reward_model" in data else None
    return label_of(model.get("ground_truth") if isinstance(model, Mapping) else model, kind)


def trained_sessions(names: Sequence[str], members: Iterable[Sequence[int]], trained: int | None) -> frozenset[str]:
    """The sessions to train on: of each prompt the first `trained` that are there; None: all."""
    return frozenset(names[i] for rows in members for i in rows[:trained])


def session_of(key: str) -> str:
    return key.rsplit("_", 1)[0]


def number_of(session: str) -> int:
    return int(session.rsplit("_", 1)[1])


def uid_of(key: str) -> str:
    return key.split("_", 1)[0]
