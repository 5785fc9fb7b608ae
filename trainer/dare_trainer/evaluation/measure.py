"""`dare-reward measure`: labelled rollouts of a model with entropies from vLLM, and what `calibrate` says of them.

No training: 50 prompts x 64 rollouts by default. Groups are written as they come, so the same command resumes. With
--greedy the control stands beside them: what decoding alone does. An endpoint gives texts, and so accuracies alone.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import math
import os
import random
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final

import numpy as np

from dare_reward.analysis.bootstrap import Interval, mean_interval
from dare_reward.analysis.learnt import visit
from dare_reward.analysis.verdict import judge
from dare_reward.client import split_address
from dare_reward.commands.calibrate import accuracy, of_k, report
from dare_reward.commands.command import add_command, add_count, add_flags, add_seed
from dare_reward.commands.labelled import Labelled, read_labelled, refuse_repeats
from dare_reward.errors import ConfigError, RequestError, counted
from dare_reward.files.output import terminable
from dare_reward.ledger import Ledger
from dare_reward.params import parameters
from dare_reward.scoring.diagnostics import correctness
from dare_reward.scoring.request import prepare_file

from ..launch.questions import LabelledQuestion, benchmarks, load, load_own, unique
from .endpoint import collect
from .rollout_file import MeasurePlan, RolloutFile, Want
from .vllm_engine import Engine

JSON = dict[str, Any]
NOTES = """Without --url it needs vLLM and a GPU that holds the model. It writes one group per line to the file of
--out, and does not sample again what the file already holds. It refuses a file that was sampled from other data or with
other settings, but does not look at --engine. An endpoint (--url) returns no entropies: you get accuracies alone.
Set $OPENAI_API_KEY to its token."""
FLAGS: Final = parameters(MeasurePlan, skip=frozenset({"model", "data", "url", "seed", "stop"}))


def register(subparsers: Any) -> None:
    parser = add_command(
        subparsers,
        "measure",
        notes=NOTES,
        examples=(
            "dare-reward measure --model Qwen/Qwen2.5-Math-1.5B --data math-500=math.jsonl --out r.jsonl --greedy",
            "dare-reward measure --model ./policy --data amc=amc.json --out r.jsonl --engine tensor_parallel_size=2",
            "dare-reward measure --model m --data questions.jsonl --out r.jsonl --url http://127.0.0.1:8000/v1",
        ),
        exits="0 if entropy is worth using, 1 for the vote or undecided, 3 for either if groups were refused, "
        "2 if nothing was done.",
    )
    parser.add_argument(
        "--model", required=True, help="A name or a folder that vLLM can load; with --url, its name there."
    )
    parser.add_argument(
        "--data",
        required=True,
        metavar="FILE",
        help="Your questions, a row each: prompt, label (or a list of accepted ones), and optionally kind, asked "
        f"(what the model is sent), id. Or BENCHMARK=FILE with one of {', '.join(benchmarks())}.",
    )
    parser.add_argument("--out", type=Path, required=True, metavar="FILE.jsonl", help="The file of the rollouts.")
    add_count(parser, "prompts", "Prompts to draw at random", 50)
    add_flags(parser, FLAGS)
    words = "Sample each prompt once more, greedily, and say whether the vote is right more often."
    parser.add_argument("--greedy", action="store_true", help=words)
    words = "End a rollout where it says this; \\n is a line break. You may repeat it."
    parser.add_argument("--stop", action="append", default=[], metavar="TEXT", help=words)
    add_seed(parser, "The seed of the draw, of vLLM and of the bootstrap")
    words = "Set an argument of vllm.LLM. You may repeat it."
    parser.add_argument("--engine", action="append", default=[], metavar="NAME=VALUE", help=words)
    parser.add_argument(
        "--url", help="Ask this OpenAI-compatible endpoint, such as http://HOST:PORT/v1, instead of vLLM."
    )
    add_count(parser, "concurrency", "Requests in flight to --url (default: 32)", None)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """`--help` says what the exit codes mean."""
    name, problems = _loaded(arguments.data)
    flags = {spec.name: getattr(arguments, spec.name) for spec in FLAGS}
    if arguments.url and (arguments.engine or arguments.tokens):
        raise ConfigError(
            "--url: an endpoint reports no tokens, and takes no arguments of vLLM. Leave out --tokens and --engine"
        )
    if arguments.url is not None:
        split_address(arguments.url)
    elif arguments.concurrency is not None:
        raise ConfigError("--concurrency means nothing without --url: add it")
    plan = MeasurePlan(
        model=arguments.model,
        data=name,
        url=arguments.url is not None,
        seed=arguments.seed,
        stop=tuple(map(_unescaped, arguments.stop)),
        **flags | {"prefix": _unescaped(arguments.prefix)},
    )
    engine = dict(map(_engine, arguments.engine))
    chosen = _drawn(problems, arguments.prompts, arguments.seed)
    file = RolloutFile(arguments.out, asdict(plan), {p.id: p.asks(as_is=plan.as_is) for p in problems})
    wants = [
        Want(p, plan.rollouts - len(file.rollouts(p.id)), arguments.greedy and file.greedy(p.id) is None)
        for p in chosen
    ]
    try:
        with terminable():  # what vLLM started ends with this process
            _sample(file, [w for w in wants if w.sequences], plan, engine, arguments)
    finally:
        file.join()  # a line that a cut run left torn is no refused group
    data = read_labelled(str(arguments.out), only={p.id for p in chosen})
    refuse_repeats(data)
    if arguments.greedy:
        print(control([file.group(p.id) for p in chosen], plan.seed), end="\n\n")  # noqa: T201
    return _report(data, plan, len(chosen))


def _report(data: Labelled, plan: MeasurePlan, prompts: int) -> int:
    """What `calibrate` says; of an endpoint's rollouts the accuracies. Prints it, and returns the exit code."""
    data.summary.say()
    if plan.url:
        print(of_k(accuracy(data, plan.seed)))  # noqa: T201
        return data.summary.exit_code(1, refused=3)
    found = judge(data.groups, data.correct_R, seed=plan.seed)
    c = found.calibration
    if not c.prompts:
        print("no prompt can be scored: no rollout has an answer, or the labels mean nothing")  # noqa: T201
        return 2
    if (shown := min(c.prompts, found.rollouts.prompts)) < prompts:
        print(f"The tables hold {shown} of {counted(prompts, 'prompt')}: in the others a rollout lacks a number.")  # noqa: T201
    if c.left_out:
        data.summary.ledger.count("refused", f"{c.certainty} is missing", c.left_out)
    print(report(found, accuracy=accuracy(data, plan.seed)))  # noqa: T201
    return data.summary.exit_code(int(found.use != "line"), refused=3)


