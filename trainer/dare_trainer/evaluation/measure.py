"""`dare-reward measure`: labelled rollouts of a model with entropies from vLLM, and what `calibrate` says of them.

No training: 50 prompts x 64 rollouts by default. Groups are written as they come, so the same command resumes.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import math
import random
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from dare_reward.analysis.preflight import preflight
from dare_reward.answers import option_letters
from dare_reward.commands.calibrate import report
from dare_reward.commands.command import add_command, add_seed
from dare_reward.commands.labelled import read_labelled, refuse_repeats
from dare_reward.errors import ConfigError, RequestError
from dare_reward.openrlhf import AnswerRules
from dare_reward.stacks.answer_tokens import answer_tokens
from dare_reward.token_sums import without_tokens

from ..launch.questions import LabelledQuestion, load, load_own
from ..launch.recipes import recipe_file
from ..vllm.plugin import turn_on
from ..vllm.token_entropy import token_arrays, token_entropies

AT_ONCE = 8  # prompts of a call: what a cut costs at most
NOTES = """It needs vLLM and a GPU that holds the model. It writes one group per line to the file of --out, and
does not sample again what the file already holds. It refuses a file that was sampled from other data or with other
settings, but does not look at --engine."""


@dataclass(frozen=True, slots=True)
class MeasurePlan:
    """What the model is asked, and how. A file of rollouts belongs to one of these.

    data     the benchmark, and a digest of its questions and answers: ids alone do not tell two files apart
    seed     of the draw and of the engine
    chat     by the model's chat template; else the bare text, which a base model goes on with
    as_is    without the instruction to reason and to box the answer
    prefix   stands before every prompt: answered examples
    stop     texts at which a rollout ends
    tokens   each token's id, entropy and log-probability are written
    """

    model: str
    data: str
    seed: int = 0
    rollouts: int = 64
    temperature: float = 1.0
    top_p: float = 0.95
    max_tokens: int = 3072
    chat: bool = True
    as_is: bool = False
    prefix: str = ""
    stop: tuple[str, ...] = ()
    tokens: bool = False


def register(subparsers: Any) -> None:
    usual = MeasurePlan("", "")
    parser = add_command(
        subparsers,
        "measure",
        notes=NOTES,
        examples=(
            "dare-reward measure --model Qwen/Qwen2.5-Math-1.5B --data math-500=math.jsonl --out rollouts.jsonl",
            "dare-reward measure --model ./policy --data amc=amc.json --out r.jsonl --engine tensor_parallel_size=2",
        ),
        exits="0 if entropy is worth using, 1 for the vote or undecided, 2 if nothing was done.",
    )
    parser.add_argument("--model", required=True, help="A name or a folder that vLLM can load.")
    parser.add_argument(
        "--data",
        required=True,
        metavar="FILE",
        help="Your questions, a row each: prompt, label (or a list of accepted ones), and if you like kind, asked "
        f"(what the model is sent), id. Or BENCHMARK=FILE with one of {', '.join(recipe_file('benchmarks'))}.",
    )
    parser.add_argument("--out", type=Path, required=True, metavar="FILE.jsonl", help="The file of the rollouts.")
    parser.add_argument("--prompts", type=int, default=50, help="Prompts to draw at random (default: 50).")
    parser.add_argument("--rollouts", type=int, default=usual.rollouts, help="Rollouts of each prompt (default: 64).")
    parser.add_argument(
        "--temperature",
        type=float,
        default=usual.temperature,
        help="The temperature that you will train with (default: 1).",
    )
    parser.add_argument(
        "--top-p", type=float, default=usual.top_p, help="The top-p that you will train with (default: 0.95)."
    )
    parser.add_argument(
        "--max-tokens", type=int, default=usual.max_tokens, help="The most new tokens of a rollout (default: 3072)."
    )
    parser.add_argument(
        "--chat",
        action=argparse.BooleanOptionalAction,
        default=usual.chat,
        help="Ask by the model's chat template; --no-chat sends the bare text, which a base model goes on with.",
    )
    parser.add_argument(
        "--as-is", action="store_true", help="Add no instruction to reason and to put the answer into \\boxed{}."
    )
    parser.add_argument(
        "--prefix",
        type=_unescaped,
        default=usual.prefix,
        metavar="TEXT",
        help="Put this before every prompt; \\n is a line break.",
    )
    parser.add_argument(
        "--stop",
        type=_unescaped,
        action="append",
        default=[],
        metavar="TEXT",
        help="End a rollout where it says this; \\n is a line break. You may repeat it.",
    )
    parser.add_argument(
        "--tokens",
        action="store_true",
        help="Write each token's id, entropy and log-probability, not their means alone.",
    )
    add_seed(parser, "The seed of the draw, of vLLM and of the bootstrap")
    parser.add_argument(
        "--engine",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="Set an argument of vllm.LLM. You may repeat it.",
    )
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """`--help` says what the exit codes mean."""
    if min(arguments.prompts, arguments.rollouts, arguments.max_tokens) < 1:
        raise RequestError("--prompts, --rollouts and --max-tokens must be at least 1", code="parameter")
    name, problems = _loaded(arguments.data)
    plan = MeasurePlan(
        model=arguments.model,
        data=f"{name}:{_digest(problems)}",
        seed=arguments.seed,
        rollouts=arguments.rollouts,
        temperature=arguments.temperature,
        top_p=arguments.top_p,
        max_tokens=arguments.max_tokens,
        chat=arguments.chat,
        as_is=arguments.as_is,
        prefix=arguments.prefix,
        stop=tuple(arguments.stop),
        tokens=arguments.tokens,
    )
    engine = dict(map(_engine, arguments.engine))
    chosen = _drawn(problems, arguments.prompts, arguments.seed)
    there = written(arguments.out, plan)
    missing = [p for p in chosen if p.id not in there]
    if missing:
        _sample(arguments.out, missing, plan, {"seed": arguments.seed, **engine})
    data = read_labelled(str(arguments.out), only={p.id for p in chosen})
    refuse_repeats(data)
    result = preflight(data.groups, data.correct_R, seed=arguments.seed)
    if not result.calibration.prompts:
        print("no prompt can be scored: no rollout has an answer, or the labels mean nothing")  # noqa: T201
        return 2
    print(report(result))  # noqa: T201
    return int(result.verdict != "use")


def _loaded(data: str) -> tuple[str, list[LabelledQuestion]]:
    """The benchmark's name ("own" for your questions), and its problems without those that ask the same again."""
    name, equals, path = data.partition("=")
    if Path(data).is_file():
        name, problems = "own", load_own(Path(data))
    elif equals:
        problems = load(name, Path(path))
    else:
        raise RequestError(
            f"--data {data}: there is no such file. Write FILE for your questions, or BENCHMARK=FILE with one of "
            f"{', '.join(recipe_file('benchmarks'))}",
            code="data",
        )
    first: dict[str, LabelledQuestion] = {}
    for problem in problems:
        first.setdefault(problem.asked or problem.prompt(), problem)
    return name, list(first.values())


