"""What a dataset's label says: the gold answer, and whether the rollout is training or evaluation.

OpenRLHF tells neither an executor nor a reward URL that it evaluates, and uses one label column for both. So the label
decides. Accepted, as an object or as its JSON text:

    {"answer": "204", "split": "train" | "eval", "kind": "choice", "options": ["A", "B"]}     all but answer optional
    "204"                                                                                      a plain answer: training
    "" or null                                                                                 none: training

In training the answer is used for diagnostics alone (but for the method gt, whose purpose it is).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

__all__ = ["Label", "read_label", "write_label"]

SPLITS = ("train", "eval")


@dataclass(frozen=True, slots=True)
class Label:
    answer: str | None = None
    split: Literal["train", "eval"] = "train"
    kind: str | None = None
    options: Any = None


def read_label(label: Any) -> Label:
    """Never raises: a label that says nothing is none, and a reward does not depend on it."""
    if isinstance(label, str) and label.lstrip().startswith("{"):
        try:
            label = json.loads(label)
        except ValueError:
            return Label(answer=label)
    if isinstance(label, Mapping):
        answer, split = label.get("answer"), label.get("split")
        return Label(
            answer=None if answer is None or answer == "" else str(answer),
            split="eval" if split == "eval" else "train",
            kind=label.get("kind"),
            options=label.get("options"),
        )
    return Label(answer=None if label is None or label == "" else str(label))


def write_label(label: Label) -> str:
    """The JSON text; what is not set is left out."""
    if label.split not in SPLITS:
        raise ValueError(f"split must be one of {', '.join(SPLITS)}")
    body = {"answer": label.answer, "split": label.split, "kind": label.kind, "options": label.options}
    return json.dumps({k: v for k, v in body.items() if v is not None})
