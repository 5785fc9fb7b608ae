"""Benchmarks and your own questions from local files: questions, labels, options, and the prompt that asks them."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

from dare_reward.answers import Kind, extract
from dare_reward.errors import ConfigError, RequestError
from dare_reward.inputs import KINDS

from ..launch.data import letter_of, read_rows

MATH_SUFFIX = "\n\nPlease reason step by step, and put your final answer within \\boxed{}."
CHOICE_SUFFIX = "\n\nPlease reason step by step, and put the letter of your final answer within \\boxed{}."
LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
QUESTION = ("problem", "question", "prompt", "Problem", "Question")
ANSWER = ("answer", "Answer", "label", "expected_answer", "solution")
IDS = ("unique_id", "question_id", "id", "ID", "Record ID")
_OWN = ("kind", "accepted", "asked", "options", "choices")


@dataclass(frozen=True, slots=True)
class Benchmark:
    """A benchmark by its name, and under which names public copies keep its columns, in order of trial."""

    name: str
    title: str
    kind: Kind
    question: tuple[str, ...] = QUESTION
    answer: tuple[str, ...] = ANSWER
    ids: tuple[str, ...] = IDS


@dataclass(frozen=True, slots=True)
class BenchmarkProblem:
    """One question with its label.

    options    of multiple choice
    accepted   further answers that are right
    asked      what the model is sent, where that is not the question
    meta       the other columns of a file of your own
    """

    id: str
    question: str
    label: str
    kind: Kind
    options: tuple[str, ...] | None = None
    accepted: tuple[str, ...] = ()
    asked: str | None = None
    meta: Mapping[str, Any] = field(default_factory=dict)


BENCHMARKS: Mapping[str, Benchmark] = MappingProxyType(
    {
        b.name: b
        for b in (
            Benchmark("mmlu-pro", "MMLU-Pro", "choice", answer=("answer", "answer_index")),
            Benchmark("math-500", "MATH-500", "math"),
            Benchmark("aime24", "AIME 2024", "math"),
            Benchmark("amc", "AMC", "math"),
            Benchmark("gpqa", "GPQA", "choice", answer=("Correct Answer", "answer", "answer_index")),
        )
    }
)


def load(name: str, path: Path, *, limit: int | None = None) -> list[BenchmarkProblem]:
    """The problems of a file in its order; `limit` takes the first. RequestError names the row that means nothing."""
    if name not in BENCHMARKS:
        raise RequestError(f"unknown benchmark {name!r}. Known: {', '.join(BENCHMARKS)}", code="benchmark")
    rows = read_rows(path)[:limit]
    problems = [_problem(BENCHMARKS[name], row, i, path) for i, row in enumerate(rows)]
    if not problems:
        raise RequestError(f"{path}: no rows", code="empty")
    if len({p.id for p in problems}) < len(problems):  # ids of a file that are no ids
        problems = [replace(p, id=str(i)) for i, p in enumerate(problems)]
    return problems


def load_own(path: Path) -> list[BenchmarkProblem]:
    """Your questions, in the file's order. RequestError names the row, the rule and the fix.

    A row has a `prompt` and a `label`; `kind` (math), `accepted`, `asked`, `options` and `id` if it likes. `prompt`,
    `label` and `id` may have the usual names of benchmarks; every other column becomes `meta`.
    """
    problems = [_own(row, i, path) for i, row in enumerate(read_rows(path))]
    if repeated := [n for n, count in Counter(p.id for p in problems).items() if count > 1]:
        raise RequestError(
            f"{path}: {len(repeated)} ids come twice, {repeated[0]!r} first: give each row its own", code="id"
        )
    return problems


def _own(row: Mapping[str, Any], index: int, path: Path) -> BenchmarkProblem:
    where = f"{path}: row {index}"
    kind: Any = row.get("kind") or ("choice" if row.get("options") else "math")
    if kind not in KINDS:
        raise RequestError(f"{where}: kind {kind!r} must be one of {', '.join(KINDS)}", code="kind")
    accepted = row.get("accepted") or []
    if not isinstance(accepted, list) or not all(isinstance(a, str) and a.strip() for a in accepted):
        raise RequestError(f"{where}: accepted must be a list of texts", code="accepted")
    asked = row.get("asked")
    if not (asked is None or (isinstance(asked, str) and asked)):
        raise RequestError(f"{where}: asked must be the text that the model is sent", code="asked")
    own = Benchmark("own", "your questions", kind, ("prompt", *QUESTION), ("label", *ANSWER))
    if isinstance(_first(row, own.answer), list):
        raise RequestError(f"{where}: a label is one answer; write the others into accepted", code="label")
    problem = _problem(own, row, index, path)
    return replace(
        problem,
        kind=kind,
        accepted=tuple(a for a in accepted if a != problem.label),
        asked=asked,
        meta={k: v for k, v in row.items() if k not in {*own.question, *own.answer, *own.ids, *_OWN}},
    )


def prompt(problem: BenchmarkProblem, *, as_is: bool = False) -> str:
    """The question as it is asked; `as_is`: without the instruction to reason and to box the answer."""
    suffix = "" if as_is else MATH_SUFFIX if problem.options is None else CHOICE_SUFFIX
    if problem.options is None:
        return problem.question + suffix
    listed = "\n".join(f"{letter}. {text}" for letter, text in zip(LETTERS, problem.options, strict=False))
    return f"{problem.question}\n\n{listed}{suffix}"


def _problem(benchmark: Benchmark, row: Mapping[str, Any], index: int, path: Path) -> BenchmarkProblem:
    where = f"{path}: row {index}"
    question = _first(row, benchmark.question)
    answer = _first(row, benchmark.answer)
    if question is None or answer is None:
        raise RequestError(f"{where} lacks a question or an answer; it has {', '.join(sorted(row))}", code="column")
    identity = str(_first(row, benchmark.ids) if _first(row, benchmark.ids) is not None else index)
    if benchmark.kind == "choice":
        options, label = _choices(row, answer, identity, where)
        return BenchmarkProblem(identity, str(question), label, "choice", options)
    return BenchmarkProblem(identity, str(question), _label(answer), "math")


def _first(row: Mapping[str, Any], names: Sequence[str]) -> Any:
    return next((row[n] for n in names if row.get(n) is not None), None)


def _label(answer: Any) -> str:
    """The answer itself: the content of a solution's box, 27 for 27.0."""
    if isinstance(answer, float) and answer.is_integer():
        return str(int(answer))
    text = str(answer).strip()
    if "\\boxed" in text:
        return extract(text).answer or text
    return text


def _choices(row: Mapping[str, Any], answer: Any, identity: str, where: str) -> tuple[tuple[str, ...], str]:
    """The options in the order asked, and the letter of the right one.

    A row that keeps the right answer apart from the wrong ones (GPQA) is shuffled by its id: the same order every time,
    and no position that is always right.
    """
    wrong = [str(row[f"Incorrect Answer {i}"]).strip() for i in range(1, 10) if row.get(f"Incorrect Answer {i}")]
    if wrong:
        right = str(answer).strip()
        options = [right, *wrong]
        random.Random(identity).shuffle(options)  # noqa: S311  (an order, no secret)
        return tuple(options), LETTERS[options.index(right)]
    listed = row.get("options") or row.get("choices")
    if not isinstance(listed, list) or not 2 <= len(listed) <= len(LETTERS):
        raise RequestError(f"{where} has no options", code="column")
    try:
        return tuple(map(str, listed)), letter_of(answer, [str(x).strip() for x in listed])
    except ConfigError as error:
        raise RequestError(f"{where}: {error}", code="label") from None
