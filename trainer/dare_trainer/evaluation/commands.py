"""`dare-reward evaluate`: pass@1, pass@k and maj@k of a served model, beside the paper's rows."""

from __future__ import annotations

import argparse
import asyncio
import json
import math
import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from dare_reward.analysis.passk import powers
from dare_reward.commands.command import add_command, add_flags
from dare_reward.commands.help_index import TRAINING
from dare_reward.commands.tables import table
from dare_reward.errors import RequestError
from dare_reward.files.output import write_files
from dare_reward.params import parameters
from dare_reward.runs.log import finite
from dare_trainer.launch.questions import LabelledQuestion, load
from dare_trainer.launch.recipes import recipe_file

from .completions import Sampling, collect
from .paper import Row, models, rows
from .rollout_file import RolloutFile
from .scores import score

BENCHMARKS = {name: facts["title"] for name, facts in recipe_file("benchmarks").items()}
SAMPLES = 16
SHOWN = ("Raw model", "CoT", "GRPO", "TTRL", "DARE")
NOTES = """It keeps completions in OUT/BENCHMARK.rollouts.jsonl as they come, so you can run the same command again
to resume. It reads and grades answers by the rules of docs/answers.md. Set $OPENAI_API_KEY to the server's token."""


def register(subparsers: Any) -> None:
    parser = add_command(
        subparsers,
        "evaluate",
        "Measure pass@k and maj@k of a served model on benchmark files.",
        group=TRAINING,
        notes=NOTES,
        examples=(
            "dare-reward evaluate --data aime24=aime.jsonl --url http://127.0.0.1:8000/v1 --model m --out evaluation",
            "dare-reward evaluate --data aime24=aime.jsonl --out evaluation --report",
        ),
        exits="0 if all is done, 1 if completions are missing, 2 for wrong use or no server.",
    )
    words = f"A JSON or JSONL file of {', '.join(BENCHMARKS)}. You may repeat it."
    parser.add_argument("--data", action="append", required=True, metavar="BENCHMARK=FILE", help=words)
    parser.add_argument("--out", type=Path, required=True, help="The folder of the completions and report.json.")
    parser.add_argument("--url", help="An OpenAI-compatible endpoint, such as http://HOST:PORT/v1.")
    words = "Completions of each problem (default: 16; with --report, all that the file holds)."
    parser.add_argument("--samples", type=int, help=words)
    parser.add_argument("--limit", type=int, help="Ask only the first problems of each file.")
    add_flags(parser, parameters(Sampling))
    parser.add_argument("--concurrency", type=int, default=32, help="Requests in flight (default: 32).")
    parser.add_argument("--paper", choices=models(), help="Print the paper's rows of this model too.")
    parser.add_argument("--report", action="store_true", help="Send no request, and report what is there.")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """`--help` says what the exit codes mean."""
    if not arguments.report and not (arguments.url and arguments.model):
        raise RequestError("--url and --model say whom to ask; --report asks nobody", code="url")
    for name in ("samples", "concurrency"):
        if (count := getattr(arguments, name)) is not None and count < 1:
            raise RequestError(f"--{name} must be at least 1", code=name)
    if not arguments.report:
        arguments.samples = arguments.samples or SAMPLES
    sampling = Sampling(**{spec.name: getattr(arguments, spec.name) for spec in parameters(Sampling)})
    target = _own_report(arguments.out / "report.json")
    scores, used = {}, list[dict[str, Any]]()
    for name, path in map(_pair, arguments.data):
        problems = load(name, path)
        asked = {p.id: p.asks() for p in problems}
        for each in asked.values():
            del each["label"]  # answers are graded by the labels of today
        problems = problems[: arguments.limit]
        plan = {"data": name} | ({} if arguments.report else asdict(sampling))
        file = RolloutFile(arguments.out / f"{name}.rollouts.jsonl", plan, asked)
        if arguments.report and not file.lines:
            raise RequestError(f"{file.path}: nothing to report", code="file")
        if not arguments.report:
            _collect(arguments, name, problems, sampling, file)
        most = max((len(file.rollouts(p.id)) for p in problems), default=0)
        samples = arguments.samples or max(most, 1)
        scores[name] = score(problems, file, samples=samples, ks=powers(min(samples, most)))
        scores[name]["samples"] = samples
        used += [line["meta"]["sampling"] for lines in file.lines.values() for line in lines[:1]]
    # Of files that were sampled differently, what they have in common.
    common = {k: v for k, v in (used or [{}])[0].items() if k != "data" and all(each.get(k) == v for each in used)}
    content = {"sampling": common, "benchmarks": scores}
    write_files({target: json.dumps(finite(content), indent=1) + "\n"}, force=True)
    print(report(scores, paper=arguments.paper))  # noqa: T201
    short = any(f.get("completions", 0) < f["problems"] * f["samples"] for f in scores.values())
    return int(short)


