"""`dare-reward analyse FILE.jsonl`: what labelled rollouts say of the policy and of each method's rewards."""

from __future__ import annotations

import argparse
import json
import math
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dare_reward.analysis.bootstrap import mean_interval
from dare_reward.analysis.passk import majority_at_k, pass_at_k_interval, powers
from dare_reward.analysis.truth import known_groups
from dare_reward.answers.rollouts import ANSWER_SPECS
from dare_reward.commands.command import add_command, add_seed
from dare_reward.commands.labelled import interval, read_labelled
from dare_reward.commands.shared_arguments import add_file, add_param, parsed_params, read_groups, warn
from dare_reward.commands.tables import number, table, wrapped
from dare_reward.groups import Groups
from dare_reward.methods import find, specs
from dare_reward.runs.log import finite
from dare_reward.segments import Bools, Floats

from . import measures

METHODS = ("ttrl", "empo", "dare", "dare_sqrt")
READ = frozenset(s.name for s in ANSWER_SPECS)
FREQUENCY = "-p missing_entropy=frequency"
HEAD = (
    "method", "groups", "gain", "bias", "var", "MSE", "var in group", "corr(A,R)", "MI(R;r)", "/H(R)", "MI(R;A)"
)  # fmt: skip
Numbers = Mapping[str, Any]


def register(subparsers: Any) -> None:
    parser = add_command(
        subparsers,
        "analyse",
        "Measure rewards against the truth on labelled rollouts.",
        notes="research/docs/analysis.md explains every figure.",
        examples=(
            "dare-reward analyse rollouts.jsonl",
            "dare-reward analyse rollouts.jsonl --method ttrl --method dare -p missing_entropy=frequency",
        ),
        exits="0 if every line was read, 1 if some were not, 2 if nothing has labels, or for wrong use.",
    )
    add_file(parser, "Groups with `label` or `correct`")
    parser.add_argument(
        "-m", "--method", action="append", help=f"A method. You may repeat it (default: {', '.join(METHODS)})."
    )
    add_param(parser, "Set a parameter of the methods that have it, or of how answers are read. You may repeat it.")
    parser.add_argument("--json", action="store_true", help="Write one JSON object instead of tables.")
    add_seed(parser, "The seed of the bootstrap")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """`--help` says what the exit codes mean."""
    known = {m: {s.name: s for s in specs(find(m))} for m in dict.fromkeys(arguments.method or METHODS)}
    parsed_params(arguments.param, [s for own in known.values() for s in own.values()])
    # A parameter goes to the methods that have it.
    params = {
        m: parsed_params([t for t in arguments.param if t.partition("=")[0] in own], own.values())
        for m, own in known.items()
    }
    reading = {k: v for own in params.values() for k, v in own.items() if k in READ}
    data = read_labelled(read_groups(arguments), reading=reading)
    numbers = summarise(
        data.groups,
        data.correct_R,
        methods={m: {k: v for k, v in own.items() if k not in READ} for m, own in params.items()},
        token_ids=measures.token_ids(data.groups),
        seed=arguments.seed,
    )
    print(json.dumps(finite(numbers), indent=1) if arguments.json else _text(numbers))
    data.summary.say()
    failed = [name for name, m in numbers["methods"].items() if not m["scored"]]
    if failed and math.isnan(numbers["entropy"]["pooled"]):
        own = shlex.join(["dare-reward", *arguments.words])
        warn(f"{', '.join(failed)} scored nothing, because the rollouts have no entropies.")
        warn("Score them by votes alone:", f"  {own} {FREQUENCY}")
    return data.summary.exit_code()


def _text(numbers: Numbers) -> str:
    data = numbers["data"]
    size = (
        f"{data['groups']} groups ({data['labelled']} labelled), {data['rollouts']} rollouts, "
        f"{data['answered']:.1%} with an answer, median {data['distinct_answers_median']:g} distinct answers a group"
    )
    figures = table(("figure", "mean over prompts, 95%"), [[k, _shown(v)] for k, v in _figures(numbers)])
    return "\n\n".join([wrapped(size), figures, _methods(numbers["methods"])])


