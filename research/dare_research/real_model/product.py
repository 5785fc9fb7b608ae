"""The real model's rollouts through the product: groups of 8, sent by the Python client as a stack would send them.

The committed files hold means and sums over tokens. Where entropies are to be sent token by token they are laid out
again: each token of the answer and the one that ends it has their mean, the others share what is left of the trace's
sum, and each has a place in the text, by which the client finds the answer's.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from dare_reward import Client
from dare_reward.answers.effort import Effort
from dare_reward.answers.rollouts import read_spans
from dare_reward.inputs import Group
from dare_reward.segments import Floats

from ..results import read as unpacked

SIZE = 8
AT_ONCE = 512
Line = Mapping[str, Any]


def lines(path: Path) -> tuple[Mapping[str, Any], list[Line]]:
    """How answers are read, and the questions, as they stand in the file."""
    head, *questions = (json.loads(line) for line in unpacked(path).splitlines())
    return head["reading"], questions


def with_paths(line: Line) -> list[dict[str, Any]]:
    """A question's rollouts with the probability of their paths."""
    columns = zip(line["logprob"], line["tokens"], line["path"], strict=True)
    return [{"sum_logprob": min(p, 0.0), "num_tokens": n, "path": str(path)} for p, n, path in columns]


def with_tokens(line: Line, reading: Mapping[str, Any]) -> list[dict[str, Any]]:
    """A question's rollouts with the entropy and the place of each token."""
    rollouts = [
        {"text": t, "finish_reason": "length" if cut else "stop"}
        for t, cut in zip(line["text"], line["cut"], strict=True)
    ]
    group = {"kind": line["kind"], "rollouts": rollouts}
    (spans,) = read_spans([group], np.zeros(len(rollouts), bool), Effort(), reading)
    columns = zip(
        line["text"], spans, line["tokens"], line["span"], line["entropy"], line["closed_entropy"], strict=True
    )
    return [_laid_out(*row) for row in columns]


def _laid_out(text: str, span: Any, count: int, answer: int, *means: float) -> dict[str, Any]:
    """Entropies and [start, end) of `count` tokens, of which `answer` are the answer's; `means` of both."""
    trace, closed = means
    ending = min(answer + 1, count) if answer and span else 0
    before = count - ending
    left = (trace * count - closed * ending) / max(before, 1)
    start, end = span if ending else (len(text), len(text))
    cuts = np.linspace(0, start if before else 0, before + 1).astype(int).tolist()
    inside = np.linspace(cuts[-1], end, answer + 1).astype(int).tolist()[1:] if ending else []
    edges = [*cuts, *inside, *([len(text)] if ending > answer else [])]
    places = [[a, b] for a, b in pairwise(edges)]
    return {"token_entropies": [max(left, 0.0)] * before + [closed] * ending, "token_offsets": places}


def label_accuracy(
    client: Client,
    questions: Sequence[Line],
    rollouts: Sequence[Sequence[Mapping[str, Any]]],
    reading: Mapping[str, Any],
    *,
    method: str,
    **params: Any,
) -> Floats:
    """The share of a question's groups of 8 whose pseudo-label is right. Shape [questions]."""
    groups = [group for line, own in zip(questions, rollouts, strict=True) for group in _groups(line, own)]
    right = []
    for start in range(0, len(groups), AT_ONCE):
        reply = client.reward(groups[start : start + AT_ONCE], method=method, **reading, **params)
        right += [(group.diagnostics or {})["label_accuracy"] for group in reply.groups]
    out: Floats = np.array(right).reshape(len(questions), -1).mean(axis=1)
    return out


def _groups(line: Line, rollouts: Sequence[Mapping[str, Any]]) -> Iterator[Group]:
    for start in range(0, len(rollouts), SIZE):
        own = range(start, start + SIZE)
        members: Any = [
            {"text": line["text"][i], "finish_reason": "length" if line["cut"][i] else "stop", **rollouts[i]}
            for i in own
        ]
        name = f"{line['id']}.{start}"
        yield {"group_id": name, "kind": line["kind"], "label": line["accepted"], "rollouts": members}
