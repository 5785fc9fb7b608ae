"""`dare-reward report RUN -o run.html`: a run as one page."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import closing
from dataclasses import asdict
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

from dare_reward._version import __version__
from dare_reward.analysis.shown import Shown
from dare_reward.answers.rollouts import Readings, Unanswered
from dare_reward.errors import RequestError, counted
from dare_reward.files.content import FileRecords, open_records
from dare_reward.files.output import text_file
from dare_reward.files.shapes import is_logged
from dare_reward.ledger import LOST, Fate, Ledger
from dare_reward.methods import find
from dare_reward.options import OPTIONS
from dare_reward.report.book import RunBook
from dare_reward.report.document import document
from dare_reward.report.view import VOTE, view
from dare_reward.runs.line import ASKED, fault, line
from dare_reward.runs.reader import is_segment

from .command import add_command
from .labelled import Labelled, evaluated, judged_by, labelled, read_labelled, shown_verdict
from .score import in_process, score_all
from .shared_arguments import add_file, add_method, bar, check_out, chosen_params, read_groups, warn
from .summary import MismatchedLabels, Placed, ReadSummary, unscored


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
    options = judged_by(chosen_params(arguments))
    learnt = evaluated(*arguments.evaluated, reading=options["reading"]) if arguments.evaluated else None
    read: Callable[..., Labelled]
    expected: Callable[[], int | None]
    if is_log := _is_run(arguments.file):
        _check_unchanged(arguments)
        ledger, read = Ledger(), partial(read_labelled, arguments.file, tell=lambda *_: None)
        records = open_records(arguments.file)
        lines, expected = _run_lines(records, ledger), partial(_expected, records, ledger)
    else:
        summary, kept, readings = ReadSummary(read_groups(arguments)), list[Placed](), Readings(sys.maxsize)
        ledger, lines = summary.ledger, _scored(arguments, summary, kept, readings)
        expected = summary.reader.expected
        read = partial(labelled, kept, ReadSummary(summary.reader, tell=lambda *_: None), readings=readings)
    book = _book_of(arguments, bar(lines, "group", expected))
    if not book.runs:
        only = "" if arguments.only is None else f" of the run {arguments.only!r}"
        lost = f" ({ledger.sentence})" if ledger.lost else ""
        raise RequestError(f"{arguments.file}: no groups{only}{lost}", code="empty")
    if not is_log and all(own.groups == own.errors for own in book.runs.values()):
        return 2
    verdict = _calibration(arguments, book, read, **options)
    data = view(book, **options)
    if verdict:  # of labelled prompts it is the one thing to know
        said = {"text": verdict.headline, "word": verdict.headline, "tone": "quiet"}
        data["runs"][0] |= {"calibration": asdict(verdict), "headline": said}
    if learnt:
        first, *others = data["runs"]
        if others:
            raise RequestError("--evaluated is of one run: choose it with --run NAME", code="parameter")
        first["learnt"] = asdict(learnt.shown())
        if first["accuracy"]["rule"] != "too-few-visits":  # a page shows one gain
            first["accuracy"]["why"] = "by the visits of the run; below is the gain from one evaluation to the other"
    shown = sum(len(r["cards"]) for r in data["runs"])
    groups = sum(r["groups"] for r in data["runs"])
    name = Path(arguments.file).name if arguments.file != "-" else "standard input"
    head = {
        "live": False,
        "title": data["runs"][0]["run"] or Path(arguments.file).name,
        "source": f"{name}: {ledger.sentence}" if ledger.lost else name,
        "made": datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        "version": __version__,
    }
    with text_file(arguments.out, force=arguments.force) as out:
        out.write(document({**head, **data}))
    what = f"{counted(groups, 'group')} of {counted(len(data['runs']), 'run')}"
    warn(f"wrote {arguments.out}: {what}; {shown:,} to read one by one")
    if ledger.lost and is_log:  # of other files the reader has said so
        warn(ledger.sentence)
    return ledger.exit_code


def _check_unchanged(arguments: argparse.Namespace) -> None:
    """RequestError for an argument that would have groups of a run log read or scored otherwise."""
    given = {"--labels": arguments.labels, "--prompts": arguments.prompts, "--shadow": arguments.shadow}
    given |= {"--param": arguments.param, "--method": arguments.method != "dare"}
    given |= {"--entropy": arguments.entropy != "exact"}
    if named := [flag for flag, value in given.items() if value]:
        why = f"{arguments.file} is a run log, which shows groups as they were sent and scored: leave out {named[0]}"
        raise RequestError(why, code="parameter")


def _book_of(arguments: argparse.Namespace, lines: Iterable[Mapping[str, Any]]) -> RunBook:
    """The runs that are to be shown; it warns of labels of other prompts, and of rollouts without an answer."""
    book, mismatch, seen = RunBook(), MismatchedLabels(), Unanswered()
    for one in lines:
        if arguments.only not in (None, one.get("run") or ""):  # a `meta` may hold anything there
            continue
        book.add(one)
        reply, right = one["reply"], any(r.get("correct") for r in one["rollouts"])
        mismatch.add(f"group {reply.get('group_id')}", one.get("label"), reply.get("answers") or (), right=right)
        seen.add(len(reply.get("valid") or ()), (reply.get("diagnostics") or {}).get("no_answer"))
    if book.gone:
        warn(f"WARNING: {book.left_out}: choose one with --run")
    if mismatch.sentence:
        warn(f"WARNING: {mismatch.sentence}")
    if seen.most:
        warn(f"WARNING: {seen}. Look at one of the texts.")
    return book


def _scored(
    arguments: argparse.Namespace, summary: ReadSummary, kept: list[Placed], readings: Readings
) -> Iterator[Mapping[str, Any]]:
    """A line for each group of a file, which is scored here. Those without a step, which are no run, are `kept`."""
    params, named = chosen_params(arguments), OPTIONS["shadow"].parse(arguments.shadow)
    shadow = named if VOTE in (arguments.method, *named) else (VOTE, *named)
    ask = in_process(arguments.method, params, shadow=shadow, readings=readings)
    for place, group, reply in summary.scored(score_all(summary, ask)):
        scored = line(group, reply, params, asked=frozenset(ASKED))
        if isinstance(scored["step"], int):
            readings.forget()
        else:
            kept.append((place, group))
        yield scored
    summary.say_read()
    summary.say_remedy(arguments)


def _calibration(
    arguments: argparse.Namespace, book: RunBook, read: Callable[..., Labelled], **options: Any
) -> Shown | None:
    """What `dare-reward calibrate` says of a labelled set of rollouts; None of anything else."""
    run, *others = book.runs.values()
    if others or not run.one_set or arguments.only is not None or "pass@1" not in run.steps.totals():
        return None
    return shown_verdict(read, **options)


# --- run logs: of a folder, of one of its files, or under another name ----------------------------------------------


def _is_run(path: str) -> bool:
    """Whether the groups there were scored before."""
    if path == "-" or is_segment(path):
        return path != "-"
    if not Path(path).is_file():  # a pipe can be read once
        return False
    with closing(open_records(path)) as records:
        return is_logged(next(records.items, (0, None))[1])


def _expected(records: FileRecords, ledger: Ledger) -> int | None:
    """How many lines of a run log there will be; the one that is read is not counted yet."""
    at = sum(ledger.as_json().values()) + 1
    return records.expected(at, at)


def _run_lines(records: FileRecords, ledger: Ledger) -> Iterator[Mapping[str, Any]]:
    """The lines of a run log, counted. One of a group that was not scored is shown, and counts as refused."""
    with closing(records):
        for number, value in records.items:
            fate: Fate = "refused"
            if isinstance(value, RequestError):
                fate, why = next((f for f in LOST if f == value.code), "unreadable"), str(value)
            elif not (why := fault(value)):
                yield value
                error = value["reply"].get("error")
                fate = "refused" if error else "read"
                why = unscored(str(error.get("code")), str(error.get("message"))) if error else ""
            ledger.count(fate, why and f"{records.unit} {number}: {why}")
