"""`dare-reward label FILE`: which prompts are worth a label, and a page to label them on."""

from __future__ import annotations

import argparse
import os
import shlex
import sys
import webbrowser
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from dare_reward.analysis.shown import Shown
from dare_reward.analysis.truth import is_labelled
from dare_reward.answers.rollouts import Readings
from dare_reward.errors import RequestError, counted
from dare_reward.files.labels import LabelFile
from dare_reward.files.output import check_free
from dare_reward.groups import Groups
from dare_reward.params import Spec
from dare_reward.scoring.request import fault_of, prepare_file
from dare_reward.segments import Floats

from .command import add_command, add_count, add_flags
from .label_page import LabelServer, Session, question_of
from .labelled import Labelled, read_labelled, shown_verdict
from .shared_arguments import add_file, bar, read_groups, warn
from .summary import ReadSummary

NOTES = """Every decision is saved at once; run the command again to go on. It draws prompts at random, the same ones
each time. --for reward ranks them by the second answer's share of the votes, where the two leading answers hold half of
them: train on these labels (docs/advantages.md). The ranking reads answers, and no labels."""


def register(subparsers: Any) -> None:
    parser = add_command(
        subparsers,
        "label",
        notes=NOTES,
        examples=(
            "dare-reward label rollouts.jsonl",
            "dare-reward label rollouts.jsonl --for reward --port 8001",
            "dare-reward label rollouts.jsonl --budget 16 > to_label.txt",
        ),
        exits="0 if all was read, 1 if groups were refused, 2 if no prompt is worth a label or nothing could be read.",
    )
    add_file(
        parser,
        "Rollouts",
        saves="Write labels to this file, or go on with it (default: rollouts.labels.jsonl beside rollouts.jsonl).",
    )
    add_count(parser, "budget", "How many prompts", 32)
    parser.add_argument(
        "--for",
        dest="use",
        choices=("random", "reward"),
        default="random",
        help="Draw the prompts, or choose those whose labels can turn a reward (default: random).",
    )
    words = "Open the page at this port; 0 takes a free one. Without it, a pipe or file gets the group_ids, best first"
    add_flags(parser, [Spec(words, ge=0, le=65535, name="port", type=int, default=None)])
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Rank, then list or ask."""
    chosen, summary = _chosen(arguments)
    if arguments.port is None and not sys.stdout.isatty():
        warn("the output is not a terminal, so it lists the prompts; --port 0 opens the page")
        print("\n".join(str(group["group_id"]) for group in chosen))
        return summary.exit_code()
    file = _file(arguments)
    session = Session([question_of(group) for group in chosen], file, tell=warn)
    advice = _next(arguments, file)
    verdict = cache(lambda: _verdict(arguments, file))
    _serve(session, arguments.port or 0, advice, verdict)
    print(f"{file}: {session.summary()}")
    if shown := verdict():
        print(shown.headline, shown.why, sep="\n")
    print(f"Next:\n{advice}")
    return summary.exit_code()


def _verdict(arguments: argparse.Namespace, labels: Path) -> Shown | None:
    """What the labels decide so far, if there are any; standard input can be read once only."""
    if "-" in {arguments.file, arguments.prompts} or not labels.exists():
        return None

    def read(**how: Any) -> Labelled:
        own = LabelFile(str(labels), tell=lambda _: None)
        return read_labelled(read_groups(arguments, own), tell=lambda *_: None, **how)

    return shown_verdict(read)


def _serve(session: Session, port: int, advice: str, verdict: Callable[[], Shown | None]) -> None:
    with LabelServer(session, port=port, next_command=advice, verdict=verdict) as server:
        print(f"Label at {server.address}\nCtrl-C ends this. Saved so far: {session.summary()}", flush=True)
        if sys.platform != "linux" or os.environ.keys() & {"DISPLAY", "WAYLAND_DISPLAY"}:  # else it starts lynx
            webbrowser.open(server.address)
        with suppress(KeyboardInterrupt):
            server.serve_forever()


def _next(arguments: argparse.Namespace, labels: Path) -> str:
    """The command that decides by these labels, which reads the file as this one did."""
    read = {"prompts": arguments.prompts, "entropy": arguments.entropy, "vocab-size": arguments.vocab_size}
    flags = [word for name, value in read.items() if value not in {None, "exact"} for word in (f"--{name}", str(value))]
    return shlex.join(["dare-reward", "calibrate", arguments.file, *flags, "--labels", str(labels)])


def _file(arguments: argparse.Namespace) -> Path:
    """Where labels go: never the file that is read."""
    if arguments.saved is None and arguments.file == "-":
        raise RequestError("standard input has no name: say where labels go with --labels FILE", code="file")
    name = Path(arguments.file).name.partition(".json")[0].removesuffix(".parquet")
    own = arguments.saved or Path(arguments.file).with_name(f"{name}.labels.jsonl")
    return check_free(own, force=True)


def _chosen(arguments: argparse.Namespace) -> tuple[list[Mapping[str, Any]], ReadSummary]:
    """The groups that are most worth a label, best first, and what was refused of the file."""
    readings, summary = Readings(), ReadSummary(read_groups(arguments), done="read")
    groups: dict[str, Mapping[str, Any]] = {}
    left_out = Counter[str]()
    for place, group in bar(summary, "group", summary.reader.expected):
        if fault := fault_of(group, readings):
            summary.refuse(place, fault, group)
        elif is_labelled(group):
            left_out["labelled already"] += 1
        elif str(group["group_id"]) in groups:
            left_out["an earlier one has the same group_id"] += 1
        else:
            groups[str(group["group_id"])] = group
    summary.say_read()
    warn(*(f"{counted(count, 'group')} left out: {why}" for why, count in left_out.items()))
    every = list(groups.values())
    drawn: list[int] = np.random.default_rng(0).permutation(len(every)).tolist()
    places = drawn if arguments.use == "random" else _ranked(every, readings)
    if not (chosen := places[: arguments.budget]):
        needs = "is worth a label: each needs two different answers"
        why = "without a label is left" if arguments.use == "random" else needs
        nothing = f"no prompt {why}" if every or left_out else "no groups"
        raise RequestError(f"{arguments.file}: {nothing}", code="empty")
    return [every[at] for at in chosen], summary


def _ranked(every: Sequence[Mapping[str, Any]], readings: Readings) -> list[int]:
    """Those whose label can turn a reward, the best first."""
    worth_P = contested(prepare_file(every, readings=readings).groups) if every else np.zeros(0)
    ranks: list[int] = np.argsort(-worth_P, kind="stable")[: int((worth_P > 0).sum())].tolist()
    return ranks


def contested(groups: Groups) -> Floats:
    """The second answer's share of the votes where the first two hold at least half of them, else 0.

    There a label, as a reward, can turn a prompt. `tests/golden/labels.json` holds values of another implementation.
    """
    share_A, leads_A = groups.share(groups.votes_A), groups.first_max(groups.votes_A)
    first_P, second_P = (groups.max_by_group(np.where(on_A, share_A, 0.0)) for on_A in (leads_A, ~leads_A))
    return np.where(first_P + second_P >= 0.5, second_P, 0.0)
