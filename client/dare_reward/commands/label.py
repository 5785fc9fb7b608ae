"""`dare-reward label FILE`: which prompts are worth a label, best first."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from typing import Any

import numpy as np

from dare_reward.analysis.label_choice import contested, information, most
from dare_reward.errors import RequestError
from dare_reward.files.reader import Faults
from dare_reward.groups import Groups
from dare_reward.scoring.request import UNLIMITED, prepare
from dare_reward.segments import Floats

from .command import add_command
from .group_lines import add_file, read_groups, warn

BUDGET = 32
NOTES = """Reads answers and entropies, and no labels. `calibrate` ranks prompts by the information that a label gives
about the exponent: label these, then run `dare-reward calibrate --chosen`. `reward` ranks them by the second answer's
share of the votes, where the two leading answers hold half of them: train on these labels as method `gt`. `both` takes
half of the budget of each."""


def register(subparsers: Any) -> None:
    parser = add_command(
        subparsers,
        "label",
        notes=NOTES,
        examples=(
            "dare-reward label rollouts.jsonl --budget 16 > to_label.txt",
            "dare-reward label rollouts.jsonl --for reward",
        ),
        exits="0, or 2 if no prompt is worth a label or nothing could be read.",
    )
    add_file(parser, "Rollouts")
    parser.add_argument("--budget", type=int, default=BUDGET, help=f"How many prompts (default: {BUDGET}).")
    parser.add_argument(
        "--for",
        dest="use",
        choices=("calibrate", "reward", "both"),
        default="calibrate",
        help="What the labels are for (default: calibrate).",
    )
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Prints a `group_id` a line."""
    if arguments.budget < 1:
        raise RequestError("--budget must be at least 1", code="budget")
    reader = read_groups(arguments)
    faults, labelled = Faults(reader.unit, warn), 0
    names: list[str] = []
    groups: list[Mapping[str, Any]] = []
    for number, group in reader:
        try:
            if isinstance(group, RequestError):
                raise group
            if group.get("label") is not None or any(r.get("correct") is not None for r in group["rollouts"]):
                labelled += 1
                continue
            bare = {**group, "group_id": str(len(groups))}
            prepare([bare], limits=UNLIMITED)
        except RequestError as error:
            faults.add(number, error)
            continue
        names.append(str(group["group_id"]))
        groups.append(bare)
    faults.say()
    reader.say(warn)
    if labelled:
        warn(f"{labelled} groups left out: they have labels")
    chosen = (
        ranked(prepare(groups, limits=UNLIMITED).groups, use=arguments.use, budget=arguments.budget) if groups else []
    )
    if not chosen:
        raise RequestError(
            f"{arguments.file}: no prompt is worth a label: each needs two different answers"
            + ("" if arguments.use == "reward" else ", and entropies for all of its answers"),
            code="empty",
        )
    print("\n".join(names[at] for at in chosen))
    return 0


def ranked(groups: Groups, *, use: str, budget: int) -> list[int]:
    """Indices of at most `budget` groups, best first; `both` takes turns, and none twice."""
    worth: dict[str, Floats] = {"calibrate": information(groups), "reward": contested(groups)}
    if use != "both":
        return _best(worth[use], budget)
    turns = (at for pair in zip(*(_best(w, len(w)) for w in worth.values()), strict=False) for at in pair)
    return list(dict.fromkeys(turns))[:budget]


def _best(worth_P: Floats, count: int) -> list[int]:
    chosen = np.flatnonzero(most(worth_P, count))
    ranks: list[int] = chosen[np.argsort(-worth_P[chosen], kind="stable")].tolist()
    return ranks
