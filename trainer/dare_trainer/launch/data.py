"""`dare-reward data prepare`: a file of questions as OpenRLHF's JSON lines, the answer kept in the label.

    NAME.jsonl           training: {"input", "label": {"answer", "split": "train", ...}, "datasource"}
    NAME-eval.jsonl      the same prompts, whose label says that a rollout is graded

A prompt that comes again is dropped: two groups of one prompt in one batch would share their votes on the URL route.
With another answer it is refused altogether, since nobody can tell which of the two is right. A label that means
nothing is an error here, because in a run it counts as none.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any, Literal, NamedTuple

from dare_reward.errors import ConfigError
from dare_reward.files.output import write_files
from dare_reward.ledger import Ledger
from dare_reward.openrlhf import AnswerRules, Label, read_label, write_label

from .questions import LabelledQuestion, benchmark_facts, load, load_own, read_rows, unique


class PreparedSet(NamedTuple):
    """The files with the number of their lines, and the columns of a set of the user's own that none of them holds."""

    files: dict[str, int]
    left_out: tuple[str, ...]


def prepare(
    name: str,
    source: Path,
    out: Path,
    *,
    kind: str | None = None,
    as_is: bool = False,
    force: bool = False,
    ledger: Ledger | None = None,
) -> PreparedSet:
    """Write all files, or none if one of them holds something else.

    A set of the user's own has an evaluation set only if every answer is known.

    kind    how answers compare; that of a benchmark is known
    as_is   do not ask for an answer in a box
    ledger  is told what became of each question
    """
    if not re.fullmatch(r"[\w.+-]+", name):
        raise ConfigError(f"{name!r} becomes the name of a file: use letters, digits, dots, dashes and underscores")
    facts = benchmark_facts(name)
    if facts is not None and kind not in {None, facts["kind"]}:
        raise ConfigError(f"{name} is a benchmark of kind {facts['kind']}: leave --kind out")
    questions = load_own(source, kind=kind, labelled=False) if facts is None else load(name, source)
    questions = unique(questions, Ledger() if ledger is None else ledger)
    if not questions:
        raise ConfigError(f"{source}: every question comes again with another answer")
    out.mkdir(parents=True, exist_ok=True)
    files: dict[Literal["train", "eval"], str] = {"train": f"{name}.jsonl"}
    if all(q.label for q in questions):
        files["eval"] = f"{name}-eval.jsonl"
    texts = {}
    for split, file in files.items():
        lines = [json.dumps(_line(q, split, name, as_is=as_is), ensure_ascii=False) for q in questions]
        texts[out / file] = "\n".join(lines) + "\n"
    write_files(texts, force=force)
    return PreparedSet(
        dict.fromkeys(files.values(), len(questions)), tuple(sorted({k for q in questions for k in q.meta}))
    )


def _line(question: LabelledQuestion, split: Literal["train", "eval"], name: str, *, as_is: bool) -> dict[str, str]:
    options = question.options and len(question.options)
    label = Label(answer=question.labels or None, split=split, kind=question.kind, options=options)
    prompt = question.sent(as_is=as_is)
    return {"input": prompt, "label": write_label(label), "datasource": name}


def check_labels(source: Path, key: str, rules: AnswerRules) -> int:
    """How many rows of a data set for OpenRLHF have a label; ConfigError for the first that means nothing by the run's
    rules, and where no row has the key, which OpenRLHF would not find either."""
    rows: Any = read_rows(source)
    if not any(key in row for row in rows):
        raise ConfigError(
            f"{source}: no row has the key {key!r}. Write the file by `dare-reward data prepare NAME --from FILE`, or "
            "name its own key (doctor: --label-key; train: --set data.label_key=)"
        )
    labels = [row.get(key) for row in rows]
    for number, label in enumerate(labels, 1):
        if problem := rules.label(label).problem:
            raise ConfigError(f"{source}: row {number}: the label {ascii(label)[:80]} means nothing: {problem}")
    return sum(read_label(label).answer is not None for label in labels)