def _figures(numbers: Numbers) -> Iterator[tuple[str, Any]]:
    """Of the policy and its votes, by name."""
    for section, name in (("pass", "pass"), ("majority", "maj")):
        yield from ((f"{name}@{k}", found) for k, found in numbers["accuracy"][section].items())
    yield from numbers["majority"].items()
    yield from ((f"AUROC, {name}", found) for name, found in numbers["entropy"].items())
    if "overlap" in numbers:
        yield "overlap", numbers["overlap"]


def _shown(value: Any) -> str:
    return interval(value) if isinstance(value, Mapping) else number(value)


def _methods(methods: Numbers) -> str:
    rows = []
    for name, m in methods.items():
        cells = [number(m.get(k)) for k in ("bias", "variance", "mse", "within_variance", "correlation")]
        raw = m.get("information", {})
        seen = map(number, (raw.get("bits"), raw.get("share"), m["information_advantage"]["bits"]))
        rows.append([name, str(m["scored"]), interval(m["direction_gain"], 4), *cells, *seen])
    return table(HEAD, rows)


# --- every measure of one set of labelled groups ----------------------------------------------------------------------


def summarise(
    groups: Groups,
    correct_R: Floats,
    *,
    methods: Mapping[str, Mapping[str, Any]],
    token_ids: Sequence[Sequence[NDArray[Any]]] = (),
    seed: int = 0,
) -> dict[str, Any]:
    """Measures by section. Groups with unknown truth count in `data` only; intervals are 95% over prompts.

    methods    names with their parameters
    token_ids  token ids of each rollout of each group
    """
    known_P = known_groups(groups, correct_R)
    out: dict[str, Any] = {
        "data": {
            "groups": len(groups.sizes_P),
            "labelled": int(known_P.sum()),
            "rollouts": len(groups.answer_R),
            "answered": float(groups.valid_R.mean()) if len(groups.valid_R) else np.nan,
            "distinct_answers_median": float(np.median(groups.support_P)) if len(groups.support_P) else np.nan,
        },
        "accuracy": accuracy_of(groups, correct_R, known_P, seed),
        "majority": {k: asdict(v) for k, v in measures.majority(groups, correct_R, seed=seed).items()},
        "entropy": measures.entropy_auroc(groups, correct_R, seed=seed),
        "methods": {
            name: summarise_method(groups, correct_R, name, params, seed=seed) for name, params in methods.items()
        },
    }
    if not math.isnan(overlap := measures.mean_overlap(token_ids)):
        out["overlap"] = overlap
    return out


def summarise_method(
    groups: Groups, correct_R: Floats, name: str, params: Mapping[str, Any], *, seed: int
) -> dict[str, Any]:
    """One method's rewards against the truth; groups that it cannot score are left out and counted."""
    found = find(name)(groups, **params)
    failed_P = np.zeros(len(groups.sizes_P), bool)
    failed_P[list(found.errors)] = True
    truth_R = np.where(failed_P[groups.group_R], np.nan, correct_R)
    known_R = known_groups(groups, truth_R)[groups.group_R]
    rewards = find(name).output == "rewards"
    advantages_R = measures.normalised(groups, found.rewards_R) if rewards else found.rewards_R
    gain = mean_interval(measures.direction_gain(groups, advantages_R, truth_R), seed=seed)
    out: dict[str, Any] = {"scored": int(known_groups(groups, truth_R).sum()), "failed": int(failed_P.sum())}
    if rewards:
        out |= asdict(measures.estimator_error(groups, found.rewards_R, truth_R, advantages_R))
        out["information"] = asdict(measures.mutual_information(truth_R[known_R], found.rewards_R[known_R]))
    rounded = np.round(advantages_R[known_R], 9)  # what differs by rounding is one value
    out["information_advantage"] = asdict(measures.mutual_information(truth_R[known_R], rounded))
    return {**out, "direction_gain": asdict(gain)}


def accuracy_of(groups: Groups, correct_R: Floats, known_P: Bools, seed: int) -> dict[str, Any]:
    sizes = groups.sizes_P[known_P]
    right = groups.sum_rollouts(np.nan_to_num(correct_R))[known_P]
    ks = powers(int(sizes.min())) if len(sizes) else []
    return {
        "pass": {str(k): asdict(pass_at_k_interval(sizes, right.astype(np.int64), k, seed=seed)) for k in ks},
        "majority": {str(k): asdict(mean_interval(majority_at_k(groups, correct_R, k), seed=seed)) for k in ks},
    }
