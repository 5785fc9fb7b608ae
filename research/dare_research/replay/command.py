"""`dare-reward replay RUN --method X`: what another method would have said of the groups of a run log."""

from __future__ import annotations

import argparse
import json
from collections import Counter
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import asdict
from typing import IO, Any

from dare_reward.commands.command import add_command
from dare_reward.commands.help_index import AUTHORS
from dare_reward.commands.shared_arguments import add_method, chosen_params, warn
from dare_reward.commands.tables import counted, short_answer, table
from dare_reward.errors import RequestError
from dare_reward.files.output import text_file
from dare_reward.report.lines import run_lines

from .replay import Difference, Totals, replay

SHOWN = 8


def register(subparsers: Any) -> None:
    parser = add_command(
        subparsers,
        "replay",
        "Score the groups of a run log by another method, and count what changes.",
        group=AUTHORS,
        notes="""It starts from the answers that the run read, and judges each group as it was sampled. Had you trained
        on the other rewards, the model would have sampled other rollouts.""",
        examples=(
            "dare-reward replay runs/exp1 --method ttrl",
            "dare-reward replay runs/exp1 --method dare -p tau=0.1 --out changed.jsonl",
        ),
        exits="0 if every group was scored again, 1 if some were not, 2 if nothing was done.",
    )
    parser.add_argument("path", metavar="RUN", help="The folder of a run log, or one of its segments.")
    add_method(parser)
    parser.add_argument("--json", action="store_true", help="Print the counts as one JSON object.")
    parser.add_argument("--out", help="Also write a JSON line for each group whose label or signs change.")
    parser.add_argument("--force", action="store_true", help="Replace the file of --out if it exists.")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """0 if every group was scored again, 1 if some were not."""
    params = chosen_params(arguments)[arguments.method]
    totals, examples, why, changed = Totals(), list[Difference](), Counter[str](), 0
    lines = run_lines(arguments.path, warn)
    with ExitStack() as stack:
        out: IO[str] | None = None
        if arguments.out:
            out = stack.enter_context(text_file(arguments.out, force=arguments.force))
        for one in replay(lines, arguments.method, params):
            totals.add(one)
            if one.error is not None:
                why[one.error.partition(":")[0]] += 1
            elif one.flipped and len(examples) < SHOWN:
                examples.append(one)
            if one.flipped or one.opposite:
                changed += 1
                if out is not None:
                    out.write(json.dumps(asdict(one)) + "\n")
        for code, count in why.most_common():
            warn(f"{counted(count, 'group')} cannot be scored by {arguments.method}: {code}")
        if not totals.groups:
            raise RequestError(f"{arguments.path}: no group of the run log could be scored again", code="empty")
    if arguments.json:
        print(json.dumps({"method": arguments.method, **totals.to_json()}))
    else:
        print(_words(arguments.method, totals, examples))
    done = (
        f"{counted(totals.groups, 'group')} of {arguments.path} scored again by {arguments.method}, {changed:,} changed"
    )
    warn(f"{done}; wrote {arguments.out}" if arguments.out else done)
    return int(totals.failed > 0)


def _words(method: str, totals: Totals, examples: Sequence[Difference]) -> str:
    rows = [
        ("groups scored again", f"{totals.groups:,}", ""),
        ("another label", f"{totals.flipped:,}", _share(totals.flipped, totals.groups)),
        ("advantages of the other sign", f"{totals.opposite:,}", _share(totals.opposite, totals.rollouts)),
        ("groups without a signal, before", f"{totals.before_silent:,}", _share(totals.before_silent, totals.groups)),
        (f"groups without a signal, {method}", f"{totals.after_silent:,}", _share(totals.after_silent, totals.groups)),
    ]
    if totals.known:
        rows += [
            ("groups with a known answer", f"{totals.known:,}", ""),
            ("label right, before", f"{totals.before_right:,}", _share(totals.before_right, totals.known)),
            (f"label right, {method}", f"{totals.after_right:,}", _share(totals.after_right, totals.known)),
            ("flipped: only the old label was right", f"{totals.flipped_from_right:,}", ""),
            (f"flipped: only the label of {method} is right", f"{totals.flipped_to_right:,}", ""),
            ("flipped: both are wrong", f"{totals.flipped_wrong:,}", ""),
        ]
    parts = [table(("what", "count", "share"), rows, right=True)]
    if examples:
        shown = [
            (
                "-" if one.step is None else str(one.step),
                short_answer(one.group_id),
                short_answer(one.before or "none"),
                short_answer(one.after or "none"),
            )
            for one in examples
        ]
        parts.append(table(("step", "group", "label before", f"label of {method}"), shown))
    return "\n\n".join(parts)


def _share(count: int, of: int) -> str:
    return f"{100 * count / of:.1f} %" if of else "-"
