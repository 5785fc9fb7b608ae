"""verl's rows: which of them is a session's last output, and what it says. Keys are {uid}_{session}_{index}."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final

from ..answers.classes import Labels
from ..inputs import Group
from .adapter import Scorer
from .rollout import label_of

# A rollout's inputs, and verl's columns that hold them.
TOKENS: Final = MappingProxyType(
    {
        "token_ids": "responses",
        "token_mask": "response_mask",
        "token_entropies": "entropy",
        "logprobs": "rollout_log_probs",
    }
)


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


def groups_of(
    scorer: Scorer,
    trainer: Any,
    data: Any,
    last: Mapping[str, int],
    members: Mapping[str, Sequence[int]],
    *,
    trained: int | None,
) -> list[Group]:
    """The groups `members`, whose entries number the sessions `last`, from the columns of `data` that are there.

    A session is the first `trained` of its prompt's, or only votes. Those that failed are missing: verl numbers them.
    """
    names, columns = list(last), {name: data[field].unbind() for name, field in TOKENS.items() if field in data}
    on = trained_sessions(names, members.values(), trained)
    rows = [said(trainer, columns, i) | {"trained": name in on} for name, i in last.items()]
    labels = [truth_of(data, i, scorer.kind) for i in last.values()]
    return [
        scorer.group(
            prompt,
            [rows[j] for j in at],
            tokenizer=trainer.tokenizer,
            labels=[labels[j] for j in at],
            size=1 + max(number_of(names[j]) for j in at),
        )
        for prompt, at in members.items()
    ]


def said(trainer: Any, columns: Mapping[str, Sequence[Any]], i: int) -> dict[str, Any]:
    """The tokens of a response, their numbers and mask, and how it ended; the reader of rollouts decodes those that
    the policy generated. Without entropies (rollout_correction.bypass_mode) log-probabilities stand in for them."""
    row = {name: column[i] for name, column in columns.items()}
    full = len(row["token_ids"]) >= trainer.config.data.max_response_length
    return row | {"finish_reason": "length" if full else "stop"}


def truth_of(data: Any, i: int, kind: str = "math") -> Labels | None:
    """The ground truth of a row: for diagnostics, and for `labelled=gt`. A row of label-free data has none."""
    model: Any = data["reward_model"][i] if "reward_model" in data else None
    return label_of(model.get("ground_truth") if hasattr(model, "get") else model, kind)


def trained_sessions(names: Sequence[str], members: Iterable[Sequence[int]], trained: int | None) -> frozenset[str]:
    """The sessions to train on: of each prompt the first `trained` that are there; None: all."""
    return frozenset(names[i] for rows in members for i in rows[:trained])


def session_of(key: str) -> str:
    return key.rsplit("_", 1)[0]


def number_of(session: str) -> int:
    return int(session.rsplit("_", 1)[1])


def uid_of(key: str) -> str:
    return key.split("_", 1)[0]
