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
import re
from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from dare_reward.answers import extract, option_letters
from dare_reward.errors import ConfigError, RequestError
from dare_reward.files.content import open_values
from dare_reward.files.names import GROUP_NAMES
from dare_reward.files.output import write_files
from dare_reward.openrlhf import Label, read_label, write_label

from .recipes import benchmark_facts, recipe_file

INSTRUCTIONS: Final = {
    "math": "{question}\nPlease reason step by step, and put your final answer within \\boxed{{}}.",
    "choice": "{question}\nPlease reason step by step, and put the letter of your choice within \\boxed{{}}.",
}
BARE: Final = "{question}"
PROBE: Final = 8
# Where a set of the user's own keeps what a question needs; `answer` may be missing.
OWN_FIELDS: Final = {
    "question": ("prompt", *GROUP_NAMES["prompt"]),
    "answer": ("answer", "label", *GROUP_NAMES["label"], "solution"),
    "options": ("options", "choices"),
}


@dataclass(frozen=True, slots=True)
class LabelledQuestion:
    """A question with its answer, "" if it is not known; `options` counts the choices, if it has any."""

    text: str
    answer: str
    options: int | None = None


def is_benchmark(name: str) -> bool:
    """Whether the recipes know the set; another one is the user's own."""
    known = recipe_file("benchmarks")
    return name in known or name in {facts["labelled"] for facts in known.values()}


def prepare(
    name: str, source: Path, out: Path, *, kind: str | None = None, as_is: bool = False, force: bool = False
) -> dict[str, int]:
    """Write all files, or none if one of them holds something else; their names with the number of lines.

    A set of the user's own has no files of the bare question, and an evaluation set only if every answer is known.

    kind    how answers compare; that of a benchmark is known
    as_is   do not ask for an answer in a box
    """
    if not re.fullmatch(r"[\w.+-]+", name):
        raise ConfigError(f"{name!r} becomes the name of a file: use letters, digits, dots, dashes and underscores")
    rows, benchmark = read_rows(source), is_benchmark(name)
    facts = benchmark_facts(name) if benchmark else _own_facts(rows, kind)
    if kind not in {None, facts["kind"]}:
        raise ConfigError(f"{name} is a benchmark of kind {facts['kind']}: leave --kind out")
    questions = read_questions(rows, facts, str(source))
    out.mkdir(parents=True, exist_ok=True)
    kind = str(facts["kind"])
    asked = BARE if as_is else INSTRUCTIONS.get(kind, BARE)
    plans = {
        f"{name}.jsonl": (questions, "train", asked),
        f"{name}-eval.jsonl": (questions, "eval", asked),
        f"{name}-probe.jsonl": (questions[:PROBE], "train", asked),
        f"{name}-raw-eval.jsonl": (questions, "eval", BARE),
        f"{name}-raw-probe.jsonl": (questions[:PROBE], "train", BARE),
    }
    if not benchmark:
        known = all(q.answer for q in questions)
        plans = {file: plan for file, plan in plans.items() if "-raw-" not in file and (known or plan[1] == "train")}
    texts = {}
    for file, (chosen, split, instruction) in plans.items():
        lines = [json.dumps(_line(q, split, instruction, kind, name), ensure_ascii=False) for q in chosen]
        texts[out / file] = "\n".join(lines) + "\n"
    write_files(texts, force=force, inputs=[source])
    return {file: len(chosen) for file, (chosen, *_) in plans.items()}


def _own_facts(rows: Sequence[Mapping[str, Any]], kind: str | None) -> Mapping[str, Any]:
    has_options = any(name.casefold() in OWN_FIELDS["options"] for row in rows for name in row if isinstance(name, str))
    return {"kind": kind or ("choice" if has_options else "math"), "fields": OWN_FIELDS, "own": True}


def _line(question: LabelledQuestion, split: Any, instruction: str, kind: Any, name: str) -> dict[str, str]:
    label = Label(answer=question.answer or None, split=split, kind=kind, options=question.options)
    return {"input": instruction.format(question=question.text), "label": write_label(label), "datasource": name}


