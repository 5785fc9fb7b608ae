"""`dare-reward analyse FILE.jsonl`: what labelled rollouts say of the policy and of each method's rewards."""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from dare_reward.analysis.plots import draw, prepare_figures
from dare_reward.analysis.summary import summarise
from dare_reward.commands.tables import table
from dare_reward.methods import find

from .group_lines import add_file, warn
from .labelled import finite, interval, read_labelled
from .tables import number

__all__ = ["register"]

METHODS = ("ttrl", "empo", "dare", "dare_sqrt")
Numbers = Mapping[str, Any]


def register(subparsers: Any) -> None:
    parser: argparse.ArgumentParser = subparsers.add_parser(
        "analyse", help="measure rewards against the truth on labelled rollouts"
    )
    add_file(parser, "groups with `label` or `correct`")
    parser.add_argument("--method", action="append", help=f"a method; may be repeated (default {', '.join(METHODS)})")
    parser.add_argument("--json", action="store_true", help="one JSON object instead of tables")
    parser.add_argument(
        "--plot", type=Path, metavar="DIR", help="write figures there; pip install 'dare-reward[plots]'"
    )
    parser.add_argument("--force", action="store_true", help="replace figures that are there")
    parser.add_argument("--seed", type=int, default=0, help="of the bootstrap")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """0 all read; 1 some lines not; 2 nothing labelled or wrong use."""
    methods = tuple(arguments.method or METHODS)
    for name in methods:
        find(name)
    if arguments.plot is not None:
        prepare_figures(arguments.plot, force=arguments.force)
    data = read_labelled(arguments.file, logprobs=arguments.entropy == "logprob")
    numbers = summarise(
        data.groups,
        data.correct_R,
        methods=methods,
        prompts=data.prompts,
        token_ids=data.token_ids,
        seed=arguments.seed,
    )
    print(json.dumps(finite(numbers), indent=1) if arguments.json else _text(numbers))
    if arguments.plot is not None:
        for path in draw(arguments.plot, numbers, data.groups, data.correct_R, force=arguments.force):
            warn(f"wrote {path}")
    data.closing.say()
    return int(data.bad > 0)


def _text(numbers: Numbers) -> str:
    data = numbers["data"]
    size = (
        f"{data['groups']} groups ({data['labelled']} labelled), {data['rollouts']} rollouts, "
        f"{data['answered']:.1%} with an answer, median {data['distinct_answers_median']:g} distinct answers a group"
    )
    parts = [
        size,
        "accuracy, mean over prompts with a 95% interval\n" + _accuracy(numbers["accuracy"]),
        "majority vote\n" + _majority(numbers["majority"]),
        "entropy: chance that a right rollout has less than a wrong one\n" + _entropy(numbers["entropy"]),
        "rewards against the truth (MI in bits; gain is first order per unit step)\n" + _methods(numbers["methods"]),
    ]
    if "correlation" in numbers:
        parts.append("groups of the same prompt\n" + _plain(numbers["correlation"]))
    if "overlap" in numbers:
        parts.append("overlap of token ids, mean over pairs of rollouts\n" + _plain(numbers["overlap"]))
    return "\n\n".join(parts)


def _accuracy(accuracy: Numbers) -> str:
    rows = [[k, interval(found), interval(accuracy["majority"][k])] for k, found in accuracy["pass"].items()]
    return table(("k", "pass@k", "maj@k"), rows)


def _majority(majority: Numbers) -> str:
    words = {
        "agreement_bias": "mean(1[y = mode]) - mean(R)",
        "mode_bias": "mean(R(mode)) - mean(R)",
        "majority_ratio": "votes of the mode over M",
        "right_in_minority": "prompts whose right answer has votes but not the most",
    }
    return table(("measure", "what", "value"), [[k, words[k], interval(v)] for k, v in majority.items()])


def _entropy(entropy: Numbers) -> str:
    rows = [
        ["within groups", interval(entropy["within"]), f"{entropy['within']['prompts']} prompts with both"],
        ["equally long ones", interval(entropy["controlled"]), f"{number(entropy['pairs'], 2)} of the pairs"],
        ["pooled", number(entropy["pooled"]), "measures how hard prompts are; for comparison"],
        ["length instead", interval(entropy["length"]), "chance that the right one is shorter"],
    ]
    return table(("figure", "value", ""), rows)


def _methods(methods: Numbers) -> str:
    rows = []
    for name, m in methods.items():
        cells = [number(m.get(k)) for k in ("bias", "variance", "mse", "within_variance", "correlation")]
        raw = m.get("information", {"bits": math.nan, "share": math.nan})
        seen = [number(raw["bits"]), number(raw["share"]), number(m["information_advantage"]["bits"])]
        rows.append([name, str(m["scored"]), *cells, *seen, interval(m["direction_gain"], 4)])
    head = (
        "method",
        "groups",
        "bias",
        "var",
        "MSE",
        "var in group",
        "corr(A,R)",
        "MI(R;r)",
        "/H(R)",
        "MI(R;A)",
        "gain",
    )
    return table(head, rows)


def _plain(values: Numbers) -> str:
    return table(("measure", "value"), [[k, number(v) if isinstance(v, float) else str(v)] for k, v in values.items()])
