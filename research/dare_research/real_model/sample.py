"""The sampled rollouts in a small form: what the figures need of each, and its text.

The files of `examples/real_model/run.py` hold an entropy and a log-probability for each token. `compact` keeps their
means and sums over the whole rollout and over the answer's tokens, which `dare_reward.answers.spans` tells. A file is a
line that says how it was made, and a line for each question.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np

from dare_reward.answers import answer_span, span_tokens
from dare_reward.answers.classes import grades, listed
from dare_reward.answers.kinds import Kind
from dare_reward.answers.labels import read_labels
from dare_reward.answers.rollouts import read_answers
from dare_reward.scoring.request import UNLIMITED, prepare
from dare_reward.segments import Floats, Ints

from ..records import read as unpacked
from ..records import write

Decode = Callable[[Sequence[int]], str]
# Numbers of a rollout. `closed`: with the token that ends the answer, `open`: without it.
COLUMNS = {
    "tokens": "its number of tokens",
    "path": "which of the question's distinct token sequences it is",
    "entropy": "mean entropy of all tokens, nats",
    "logprob": "sum of all log-probabilities, nats",
    "span": "tokens of the answer; 0 without a span, and then all tokens stand in for it",
    "closed_entropy": "mean entropy of the answer's tokens and the one that ends it",
    "open_entropy": "the same without that one",
    "first_entropy": "entropy of the answer's first token",
    "closed_logprob": "sum of log-probabilities of the answer's tokens and the one that ends it",
    "open_logprob": "the same without that one",
}


@dataclass(frozen=True, slots=True, eq=False)
class SampledQuestion:
    """A question with M rollouts.

    accepted   right answers, the usual one first
    answer_M   which of the question's answers it gives, -1 for none
    right_A    the answer is right
    names_A    the answers
    columns    COLUMNS, float64 [M] each
    """

    id: str
    family: str
    kind: Kind
    prompt: str
    accepted: tuple[str, ...]
    texts: tuple[str, ...]
    answer_M: Ints
    right_A: Ints
    names_A: tuple[str, ...]
    columns: Mapping[str, Floats]

    @property
    def right_M(self) -> Floats:
        """1 right, 0 wrong or without an answer."""
        return np.append(self.right_A, 0)[self.answer_M].astype(float)


def pack(source: Path, target: Path, decode: Decode, *, recipe: Mapping[str, Any], reading: Mapping[str, Any]) -> None:
    """`target` from a rollout file of `run.py`. `reading`: parameters by which answers are read."""
    with source.open(encoding="utf-8") as file:
        groups = [json.loads(line) for line in file]
    head = {
        **recipe,
        "reading": reading,
        "source_sha256": sha256(source.read_bytes()).hexdigest(),
        "sampling": settings(groups),
        "columns": COLUMNS,
    }
    lines = [head, *(compact(group, decode, reading) for group in sorted(groups, key=lambda g: str(g["group_id"])))]
    text = "".join(json.dumps(line, separators=(",", ":"), ensure_ascii=False) + "\n" for line in lines)
    write(target, text)


def pack_runs(folder: Path, target: Path) -> int:
    """The records of `train.py` in `folder`, with those that `target` holds already, a line each; their number."""
    lines = unpacked(target).splitlines() if target.exists() else []
    records = [json.loads(line) for line in lines] + [
        json.loads(path.read_text(encoding="utf-8"))
        for path in folder.glob("*.json")
        if not path.name.startswith("before-")
    ]
    found = {(r["form"], r["size"], r["arm"], r["seed"]): r for r in records}
    write(target, "".join(json.dumps(found[name], separators=(",", ":")) + "\n" for name in sorted(found)))
    return len(found)


def settings(groups: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """How the groups were sampled, which must be one way; without the place of the model."""
    ways = {
        json.dumps({k: v for k, v in g["meta"]["sampling"].items() if k != "model"}, sort_keys=True) for g in groups
    }
    if len(ways) != 1:
        raise ValueError(f"the groups were sampled in {len(ways)} ways")
    found: dict[str, Any] = json.loads(ways.pop())
    return found


def compact(group: Mapping[str, Any], decode: Decode, reading: Mapping[str, Any]) -> dict[str, Any]:
    """A line of the small form."""
    rollouts, kind = group["rollouts"], group["kind"]
    answers = prepare([{k: v for k, v in group.items() if k != "meta"}], params=reading, limits=UNLIMITED).groups
    accepted = [*listed(group["label"]), *group["meta"].get("accepted", ())]
    right = list(map(int, grades(answers.text_A, read_labels(accepted, kind=kind), kind=kind)))
    paths: dict[tuple[int, ...], int] = {}
    spans: dict[tuple[str, str], tuple[int, int] | None] = {}
    rows = []
    for rollout in rollouts:
        ids, text = rollout["token_ids"], rollout["text"]
        path = paths.setdefault(tuple(ids), len(paths))
        if (text, str(path)) not in spans:
            spans[text, str(path)] = _tokens(rollout, kind, decode, reading)
        rows.append([len(ids), path, *_numbers(rollout, spans[text, str(path)])])
    columns = zip(*rows, strict=True)
    return {
        "id": group["group_id"],
        "family": group["meta"]["family"],
        "kind": kind,
        "prompt": group["prompt"],
        "accepted": accepted,
        "answers": answers.text_A,
        "right": right,
        "answer": answers.answer_R.tolist(),
        **{name: list(column) for name, column in zip(COLUMNS, columns, strict=True)},
        "cut": [int(r["finish_reason"] == "length") for r in rollouts],
        "text": [r["text"] for r in rollouts],
    }


def _tokens(
    rollout: Mapping[str, Any], kind: Any, decode: Decode, reading: Mapping[str, Any]
) -> tuple[int, int] | None:
    """[first, last) of the answer's tokens."""
    text, ids = rollout["text"], rollout["token_ids"]
    if not text:
        return None

    def answer(text: str) -> str | None:
        return read_answers([{**rollout, "text": text}], [False], kind=kind, **reading)[0].answer

    return span_tokens(decode(ids), ids, decode, answer_span(text, answer))


def _numbers(rollout: Mapping[str, Any], span: tuple[int, int] | None) -> Iterator[float]:
    """What follows `path` in COLUMNS."""
    entropies, logprobs = np.array(rollout["token_entropies"]), np.array(rollout["token_logprobs"])
    start, end = span or (0, len(entropies))
    closed = slice(start, end + 1)
    yield from (round(float(entropies.mean()), 5), round(float(logprobs.sum()), 5), end - start if span else 0)
    yield from (round(float(entropies[closed].mean()), 5), round(float(entropies[start:end].mean()), 5))
    yield from (round(float(entropies[start]), 5), round(float(logprobs[closed].sum()), 5))
    yield round(float(logprobs[start:end].sum()), 5)


def read(path: Path) -> tuple[dict[str, Any], list[SampledQuestion]]:
    """The recipe and the questions."""
    head, *lines = (json.loads(line) for line in unpacked(path).splitlines())
    return head, list(map(question, lines))


def question(line: Mapping[str, Any]) -> SampledQuestion:
    """Of a line of the small form."""
    return SampledQuestion(
        line["id"],
        line["family"],
        line.get("kind", "exact"),  # the bases that reason have one kind, and keep none
        line["prompt"],
        tuple(line["accepted"]),
        tuple(line.get("text", ())),
        np.array(line["answer"], np.int64),
        np.array(line["right"], np.int64),
        tuple(line["answers"]),
        {name: np.array(line[name], float) for name in COLUMNS},
    )