# --- which prompts ----------------------------------------------------------------------------------------------------


def _loaded(data: str) -> tuple[str, list[LabelledQuestion]]:
    """The benchmark's name ("own" for your questions), and its problems, each once; what is left out is said."""
    name, equals, path = data.partition("=")
    if Path(data).is_file():
        name, problems = "own", load_own(Path(data))
    elif equals:
        problems = load(name, Path(path))
    else:
        raise RequestError(
            f"--data {data}: there is no such file. Write FILE for your questions, or BENCHMARK=FILE with one of "
            f"{', '.join(benchmarks())}",
            code="data",
        )
    problems = unique(problems, ledger := Ledger())
    if ledger.lost:
        print(f"questions: {ledger.sentence}", file=sys.stderr)  # noqa: T201
    if not problems:
        raise ConfigError(f"--data {data}: every question comes again with another answer")
    return name, problems


def _drawn(problems: Sequence[LabelledQuestion], count: int, seed: int) -> list[LabelledQuestion]:
    """The prompts; all if there are no more. Those of a smaller count are the first of a greater one."""
    return random.Random(seed).sample(problems, len(problems))[:count]  # noqa: S311  (a draw, no secret)


# --- sampling ---------------------------------------------------------------------------------------------------------


def _sample(
    file: RolloutFile,
    wants: Sequence[Want],
    plan: MeasurePlan,
    engine: Mapping[str, Any],
    arguments: argparse.Namespace,
) -> None:
    """Everything that the file lacks, into the file, with a line on each group."""
    if not wants:
        return
    loaded = None if plan.url else Engine(plan, engine)
    progress = Progress(wants)

    def take(group: JSON) -> None:
        file.add(group)
        progress.add(group)

    if loaded:
        loaded.sample(wants, take)
    else:
        token, at_once = os.environ.get("OPENAI_API_KEY"), arguments.concurrency or 32
        asyncio.run(collect(arguments.url, plan, wants, take, concurrency=at_once, token=token))