def _digest(problems: Sequence[LabelledQuestion]) -> str:
    """Of everything that a problem is asked and graded by."""
    return hashlib.sha256(json.dumps([[p.prompt(), asdict(p)] for p in problems]).encode()).hexdigest()[:16]


def _drawn(problems: Sequence[LabelledQuestion], count: int, seed: int) -> list[LabelledQuestion]:
    """The prompts; all if there are no more. Those of a smaller count are the first of a greater one."""
    return random.Random(seed).sample(problems, len(problems))[:count]  # noqa: S311  (a draw, no secret)


def written(path: Path, plan: MeasurePlan) -> set[str]:
    """The prompts whose rollouts are in the file; ConfigError if sampled otherwise. Torn lines do not count."""
    if not path.exists():
        return set()
    out = set()
    for line in path.read_text(encoding="utf-8").splitlines():
        try:
            group = json.loads(line)
        except ValueError:
            continue
        before = group.get("meta", {}).get("sampling") if isinstance(group, dict) else None
        if not isinstance(before, dict):
            raise ConfigError(f"{path} holds other groups than `dare-reward measure` writes: choose another --out")
        if changed := sorted(k for k, v in _written_as(plan).items() if before.get(k) != v):
            flags = ", ".join(f"--{k.replace('_', '-')}" for k in changed)
            raise ConfigError(f"{path} was not sampled with this {flags}: choose another --out")
        out.add(group["group_id"])
    return out


def _written_as(plan: MeasurePlan) -> dict[str, Any]:
    """The plan as it comes back from a file."""
    return asdict(plan) | {"stop": list(plan.stop)}


