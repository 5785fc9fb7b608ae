"""`dare-reward report RUN -o run.html`: a run as one page."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping
from contextlib import closing
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from dare_reward._version import __version__
from dare_reward.analysis.shown import Shown
from dare_reward.answers.rollouts import Unanswered
from dare_reward.errors import DareError, RequestError, counted
from dare_reward.files.content import open_records
from dare_reward.files.output import text_file
from dare_reward.files.reader import Reader
from dare_reward.files.shapes import is_logged
from dare_reward.ledger import LOST, Fate, Ledger
from dare_reward.methods import find
from dare_reward.options import OPTIONS
from dare_reward.reply import Problem
from dare_reward.report.book import RunBook
from dare_reward.report.document import document
from dare_reward.report.view import VOTE, view
from dare_reward.runs.line import ASKED, fault, line
from dare_reward.runs.reader import is_segment

from .command import add_command
from .labelled import evaluated, judged_by, shown_verdict
from .score import in_process, score_all
from .shared_arguments import (
    add_file,
    add_method,
    check_out,
    chosen_params,
    read_groups,
    read_labels,
    warn,
    watched,
)
from .summary import MISSING, MismatchedLabels, ReadSummary, unscored


def register(subparsers: Any) -> None:
    parser = add_command(
        subparsers,
        "report",
        notes="The page explains itself. docs/report.md says what each chart means, and which rules give the verdict.",
        examples=(
            "dare-reward report runs/exp1 -o run.html",
            "dare-reward report rollouts.jsonl --shadow ttrl -o run.html",
        ),
        exits="0 if all was read and scored, 1 if some groups were not, 2 if nothing was written.",
    )
    add_file(parser, "A run log, or groups of rollouts to score,")
    add_method(parser)
    parser.add_argument(
        "--shadow", default="", help="Methods to compare with, where groups are scored, such as ttrl,scrl."
    )
    parser.add_argument("--run", dest="only", metavar="NAME", help="Show only this run of several.")
    parser.add_argument("--force", action="store_true", help="Replace the output if it exists.")
    parser.add_argument("-o", "--out", required=True, help="The HTML file to write.")
    parser.add_argument("--title", help="The heading of the page (default: the name of the run).")
    parser.add_argument(
        "--evaluated",
        nargs=2,
        metavar=("BEFORE", "AFTER"),
        help="Say what was learnt by two files of `dare-reward measure`, of the model before training and after it.",
    )
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """0 written; 1 if groups were refused or unreadable; 2 nothing to show and nothing written."""
    for name in OPTIONS["shadow"].parse(arguments.shadow):
        find(name, loc=("--shadow",))
    check_out(arguments)
    ledger, learnt = Ledger(), evaluated(*arguments.evaluated) if arguments.evaluated else None
    reader = (
        None if _is_run(arguments.file) else read_groups(arguments, read_labels(arguments), beside=True, twice=True)
    )
    book = book_of(arguments, ledger, reader)
    if book is None:
        return 2
    verdict = reader and _calibration(arguments, book, reader)
    data = view(book)
    if verdict:  # of labelled prompts it is the one thing to know
        said = {"text": verdict.headline, "word": verdict.headline, "tone": "quiet"}
        data["runs"][0] |= {"calibration": asdict(verdict), "headline": said}
    if learnt:
        if len(data["runs"]) > 1:
            raise RequestError("--evaluated is of one run: choose it with --run NAME", code="parameter")
        data["runs"][0]["learnt"] = asdict(learnt.shown())
    shown = sum(len(r["cards"]) for r in data["runs"])
    groups = sum(r["groups"] for r in data["runs"])
    name = Path(arguments.file).name if arguments.file != "-" else "standard input"
    head = {
        "live": False,
        "title": arguments.title or data["runs"][0]["run"] or Path(arguments.file).name,
        "source": f"{name}: {ledger.sentence}" if ledger.lost else name,
        "made": datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        "version": __version__,
    }
    with text_file(arguments.out, force=arguments.force) as out:
        out.write(document({**head, **data}))
    what = f"{counted(groups, 'group')} of {counted(len(data['runs']), 'run')}"
    warn(f"wrote {arguments.out}: {what}; {shown:,} to read one by one")
    if ledger.lost and reader is None:  # of other files the reader has said so
        warn(ledger.sentence)
    return ledger.exit_code


def book_of(arguments: argparse.Namespace, ledger: Ledger, reader: Reader | None) -> RunBook | None:
    """The groups of the file; None, and why, where none was scored. RequestError if there are none.

    `ledger` counts what was read; a group that could not be scored is refused. `reader`: None for a run log.
    """
    is_log = reader is None
    given = {"--labels": arguments.labels, "--prompts": arguments.prompts, "--shadow": arguments.shadow}
    given |= {"--param": arguments.param, "--method": arguments.method != "dare"}
    given |= {"--entropy": arguments.entropy != "exact"}
    if is_log and (named := [flag for flag, value in given.items() if value]):
        why = f"{arguments.file} is a run log, which shows groups as they were sent and scored: leave out {named[0]}"
        raise RequestError(why, code="parameter")
    book, failed, count, notes = RunBook(loose=not is_log), list[Problem](), 0, _Notes()
    lines = _run_lines(arguments.file, ledger) if reader is None else _scored(arguments, ledger, reader)
    for one in watched(lines, arguments.file):
        if arguments.only in (None, one.get("run") or ""):  # a `meta` may hold anything there
            book.add(one)
            notes.add(one)
            count += 1
            if error := one["reply"].get("error"):
                failed.append(Problem(str(error.get("code")), str(error.get("message"))))
    if not book.runs:
        only = "" if arguments.only is None else f" of the run {arguments.only!r}"
        lost = f" ({ledger.sentence})" if ledger.lost else ""
        raise RequestError(f"{arguments.file}: no groups{only}{lost}", code="empty")
    if failed:
        warn(f"{len(failed):,} of {count:,} groups not scored: {unscored(failed[0])}")
        ledger.count("read", records=-len(failed))
        ledger.count("refused", f"not scored: {failed[0].code}", len(failed))
        if len(failed) == count and not is_log:
            return None
    warn(*notes.sentences)
    return book


class _Notes:
    """What is said of the groups as a whole: labels of other prompts, rollouts without an answer."""

    def __init__(self) -> None:
        self._mismatch, self._seen = MismatchedLabels(), Unanswered()

    def add(self, line: Mapping[str, Any]) -> None:
        reply = line["reply"]
        self._seen.add(len(reply.get("valid") or ()), (reply.get("diagnostics") or {}).get("no_answer"))
        right = any(r.get("correct") for r in line["rollouts"])
        self._mismatch.add(f"group {reply.get('group_id')}", line.get("label"), reply.get("answers") or (), right=right)

    @property
    def sentences(self) -> list[str]:
        labels = self._mismatch.sentence and f"WARNING: {self._mismatch.sentence}"
        silent = f"WARNING: {self._seen}. Look at one of the texts." if self._seen.most else ""
        return [said for said in (labels, silent) if said]


def _scored(arguments: argparse.Namespace, ledger: Ledger, reader: Reader) -> Iterator[Mapping[str, Any]]:
    """The lines of a file whose groups are scored here."""
    params: Mapping[str, Any] = chosen_params(arguments)
    named = OPTIONS["shadow"].parse(arguments.shadow)
    shadow = named if arguments.method == VOTE or VOTE in named else (VOTE, *named)
    summary, ask = ReadSummary(reader), in_process(arguments.method, params, shadow=shadow, readings=reader.readings)
    for number, group, reply in score_all(reader, ask):
        if isinstance(reply, DareError):
            summary.refuse(number, group, reply)
            continue
        if reply.error is not None and reply.error.code == MISSING:
            summary.lacking.append(group)
        scored = line(group, reply, params, asked=frozenset(ASKED))
        if scored["step"] is not None:  # of a run there is no verdict
            reader.forget()
        yield scored
    summary.say_read()
    summary.say_remedy(arguments)
    ledger.add(reader.ledger)


def _calibration(arguments: argparse.Namespace, book: RunBook, reader: Reader) -> Shown | None:
    """What `dare-reward calibrate` says of a labelled file of rollouts; None of anything else."""
    run, *others = book.runs.values()
    if others or not run.one_set or "pass@1" not in run.steps.totals():
        return None
    return shown_verdict(arguments, reader, **judged_by(chosen_params(arguments)))


# --- run logs: of a folder, of one of its files, or under another name ----------------------------------------------


def _is_run(path: str) -> bool:
    """Whether the groups there were scored before."""
    if path == "-" or is_segment(path):
        return path != "-"
    if not Path(path).is_file():  # a pipe can be read once
        return False
    with closing(open_records(path)) as records:
        return is_logged(next(records.items, (0, None))[1])


def _run_lines(path: str, ledger: Ledger) -> Iterator[Mapping[str, Any]]:
    """The lines of a run log, counted."""
    with closing(open_records(path)) as records:
        for number, value in records.items:
            why = str(value) if isinstance(value, RequestError) else fault(value)
            fate: Fate = "refused" if why else "read"
            if isinstance(value, RequestError):
                fate = next((f for f in LOST if f == value.code), "unreadable")
            ledger.count(fate, why and f"{records.unit} {number}: {why}")
            if not why:
                yield value
