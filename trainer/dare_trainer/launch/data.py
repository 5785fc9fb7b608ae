"""`dare-reward data prepare`: a file of questions as OpenRLHF's JSON lines, the answer kept in the label.

    NAME.jsonl           training: {"input", "label": {"answer", "split": "train", ...}, "datasource"}
    NAME-eval.jsonl      the same prompts, whose label says that a rollout is graded

A prompt that comes again is dropped: two groups of one prompt in one batch would share their votes on the URL route.
With another answer it is refused altogether, since nobody can tell which of the two is right. A label that means
nothing is an error here, because in a run it counts as none.
"""

from __future__ import annotations

import argparse
import json
import re
from pathlib import Path
from typing import Any, NamedTuple, get_args

from dare_reward.answers import Kind
from dare_reward.commands.command import add_command
from dare_reward.errors import ConfigError, counted
from dare_reward.files.output import write_files
from dare_reward.ledger import Ledger
from dare_reward.openrlhf import Label, Split, write_label

from .questions import OWN, LabelledQuestion, benchmark_facts, load, load_own, unique


def register(subparsers: Any) -> None:
    prompts = "dare-reward data prepare mine --from prompts.jsonl"
    command = add_command(subparsers, "data", examples=(prompts,))
    actions = command.add_subparsers(dest="action", required=True, metavar="ACTION")
    parser = add_command(
        actions,
        "prepare",
        "Write a file of prompts as OpenRLHF's JSON lines.",
        notes="""A name that is no benchmark of the recipes is a set of your own. Its prompts stand in `question`,
        `problem`, `prompt`, `query` or `input`, in upper or lower case. An answer is optional. With one you get
        an evaluation set too.""",
        examples=(
            prompts,
            "dare-reward data prepare aime24 --from aime_2024.json --out data",
            "dare-reward data prepare mine --from prompts.csv --kind choice --as-is",
        ),
    )
    parser.add_argument("name", help="A name for your set, or mmlu-pro, math-500, aime24, amc, gpqa, math-train, ...")
    parser.add_argument(
        "--from",
        dest="source",
        type=Path,
        required=True,
        metavar="FILE",
        help="Read this JSON, JSON lines, CSV or Parquet.",
    )
    parser.add_argument("--kind", choices=get_args(Kind), help="How answers of your set compare.")
    parser.add_argument(
        "--as-is", action="store_true", help="Do not ask for an answer in a box at the end of the prompts."
    )
    parser.add_argument("--out", type=Path, default=Path("data"), help="The folder of the files (default: data).")
    parser.add_argument("--force", action="store_true", help="Replace files that hold something else.")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Write the files, and say what became of each question and what to paste."""
    name, out = arguments.name, arguments.out
    how = {flag: getattr(arguments, flag) for flag in ("kind", "as_is", "force")}
    written, left_out, ledger = prepare(name, arguments.source, out, **how)
    said = []
    if ledger.lost or ledger["dropped"]:
        said.append(f"questions: {ledger.sentence}")
    if left_out:
        said.append(f"left out, for no prompt and no label is made of them: {', '.join(left_out)}")
    said += [f"{out / file}: {counted(count, 'prompt')}" for file, count in written.items()]
    train, *evaluation = written
    if not evaluation:
        said.append(f"{name}-eval.jsonl was not written: not every row has an answer ({', '.join(OWN['answer'])}).")
    flags = "".join(f" --eval.dataset {out / file}" for file in evaluation)
    said.append(
        f"OpenRLHF's flags: --data.prompt_dataset {out / train}{flags} --data.input_key input --data.label_key label"
    )
    print("\n".join(said))  # noqa: T201
    return ledger.exit_code


class PreparedSet(NamedTuple):
    """The files with the number of their lines, the columns of a set of the user's own that none of them holds, and
    what became of each question."""

    files: dict[str, int]
    left_out: tuple[str, ...]
    ledger: Ledger


def prepare(
    name: str, source: Path, out: Path, *, kind: str | None = None, as_is: bool = False, force: bool = False
) -> PreparedSet:
    """Write all files, or none if one of them holds something else.

    A set of the user's own has an evaluation set only if every answer is known.

    kind    how answers compare; that of a benchmark is known
    as_is   do not ask for an answer in a box
    """
    if not re.fullmatch(r"[\w.+-]+", name):
        raise ConfigError(f"{name!r} becomes the name of a file: use letters, digits, dots, dashes and underscores")
    facts, ledger = benchmark_facts(name), Ledger()
    if facts is not None and kind not in {None, facts["kind"]}:
        raise ConfigError(f"{name} is a benchmark of kind {facts['kind']}: leave --kind out")
    questions = load_own(source, kind=kind, labelled=False) if facts is None else load(name, source)
    questions = unique(questions, ledger)
    if not questions:
        raise ConfigError(f"{source}: every question comes again with another answer")
    out.mkdir(parents=True, exist_ok=True)
    files: dict[str, Split] = {f"{name}.jsonl": "train"}
    if all(q.label for q in questions):
        files[f"{name}-eval.jsonl"] = "eval"
    texts = {}
    for file, split in files.items():
        lines = [json.dumps(_line(q, split, name, as_is=as_is), ensure_ascii=False) for q in questions]
        texts[out / file] = "\n".join(lines) + "\n"
    write_files(texts, force=force)
    left_out = tuple(sorted({k for q in questions for k in q.meta}))
    return PreparedSet(dict.fromkeys(files, len(questions)), left_out, ledger)


def _line(question: LabelledQuestion, split: Split, name: str, *, as_is: bool) -> dict[str, str]:
    options = question.options and len(question.options)
    label = Label(answer=question.labels or None, split=split, kind=question.kind, options=options)
    prompt = question.sent(as_is=as_is)
    return {"input": prompt, "label": write_label(label), "datasource": name}