def _sample(path: Path, problems: Sequence[LabelledQuestion], plan: MeasurePlan, engine: Mapping[str, Any]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    torn = path.exists() and path.read_bytes()[-1:] not in {b"", b"\n"}
    with path.open("a", encoding="utf-8") as file:
        if torn:  # what a cut left behind stays on a line of its own
            file.write("\n")
        begun = time.monotonic()  # the engine starts within the first call, which a forecast leaves out
        for done, group in enumerate(groups_of(problems, plan, engine), 1):
            file.write(json.dumps(group) + "\n")
            file.flush()
            if done == AT_ONCE:
                begun = time.monotonic()
            print(f"{done} of {len(problems)} prompts{_left(done, len(problems), begun)}", file=sys.stderr)  # noqa: T201


def _left(done: int, of: int, begun: float) -> str:
    """How long the rest will take, from the prompts after the first call: there the engine was loaded."""
    measured = done - AT_ONCE
    if measured < AT_ONCE or done == of:
        return ""
    return f", about {math.ceil((time.monotonic() - begun) / measured * (of - done) / 60)} min left"


def groups_of(
    problems: Sequence[LabelledQuestion], plan: MeasurePlan, engine: Mapping[str, Any]
) -> Iterator[dict[str, Any]]:
    """A group for each problem, in order, from one vLLM engine of this process."""
    try:
        vllm = import_module("vllm")
    except ModuleNotFoundError:
        raise ConfigError("measure needs vLLM; run pip install '.[trainer]' in your checkout") from None
    turn_on("temperature")
    llm = vllm.LLM(model=plan.model, **engine)
    tokenizer = llm.get_tokenizer()
    if plan.chat and getattr(tokenizer, "chat_template", None) is None:
        raise ConfigError(f"{plan.model} has no chat template: add --no-chat")
    sampling = vllm.SamplingParams(
        n=plan.rollouts,
        temperature=plan.temperature,
        top_p=plan.top_p,
        max_tokens=plan.max_tokens,
        stop=list(plan.stop),
        logprobs=0,  # what the entropies ride on
    )
    for start in range(0, len(problems), AT_ONCE):
        part = problems[start : start + AT_ONCE]
        asked = [plan.prefix + (p.asked or p.prompt(as_is=plan.as_is)) for p in part]
        if plan.chat:
            outputs = llm.chat([[{"role": "user", "content": text}] for text in asked], sampling, use_tqdm=False)
        else:
            outputs = llm.generate(asked, sampling, use_tqdm=False)
        for problem, output in zip(part, outputs, strict=True):
            group = _group(problem, output.outputs, plan, tokenizer)
            group["logprobs_mode"] = engine.get("logprobs_mode", "raw_logprobs")  # vLLM's default
            yield group


def _group(problem: LabelledQuestion, completions: Sequence[Any], plan: MeasurePlan, tokenizer: Any) -> dict[str, Any]:
    return {
        "group_id": problem.id,
        "kind": problem.kind,
        **({"options": [chr(65 + i) for i in range(len(problem.options))]} if problem.options else {}),
        "prompt": problem.text if problem.asked else problem.prompt(as_is=plan.as_is),
        "label": problem.labels,
        "entropy_source": "exact",
        "entropy_mode": "temperature",
        "temperature": plan.temperature,
        "top_p": plan.top_p,
        "meta": {
            **problem.meta,
            "sampling": asdict(plan),
        },
        "rollouts": [_rollout(c, problem, plan, tokenizer) for c in completions],
    }


def _rollout(completion: Any, problem: LabelledQuestion, plan: MeasurePlan, tokenizer: Any) -> dict[str, Any]:
    """Text, and what is known of its tokens: these, or their means and sums. Without a token there is no entropy and no
    answer."""
    rollout: dict[str, Any] = {"text": completion.text, "finish_reason": completion.finish_reason}
    tokens = token_arrays(completion, token_entropies(completion))
    if tokens:
        rules = AnswerRules({}, problem.kind, options=option_letters(len(problem.options)) if problem.options else None)
        answer, _ = answer_tokens(rollout, list(completion.token_ids), tokenizer=tokenizer, rules=rules)
        tokens |= {} if answer is None else {"answer_tokens": list(answer)}
    if plan.tokens:
        rollout |= {k: np.round(v, 6).tolist() if isinstance(v, np.ndarray) else v for k, v in tokens.items()}
    else:
        rollout |= {"num_tokens": len(completion.token_ids), **without_tokens(tokens)}
    return rollout


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
