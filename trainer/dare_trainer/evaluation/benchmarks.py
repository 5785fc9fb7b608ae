"""Benchmarks from local JSON or JSONL files: questions, labels, options, and the prompt that asks them."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

from dare_reward.answers import Kind, extract
from dare_reward.errors import ConfigError, RequestError

from ..launch.data import letter_of, read_rows

__all__ = ["BENCHMARKS", "Benchmark", "BenchmarkProblem", "load", "prompt"]

MATH_SUFFIX = "\n\nPlease reason step by step, and put your final answer within \\boxed{}."
CHOICE_SUFFIX = "\n\nPlease reason step by step, and put the letter of your final answer within \\boxed{}."
LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"


@dataclass(frozen=True, slots=True)
class Benchmark:
    """A benchmark by its name, and under which names public copies keep its columns, in order of trial."""

    name: str
    title: str
    kind: Kind
    question: tuple[str, ...] = ("problem", "question", "prompt", "Problem", "Question")
    answer: tuple[str, ...] = ("answer", "Answer", "label", "expected_answer", "solution")
    ids: tuple[str, ...] = ("unique_id", "question_id", "id", "ID", "Record ID")


@dataclass(frozen=True, slots=True)
class BenchmarkProblem:
    """One question with its label; `options` for multiple choice."""

    id: str
    question: str
    label: str
    kind: Kind
    options: tuple[str, ...] | None = None


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
        problems = [BenchmarkProblem(str(i), p.question, p.label, p.kind, p.options) for i, p in enumerate(problems)]
    return problems


def prompt(problem: BenchmarkProblem) -> str:
    """The question as it is asked."""
    if problem.options is None:
        return problem.question + MATH_SUFFIX
    listed = "\n".join(f"{letter}. {text}" for letter, text in zip(LETTERS, problem.options, strict=False))
    return f"{problem.question}\n\n{listed}{CHOICE_SUFFIX}"


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
