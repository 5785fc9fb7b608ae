"""`dare-reward data prepare`: a benchmark's file as OpenRLHF's JSONL, the answer kept in the label.

From one local file (JSON, JSON lines, CSV, or Parquet where pyarrow is installed) come

    NAME.jsonl           training: {"input", "label": {"answer", "split": "train", ...}, "datasource"}
    NAME-eval.jsonl      the same prompts, whose label says that a rollout is graded
    NAME-probe.jsonl     the first eight, for runs that only evaluate
    NAME-raw-eval.jsonl, NAME-raw-probe.jsonl    the bare question, for the row `raw`

Duplicate prompts are dropped: two groups of one prompt in one batch would share their votes on the URL route. A label
that means nothing is an error here, because in a run it counts as none.
"""

from __future__ import annotations

import csv
import hashlib
import io
import json
from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from dare_reward.answers import extract, option_letters
from dare_reward.errors import ConfigError, RequestError
from dare_reward.files.content import open_values
from dare_reward.files.output import write_files
from dare_reward.openrlhf import Label, read_label, write_label

from .recipes import benchmark_facts

__all__ = ["LabelledQuestion", "check_labels", "letter_of", "prepare", "read_questions", "read_rows"]

INSTRUCTIONS: Final = {
    "math": "{question}\nPlease reason step by step, and put your final answer within \\boxed{{}}.",
    "choice": "{question}\nPlease reason step by step, and put the letter of your choice within \\boxed{{}}.",
}
PROBE: Final = 8


@dataclass(frozen=True, slots=True)
class LabelledQuestion:
    """A question of a benchmark with its answer; `options` counts the choices, if it has any."""

    text: str
    answer: str
    options: int | None = None


def prepare(name: str, source: Path, out: Path, *, force: bool = False) -> dict[str, int]:
    """Write all files, or none if one of them holds something else; their names with the number of lines."""
    facts = benchmark_facts(name)
    questions = read_questions(read_rows(source), facts, str(source))
    out.mkdir(parents=True, exist_ok=True)
    kind = str(facts["kind"])
    plans = {
        f"{name}.jsonl": (questions, "train", INSTRUCTIONS[kind]),
        f"{name}-eval.jsonl": (questions, "eval", INSTRUCTIONS[kind]),
        f"{name}-probe.jsonl": (questions[:PROBE], "train", INSTRUCTIONS[kind]),
        f"{name}-raw-eval.jsonl": (questions, "eval", "{question}"),
        f"{name}-raw-probe.jsonl": (questions[:PROBE], "train", "{question}"),
    }
    texts = {}
    for file, (chosen, split, instruction) in plans.items():
        lines = [json.dumps(_line(q, split, instruction, kind, name), ensure_ascii=False) for q in chosen]
        texts[out / file] = "\n".join(lines) + "\n"
    write_files(texts, force=force, inputs=[source])
    return {file: len(chosen) for file, (chosen, *_) in plans.items()}


def _line(question: LabelledQuestion, split: Any, instruction: str, kind: Any, name: str) -> dict[str, str]:
    label = Label(answer=question.answer, split=split, kind=kind, options=question.options)
    return {"input": instruction.format(question=question.text), "label": write_label(label), "datasource": name}


def check_labels(source: Path, key: str = "label") -> int:
    """How many rows of a data set for OpenRLHF have a label; ConfigError for the first that means nothing."""
    labels = [row.get(key) for row in read_rows(source)]
    for number, label in enumerate(labels, 1):
        if problem := read_label(label).problem:
            raise ConfigError(f"{source}: row {number}: the label means nothing: {problem}")
    return sum(read_label(label).answer is not None for label in labels)


def read_rows(source: Path) -> list[Mapping[str, Any]]:
    """The objects of a file of JSON, JSON lines, CSV or Parquet."""
    if not source.is_file():
        raise ConfigError(f"{source}: no such file")
    try:
        if source.suffix.lower() == ".csv":
            rows: list[Any] = list(csv.DictReader(io.StringIO(source.read_text(encoding="utf-8-sig"), newline="")))
        else:
            with closing(open_values(str(source))) as values:
                found = [value for _, value in values.items]
            rows = [row for value in found for row in (value if isinstance(value, list) else [value])]
    except (RequestError, ValueError, csv.Error) as error:
        raise ConfigError(f"{source}: {error}") from None
    if wrong := next((row for row in rows if isinstance(row, RequestError)), None):
        raise ConfigError(f"{source}: {wrong}")
    if not rows or not all(isinstance(row, dict) for row in rows):
        raise ConfigError(f"{source}: must hold at least one object per question")
    return rows


def read_questions(rows: Sequence[Mapping[str, Any]], facts: Mapping[str, Any], source: str) -> list[LabelledQuestion]:
    """The questions, without repetitions, in the file's order."""
    out: dict[str, LabelledQuestion] = {}
    for number, row in enumerate(rows, 1):
        try:
            question = _question(row, facts)
        except (ConfigError, RequestError) as error:
            raise ConfigError(f"{source}: question {number}: {error}") from None
        out.setdefault(question.text, question)
    return list(out.values())


def _question(row: Mapping[str, Any], facts: Mapping[str, Any]) -> LabelledQuestion:
    fields = facts["fields"]
    text = str(_first(row, fields["question"], "question")).strip()
    answer = _first(row, fields["answer"], "answer")
    if facts["kind"] == "choice":
        return _choice(text, answer, row, fields)
    if isinstance(answer, list | dict):
        raise ConfigError("the answer must be a string or a number")
    value = str(answer).strip()
    if "\\boxed" in value:  # a worked solution, whose answer is in its box
        value = extract(value, kind="math").answer or ""
    if not value:
        raise ConfigError("the answer is empty")
    return LabelledQuestion(text, value)


def _choice(text: str, answer: Any, row: Mapping[str, Any], fields: Mapping[str, Sequence[str]]) -> LabelledQuestion:
    """Options as letters. A right answer that is listed apart from the wrong ones is put among them by hash."""
    wrong = [str(row[name]).strip() for name in fields.get("wrong", ()) if row.get(name)]
    options = next((row[name] for name in fields["options"] if row.get(name)), None)
    if options is None and wrong:
        texts = sorted([str(answer).strip(), *wrong], key=lambda t: hashlib.sha256(f"{text}\0{t}".encode()).digest())
        letter = option_letters(len(texts))[texts.index(str(answer).strip())]
    elif isinstance(options, Iterable) and not isinstance(options, str | bytes):
        texts = [str(o).strip() for o in options]
        letter = letter_of(answer, texts)
    else:
        raise ConfigError("no options")
    named = zip(option_letters(len(texts)), texts, strict=True)
    listed = "\n".join(f"{name}. {option}" for name, option in named)
    return LabelledQuestion(f"{text}\n{listed}", letter, len(texts))


def letter_of(answer: Any, texts: Sequence[str]) -> str:
    """The letter of the right option, given by its place, its letter or its text."""
    letters = option_letters(len(texts))
    if isinstance(answer, int) and 0 <= answer < len(texts):
        return letters[answer]
    value = str(answer).strip()
    if value.upper() in letters:
        return value.upper()
    if value in texts:
        return letters[texts.index(value)]
    raise ConfigError(f"the answer {value[:40]!r} is none of {len(texts)} options")


def _first(row: Mapping[str, Any], names: Sequence[str], what: str) -> Any:
    for name in names:
        if row.get(name) not in (None, ""):
            return row[name]
    raise ConfigError(f"no {what}: none of the fields {', '.join(names)} holds one")
