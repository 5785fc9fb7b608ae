"""`dare-reward report RUN -o run.html`: a run as one page."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from dataclasses import asdict
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from typing import Any

from dare_reward._version import __version__
from dare_reward.analysis.verdict import Shown, judge
from dare_reward.answers.rollouts import ANSWER_SPECS
from dare_reward.answers.unanswered import Unanswered
from dare_reward.errors import RequestError
from dare_reward.files.output import text_file
from dare_reward.files.reader import Reader
from dare_reward.methods import find, specs
from dare_reward.options import OPTIONS
from dare_reward.reply import Problem
from dare_reward.report.book import RunBook
from dare_reward.report.document import document
from dare_reward.report.lines import is_run, read_lines
from dare_reward.report.ties import Ties
from dare_reward.report.view import VOTE, view

from .calibrate import WEIGHT
from .command import add_command
from .labelled import read_labelled, refuse_repeats
from .mismatched_labels import MismatchedLabels
from .shared_arguments import (
    MISSING,
    add_file,
    add_method,
    check_out,
    chosen_params,
    missing_entropies,
    read_labels,
    remedies,
    unscored,
    warn,
    watched,
)


def register(subparsers: Any) -> None:
    parser = add_command(
        subparsers,
        "report",
        notes="The page explains itself. docs/report.md says what each chart means, and which rules give the verdict.",
        examples=(
            "dare-reward report runs/exp1 -o run.html",
            "dare-reward report rollouts.jsonl --shadow ttrl -o run.html",
        ),
    )
    add_run(parser)
    parser.add_argument("-o", "--out", required=True, help="The HTML file to write.")
    parser.add_argument("--title", help="The heading of the page (default: the name of the run).")
    parser.set_defaults(run=run)


def add_run(parser: argparse.ArgumentParser) -> None:
    add_file(parser, "A run log, or groups of rollouts to score,")
    add_method(parser)
    parser.add_argument(
        "--shadow", default="", help="Methods to compare with, where groups are scored, such as ttrl,scrl."
    )
    parser.add_argument("--run", dest="only", metavar="NAME", help="Show only this run of several.")
    parser.add_argument("--force", action="store_true", help="Replace the output if it exists.")


def run(arguments: argparse.Namespace) -> int:
    """0 written; 1 no group could be scored; 2 nothing to show."""
    check_out(arguments)
    book = book_of(arguments)
    if book is None:
        return 1
    verdict = _calibration(arguments, book)
    data = {"calibration": verdict and asdict(verdict), **view(book)}
    if verdict:  # of labelled prompts it is the one thing to know
        data["runs"][0]["headline"] = {"text": verdict.why, "word": verdict.headline, "tone": "quiet"}
    shown = sum(len(r["cards"]) for r in data["runs"])
    groups = sum(r["groups"] for r in data["runs"])
    head = {
        "live": False,
        "title": arguments.title or data["runs"][0]["run"] or Path(arguments.file).name,
        "source": Path(arguments.file).name if arguments.file != "-" else "standard input",
        "made": datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        "version": __version__,
    }
    with text_file(arguments.out, force=arguments.force) as out:
        out.write(document({**head, **data}))
    counted = (f"{n:,} {what}{'s' * (n != 1)}" for n, what in ((groups, "group"), (len(data["runs"]), "run")))
    warn(f"wrote {arguments.out}: {' of '.join(counted)}; {shown:,} to read one by one")
    return 0


def book_of(arguments: argparse.Namespace) -> RunBook | None:
    """The groups of the file; None, and why, where none could be scored. RequestError if there are none."""
    params: Mapping[str, Any] = chosen_params(arguments)[arguments.method]
    named = OPTIONS["shadow"].parse(arguments.shadow)
    shadow = named if arguments.method == VOTE or VOTE in named else (VOTE, *named)
    lines = read_lines(
        arguments.file,
        method=arguments.method,
        params=params,
        shadow=shadow,
        missing=missing_entropies(arguments),
        labels=read_labels(arguments),
        tell=warn,
    )
    book, failed, count, seen = RunBook(loose=not is_run(arguments.file)), list[Problem](), 0, Unanswered()
    mismatch, ties = MismatchedLabels(), Ties()
    for line in watched(lines, arguments.file):
        if arguments.only in {None, line.get("run") or ""}:
            book.add(line)
            ties.add(line)
            count += 1
            seen.add(len(line.get("valid") or ()), (line.get("diagnostics") or {}).get("no_answer"))
            right, answers = any(line.get("correct") or ()), line.get("answers") or ()
            mismatch.add(f"group {line.get('group_id')}", line.get("label"), answers, right=right)
            failed += [Problem(**line["error"])] if line.get("error") else []
    if not book.runs:
        only = "" if arguments.only is None else f" of the run {arguments.only!r}"
        raise RequestError(f"{arguments.file}: no groups{only}", code="empty")
    if failed and not is_run(arguments.file):  # a log's were scored elsewhere, and its page shows what failed
        warn(f"{len(failed):,} of {count:,} groups not scored: {unscored(failed[0])}")
        if any(problem.code == MISSING for problem in failed):
            has_param = any(s.name == MISSING for s in specs(find(arguments.method)))
            groups, candidates = _first_groups(arguments.file)
            warn(*remedies(arguments.words, groups, candidates=candidates, param=has_param))
        if len(failed) == count:
            return None
    if mismatch.sentence:
        warn(f"WARNING: {mismatch.sentence}")
    if str(ties):
        warn(str(ties))
    if seen.most:
        warn(f"WARNING: {seen}. Look at one of the texts.")
    return book


def _calibration(arguments: argparse.Namespace, book: RunBook) -> Shown | None:
    """What `dare-reward calibrate` says of a labelled file of rollouts; None of anything else."""
    (run, *others), file = book.runs.values(), arguments.file
    if others or not run.one_set or file == "-" or not any("pass@1" in step.sums for step in run.steps.values()):
        return None
    params = chosen_params(arguments)[arguments.method]
    weight = {name: params[name] for name in WEIGHT if name in params}
    reading = {s.name: params[s.name] for s in ANSWER_SPECS if s.name in params}
    try:
        data = read_labelled(
            file,
            missing=missing_entropies(arguments),
            labels=read_labels(arguments),
            reading=reading,
            tell=lambda *_: None,
        )
        refuse_repeats(data)
    except RequestError as error:
        return Shown("These labels give no verdict", str(error), (), "", (), ())
    return judge(data.groups, data.correct_R, reading=reading, **weight).shown()


def _first_groups(path: str) -> tuple[list[Mapping[str, Any]], int]:
    """Enough of the file to tell what its rollouts have; standard input is read once only. The count is `remedies`'."""
    if path == "-":
        return [], 0
    reader = Reader(path)
    groups: list[Mapping[str, Any]] = [g for _, g in islice(reader, 64) if not isinstance(g, RequestError)]
    return groups, reader.notes.candidates
