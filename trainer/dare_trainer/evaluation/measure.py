"""`dare-reward measure`: labelled rollouts of a model with entropies from vLLM, and what `calibrate` says of them.

No training: 50 prompts x 64 rollouts by default. Groups are written as they come, so the same command resumes.
"""

from __future__ import annotations

import argparse
import json
import math
import random
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any, Final

import numpy as np

from dare_reward.analysis.verdict import judge
from dare_reward.answers import option_letters
from dare_reward.commands.calibrate import report
from dare_reward.commands.command import add_command, add_flags, add_seed
from dare_reward.commands.labelled import read_labelled, refuse_repeats
from dare_reward.errors import ConfigError, RequestError
from dare_reward.openrlhf import AnswerRules
from dare_reward.params import Param, parameters
from dare_reward.scoring.token_sums import without_tokens
from dare_reward.stacks.answer_tokens import answer_tokens

from ..launch.questions import LabelledQuestion, load, load_own
from ..launch.recipes import recipe_file
from ..vllm.plugin import turn_on
from ..vllm.token_entropy import token_arrays, token_entropies
from .rollout_file import RolloutFile

AT_ONCE = 8  # prompts of a call: what a cut costs at most
NOTES = """It needs vLLM and a GPU that holds the model. It writes one group per line to the file of --out, and
does not sample again what the file already holds. It refuses a file that was sampled from other data or with other
settings, but does not look at --engine."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasurePlan:
    """What the model is asked, and how. A file of rollouts belongs to one of these.

    data   the benchmark's name
    """

    model: str
    data: str
    seed: int = 0
    rollouts: Annotated[int, Param("Rollouts of each prompt", ge=1)] = 64
    temperature: Annotated[float, Param("The temperature that you will train with", ge=0)] = 1.0
    top_p: Annotated[float, Param("The top-p that you will train with", gt=0, le=1)] = 0.95
    max_tokens: Annotated[int, Param("The most new tokens of a rollout", ge=1)] = 3072
    chat: Annotated[
        bool, Param("Ask by the model's chat template; --no-chat sends the bare text, which a base model goes on with")
    ] = True
    as_is: Annotated[bool, Param("Add no instruction to reason and to put the answer into \\boxed{}")] = False
    prefix: Annotated[str, Param("Put this before every prompt; \\n is a line break")] = ""
    stop: tuple[str, ...] = ()
    tokens: Annotated[bool, Param("Write each token's id, entropy and log-probability, not their means alone")] = False


FLAGS: Final = parameters(MeasurePlan, skip=frozenset({"model", "data", "seed", "stop"}))


def register(subparsers: Any) -> None:
    parser = add_command(
        subparsers,
        "measure",
        notes=NOTES,
        examples=(
            "dare-reward measure --model Qwen/Qwen2.5-Math-1.5B --data math-500=math.jsonl --out rollouts.jsonl",
            "dare-reward measure --model ./policy --data amc=amc.json --out r.jsonl --engine tensor_parallel_size=2",
        ),
        exits="0 if entropy is worth using, 1 for the vote or undecided, 3 if groups were refused, 2 if none was read.",
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
    add_flags(parser, FLAGS)
    words = "End a rollout where it says this; \\n is a line break. You may repeat it."
    parser.add_argument("--stop", action="append", default=[], metavar="TEXT", help=words)
    add_seed(parser, "The seed of the draw, of vLLM and of the bootstrap")
    words = "Set an argument of vllm.LLM. You may repeat it."
    parser.add_argument("--engine", action="append", default=[], metavar="NAME=VALUE", help=words)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """`--help` says what the exit codes mean."""
    if arguments.prompts < 1:
        raise RequestError("--prompts must be at least 1", code="parameter")
    name, problems = _loaded(arguments.data)
    flags = {spec.name: getattr(arguments, spec.name) for spec in FLAGS}
    plan = MeasurePlan(
        model=arguments.model,
        data=name,
        seed=arguments.seed,
        stop=tuple(map(_unescaped, arguments.stop)),
        **flags | {"prefix": _unescaped(arguments.prefix)},
    )
    engine = dict(map(_engine, arguments.engine))
    chosen = _drawn(problems, arguments.prompts, arguments.seed)
    file = RolloutFile(arguments.out, asdict(plan), {p.id: p.asks(as_is=plan.as_is) for p in problems})
    if missing := [p for p in chosen if p.id not in file.lines]:
        _sample(file, missing, plan, {"seed": arguments.seed, **engine})
    file.join()  # a line that a cut run left torn is no refused group
    data = read_labelled(str(arguments.out), only={p.id for p in chosen})
    refuse_repeats(data)
    result = judge(data.groups, data.correct_R, seed=arguments.seed)
    if not result.calibration.prompts:
        print("no prompt can be scored: no rollout has an answer, or the labels mean nothing")  # noqa: T201
        return 2
    print(report(result))  # noqa: T201
    return data.summary.exit_code(int(result.use != "line"), refused=3)


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


def _drawn(problems: Sequence[LabelledQuestion], count: int, seed: int) -> list[LabelledQuestion]:
    """The prompts; all if there are no more. Those of a smaller count are the first of a greater one."""
    return random.Random(seed).sample(problems, len(problems))[:count]  # noqa: S311  (a draw, no secret)


def _sample(
    file: RolloutFile, problems: Sequence[LabelledQuestion], plan: MeasurePlan, engine: Mapping[str, Any]
) -> None:
    begun = time.monotonic()  # the engine starts within the first call, which a forecast leaves out
    for done, group in enumerate(groups_of(problems, plan, engine), 1):
        file.add(group)
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
            yield problem.group(
                [_rollout(c, problem, plan, tokenizer) for c in output.outputs],
                as_is=plan.as_is,
                entropy_source="exact",
                entropy_mode="temperature",
                temperature=plan.temperature,
                top_p=plan.top_p,
                logprobs_mode=engine.get("logprobs_mode", "raw_logprobs"),  # vLLM's default
            )


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