def _own_report(path: Path) -> Path:
    """The report's place. RequestError if a file is there that is no report of this command."""
    if path.exists():
        try:
            content = json.loads(path.read_bytes())
        except ValueError:
            content = None
        if not (isinstance(content, dict) and {"sampling", "benchmarks"} <= content.keys()):
            raise RequestError(f"{path} exists and is no report of this command; choose another --out", code="file")
    return path


def _pair(text: str) -> tuple[str, Path]:
    name, equals, path = text.partition("=")
    if not equals or name not in BENCHMARKS:
        raise RequestError(f"--data {text}: write BENCHMARK=FILE with one of {', '.join(BENCHMARKS)}", code="data")
    return name, Path(path)


def _collect(
    arguments: argparse.Namespace,
    name: str,
    problems: Sequence[LabelledQuestion],
    sampling: Sampling,
    file: RolloutFile,
) -> None:
    total = len(problems) * arguments.samples
    done = sum(min(len(file.rollouts(p.id)), arguments.samples) for p in problems)

    def advance(count: int) -> None:
        """A line for each tenth."""
        nonlocal done
        before, done = done, done + count
        if done * 10 // total > before * 10 // total:
            print(f"{name}: {done} of {total} completions", file=sys.stderr)  # noqa: T201

    options = {"samples": arguments.samples, "concurrency": arguments.concurrency, "done": advance}
    asyncio.run(collect(arguments.url, problems, sampling, file, token=os.environ.get("OPENAI_API_KEY"), **options))
    file.join()


def report(scores: Mapping[str, Mapping[str, Any]], *, paper: str | None = None) -> str:
    """Our figures, then the paper's rows beside our pass@1."""
    figures = []
    for name, f in scores.items():
        if not f["answered_problems"]:
            figures.append([BENCHMARKS[name], f"0 of {f['problems']}", *["-"] * 6])
            continue
        last = list(f["pass"])[-1]
        tokens = "-" if f["mean_tokens"] is None else f"{f['mean_tokens']:.0f}"
        figures.append(
            [
                BENCHMARKS[name],
                f"{f['answered_problems']} x {f['completions'] / f['answered_problems']:.3g}",
                _percent(f["pass"]["1"]),
                f"{_percent(f['pass'][last])} (k={last})",
                f"{_percent(f['majority'][last])} (k={last})",
                f"{f['parsed']:.1%}",
                f"{f['truncated']:.1%}",
                tokens,
            ]
        )
    head = ("benchmark", "problems x samples", "pass@1", "pass@k", "maj@k", "parsed", "cut off", "tokens")
    text = "per cent, with 95% bootstrap intervals over problems\n" + table(head, figures)
    return text if paper is None else f"{text}\n\n{_beside(scores, paper)}"


def _beside(scores: Mapping[str, Mapping[str, Any]], model: str) -> str:
    """The paper's rows and ours; averages of the five, computed."""
    chosen: list[Row] = [r for r in rows() if r.model == model and r.method in SHOWN]
    lines = [
        [f"paper: {r.method}", *(f"{r.scores[n]:.1f}" for n in BENCHMARKS), f"{r.average:.2f}", f"{r.printed:.1f}"]
        for r in chosen
    ]
    ours = {n: 100 * f["pass"]["1"]["estimate"] for n, f in scores.items() if f["answered_problems"]}
    average = f"{sum(ours.values()) / len(ours):.2f}" if ours.keys() == BENCHMARKS.keys() else "-"
    lines.append(["ours: pass@1", *(f"{ours[n]:.1f}" if n in ours else "-" for n in BENCHMARKS), average, "-"])
    head = ("row", *(BENCHMARKS.values()), "mean of five", "as printed")
    return f"{model}, pass@1 in per cent (arXiv:2601.21804)\n" + table(head, lines)


def _percent(interval: Mapping[str, float]) -> str:
    if math.isnan(interval["estimate"]):
        return "-"
    return f"{100 * interval['estimate']:.1f} [{100 * interval['low']:.1f}, {100 * interval['high']:.1f}]"