class Progress:
    """Says after each group what is done, how long the rest takes, and whether it is worth waiting for."""

    def __init__(self, wants: Sequence[Want]) -> None:
        self._missing = {w.problem.id: w.sequences for w in wants}
        self._of, self._sequences, self._begun = len(wants), sum(w.sequences for w in wants), time.monotonic()
        self._right = list[float]()

    def add(self, group: JSON) -> None:
        self._missing[group["group_id"]] -= len(group["rollouts"]) + ("greedy" in group["meta"])
        if group["rollouts"]:
            right_R = correctness(prepare_file([group]))
            self._right += right_R[~np.isnan(right_R)].tolist()
        print(self.line, file=sys.stderr, flush=True)  # noqa: T201

    @property
    def line(self) -> str:
        left, seconds = sum(self._missing.values()), max(time.monotonic() - self._begun, 1e-9)
        parts = [f"{sum(n <= 0 for n in self._missing.values())} of {self._of} prompts"]
        if self._right:
            parts.append(f"pass@1 {np.mean(self._right):.1%}")
        if left:
            parts.append(f"about {math.ceil(seconds / (self._sequences - left) * left / 60)} min left")
        return ", ".join(parts)


# --- the control ------------------------------------------------------------------------------------------------------


def control(groups: Sequence[JSON], seed: int = 0) -> str:
    """Greedy decoding beside the vote and the mean rollout, in per cent of right prompts, with their difference."""
    sampled = prepare_file(groups)
    alone = prepare_file({**group, "rollouts": [group["meta"]["greedy"]]} for group in groups)
    greedy_P, right_R = correctness(alone), correctness(sampled)
    found = visit(sampled.groups, right_R)
    vote_P = found.vote_P
    gap = mean_interval(greedy_P - vote_P, seed=seed)
    if gap.high < 0:
        said = "The vote is right more often than greedy decoding: it has something to teach."
    elif gap.low > 0:
        said = "Greedy decoding is right more often than the vote: decode greedily before you train on votes."
    else:
        said = "Whether the vote is right more often than greedy decoding is open: more prompts would tell."
    cut = np.mean([group["meta"]["greedy"]["finish_reason"] == "length" for group in groups])
    shown = [_percent(mean_interval(values_P, seed=seed)) for values_P in (greedy_P, vote_P, found.pass_P)]
    return (
        f"right, in per cent of {counted(len(groups), 'prompt')}: greedy {shown[0]} ({cut:.0%} cut at the limit), "
        f"the vote of all rollouts {shown[1]}, one rollout {shown[2]}\n"
        f"greedy - vote: {_percent(gap, '+.1f')} points. {said}"
    )


def _percent(found: Interval, form: str = ".1f") -> str:
    return f"{100 * found.estimate:{form}} [{100 * found.low:{form}}, {100 * found.high:{form}}]"


# --- flags ------------------------------------------------------------------------------------------------------------


def _unescaped(text: str) -> str:
    return text.replace("\\n", "\n").replace("\\t", "\t")


def _engine(text: str) -> tuple[str, Any]:
    name, equals, value = text.partition("=")
    if not equals or not name.isidentifier():
        raise ConfigError(f"--engine {text}: write NAME=VALUE")
    try:
        return name, json.loads(value)
    except ValueError:
        return name, value