def check_labels(source: Path, key: str = "label") -> int:
    """How many rows of a data set for OpenRLHF have a label; ConfigError for the first that means nothing, and where
    no row has the key, which OpenRLHF would not find either."""
    rows = read_rows(source)
    if not any(key in row for row in rows):
        raise ConfigError(
            f"{source}: no row has the key {key!r}. Write the file by `dare-reward data prepare NAME --from FILE`, or "
            "name its own key (doctor: --label-key; train: --set data.label_key=)"
        )
    labels = [row.get(key) for row in rows]
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
                found = list(values.items)
            if wrong := next(((n, v) for n, v in found if isinstance(v, RequestError)), None):
                raise ConfigError(f"{source}: {values.unit} {wrong[0]}: {wrong[1]}")
            rows = [row for _, value in found for row in (value if isinstance(value, list) else [value])]
    except RequestError as error:  # it names the file
        raise ConfigError(str(error)) from None
    except (ValueError, csv.Error) as error:
        raise ConfigError(f"{source}: {error}") from None
    if not rows or not all(isinstance(row, dict) for row in rows):
        raise ConfigError(f"{source}: must hold at least one object per question")
    return rows


def read_questions(rows: Sequence[Mapping[str, Any]], facts: Mapping[str, Any], source: str) -> list[LabelledQuestion]:
    """The questions, without repetitions, in the file's order."""
    out: dict[str, LabelledQuestion] = {}
    for number, row in enumerate(rows, 1):
        try:
            question = _question({k.casefold(): v for k, v in reversed(list(row.items())) if isinstance(k, str)}, facts)
        except (ConfigError, RequestError) as error:
            raise ConfigError(f"{source}: question {number}: {error}") from None
        out.setdefault(question.text, question)
    return list(out.values())


def _question(row: Mapping[str, Any], facts: Mapping[str, Any]) -> LabelledQuestion:
    fields, own = facts["fields"], facts.get("own", False)
    text = _prompt_text(_first(row, fields["question"], "question"))
    answer = _first(row, fields["answer"], "answer", needed=not own)
    if answer is None:
        return LabelledQuestion(*_listed(text, row, fields))
    if facts["kind"] == "choice":
        return _choice(text, answer, row, fields)
    if isinstance(answer, list | dict):
        raise ConfigError("the answer must be a string or a number")
    value = str(answer).strip().rpartition("####")[2].strip()  # GSM8K's worked solutions end in #### ANSWER
    if "\\boxed" in value:  # a worked solution, whose answer is in its box
        value = extract(value, kind="math").answer or ""
    if not value:
        raise ConfigError("the answer is empty")
    return LabelledQuestion(text, value)


def _choice(text: str, answer: Any, row: Mapping[str, Any], fields: Mapping[str, Sequence[str]]) -> LabelledQuestion:
    """Options as letters. A right answer that is listed apart from the wrong ones is put among them by hash."""
    wrong = [str(row[n]).strip() for n in map(str.casefold, fields.get("wrong", ())) if row.get(n)]
    options = _first(row, fields["options"], "options", needed=False)
    if options is None and wrong:
        texts = sorted([str(answer).strip(), *wrong], key=lambda t: hashlib.sha256(f"{text}\0{t}".encode()).digest())
        letter = option_letters(len(texts))[texts.index(str(answer).strip())]
    elif isinstance(options, Iterable) and not isinstance(options, str | bytes):
        texts = [str(o).strip() for o in options]
        letter = letter_of(answer, texts)
    else:
        raise ConfigError("no options")
    return LabelledQuestion(_with_options(text, texts), letter, len(texts))


def _listed(text: str, row: Mapping[str, Any], fields: Mapping[str, Sequence[str]]) -> tuple[str, str, int | None]:
    """A question without an answer, with its options if it has any."""
    options = _first(row, fields["options"], "options", needed=False)
    if not isinstance(options, list):
        return text, "", None
    return _with_options(text, [str(o).strip() for o in options]), "", len(options)


def _with_options(text: str, options: Sequence[str]) -> str:
    named = zip(option_letters(len(options)), options, strict=True)
    return "\n".join([text, *(f"{name}. {option}" for name, option in named)])


def _prompt_text(value: Any) -> str:
    """A prompt as text; of messages what the user says."""
    if isinstance(value, list):
        asked = [m.get("content") for m in value if isinstance(m, Mapping) and m.get("role") == "user"]
        said = [text for text in asked if isinstance(text, str)]
        if not said or len(said) < len(asked):
            raise ConfigError("a prompt of messages needs the text of a user")
        return "\n".join(said).strip()
    return str(value).strip()


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


def _first(row: Mapping[str, Any], names: Sequence[str], what: str, *, needed: bool = True) -> Any:
    """The first of the fields that holds something; the names of `row` are in lower case."""
    for name in map(str.casefold, names):
        if row.get(name) not in (None, ""):
            return row[name]
    if not needed:
        return None
    raise ConfigError(f"no {what}: none of the fields {', '.join(names)} holds one")
