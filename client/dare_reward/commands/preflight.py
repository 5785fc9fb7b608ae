"""`dare-reward preflight FILE.jsonl`: will DARE beat a vote with this policy? From some fifty labelled prompts."""

from __future__ import annotations

import argparse
import json
from dataclasses import asdict
from typing import Any

from dare_reward.analysis.preflight import LEVEL, RULE, RULES, preflight
from dare_reward.commands.tables import table
from dare_reward.methods import find, methods

from .group_lines import add_file
from .labelled import finite, interval, read_labelled

__all__ = ["register"]

EPILOG = """Rule `auroc`: use if the interval of the within-group AUROC lies above 0.5 and that of the difference in
gain not below 0; do not use if the other way round. Rule `gain`: use if difference and AUROC lie above, do not use if
the difference lies below 0. Undecided otherwise, and below 20 prompts with right and wrong rollouts. Rule and level
were chosen in a simulation (research/docs/preflight.md); how often they are right on trained models is open. Exit
codes: 0 use, 1 undecided or do not use, 2 nothing could be measured."""


def register(subparsers: Any) -> None:
    parser: argparse.ArgumentParser = subparsers.add_parser(
        "preflight", help="predict DARE against voting from labelled rollouts of a policy", epilog=EPILOG
    )
    add_file(parser, "groups with `label` or `correct` and entropies")
    parser.add_argument("--method", default="dare", help="the method in question (default dare)")
    parser.add_argument("--against", default="ttrl", help="the method to beat (default ttrl)")
    parser.add_argument("--rule", choices=RULES, default=RULE, help=f"see below (default {RULE})")
    parser.add_argument("--level", type=float, default=LEVEL, help=f"of the intervals (default {LEVEL:g})")
    parser.add_argument("--json", action="store_true", help="one JSON object instead of a table")
    parser.add_argument("--seed", type=int, default=0, help="of the bootstrap")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """See EPILOG for rule and exit codes."""
    for name in (arguments.method, arguments.against):
        find(name)
    data = read_labelled(arguments.file, logprobs=arguments.entropy == "logprob")
    data.closing.say()
    found = preflight(
        data.groups,
        data.correct_R,
        candidate=arguments.method,
        rival=arguments.against,
        rule=arguments.rule,
        level=arguments.level,
        seed=arguments.seed,
    )
    if not found.prompts:
        needs = ", ".join(methods()[arguments.method].requires)
        print(f"no labelled group can be scored by {arguments.method}: it needs {needs}")
        return 2
    if arguments.json:
        print(json.dumps(finite(asdict(found)), indent=1))
        return int(found.verdict != "use")
    one, other = arguments.method, arguments.against
    rows = [
        ["within-group AUROC of entropy", interval(asdict(found.auroc), 3)],
        [f"gain of {one}, per unit step", interval(asdict(found.candidate), 4)],
        [f"gain of {other}", interval(asdict(found.rival), 4)],
        ["difference", interval(asdict(found.difference), 4)],
        ["prompts with a confident wrong mode", interval(asdict(found.confident_wrong), 2)],
    ]
    print(f"{found.prompts} prompts, {found.mixed} of them with right and wrong rollouts")
    print(f"{arguments.level:.0%} intervals\n")
    print(table(("measure", "value"), rows))
    print(f"\nverdict: {found.verdict} ({found.reason})")
    return int(found.verdict != "use")
