"""What OpenRLHF's strings mean: where the response begins in a query, and what a label says."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Any

from dare_reward.errors import RequestError

__all__ = ["Label", "read_label", "response"]

# Where an assistant's turn begins, if the prompt cannot be found in the query.
TURN = re.compile(
    r"<\|im_start\|>assistant|<\|start_header_id\|>assistant<\|end_header_id\|>|<start_of_turn>model|<｜Assistant｜>|<\|assistant\|>|\[/INST\]"
)
TAILS = (1024, 256, 64)
SPACELESS = 64
SPLITS = ("train", "eval")


@dataclass(frozen=True, slots=True)
class Label:
    """`answer` is the right answer, if there is one; an evaluation is graded by it, a training reward never sees it."""

    answer: str | None
    evaluation: bool
    key: str


def response(query: str, prompt: str) -> tuple[str, bool]:
    """The generated part of `query`, and whether the prompt was found in it.

    A query is decode(encode(prompt) + response), with special tokens: it may begin with a token that the prompt lacks,
    its spaces may differ, and of a long prompt only the end may be there. So after the whole prompt its last characters
    are looked for, then the same without regard to spaces.
    """
    if query.startswith(prompt):
        return query[len(prompt) :], True
    for length in TAILS:
        tail = prompt[-length:]
        at = query.find(tail)
        if tail and at >= 0:
            return query[at + len(tail) :], True
    marks = "".join(prompt.split())[-SPACELESS:]
    if marks and (found := re.search(r"\s*".join(map(re.escape, marks)), query)):
        return query[found.end() :], True
    turns = list(TURN.finditer(query))
    return query[turns[-1].end() if turns else 0 :], False


def read_label(value: Any, *, policy: str) -> Label:
    """
    "" or null                                   training, nothing known
    {"answer": ..., "split": "eval"}             evaluation (also as a JSON string)
    {"answer": ..., "split": "train"}, or any other object     training, the answer only for diagnostics
    anything else                                what `policy` says
    """
    found = _object(value)
    key = json.dumps(value, sort_keys=True)
    if found is None:
        answer = value if isinstance(value, str) else None if value is None else json.dumps(value)
        answer = answer if answer and answer.strip() else None
        return _label(answer, policy if answer is not None else "train", key)
    split = found.get("split", "train")
    if split not in SPLITS:
        raise RequestError(f"split must be one of {', '.join(SPLITS)}", loc=("labels",), code="label")
    answer = found.get("answer")
    return _label(answer if answer is None or isinstance(answer, str) else json.dumps(answer), split, key)


def _label(answer: str | None, split: str, key: str) -> Label:
    if split == "eval" and (answer is None or not answer.strip()):
        raise RequestError(
            'an evaluation needs the right answer: {"answer": ..., "split": "eval"}', loc=("labels",), code="label"
        )
    return Label(answer, split == "eval", key)


def _object(value: Any) -> dict[str, Any] | None:
    if isinstance(value, str) and value.lstrip().startswith("{"):
        try:
            value = json.loads(value)
        except ValueError:
            return None
    return value if isinstance(value, dict) else None
