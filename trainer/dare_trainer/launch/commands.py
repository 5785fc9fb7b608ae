"""Subcommands of `dare-reward`: train, doctor, data."""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, get_args

from dare_reward.answers import Kind
from dare_reward.client import service_address
from dare_reward.commands.command import add_command
from dare_reward.commands.help_index import TRAINING
from dare_reward.commands.shared_arguments import warn
from dare_reward.commands.tables import table
from dare_reward.errors import ConfigError, DareError
from dare_reward.ledger import Ledger

from ..agent.config import parse_setting, read_config, with_line
from ..agent.scoring import handshake
from . import recipes
from .compose import JOB, Launch, command, plan, prepare_folder, shell
from .data import check_labels, prepare
from .doctor import asked, examine
from .flags import RELEASE, installed, installed_flags
from .questions import OWN, benchmark_facts
from .recipes import find_recipe

PLACE = "TOKEN"  # stands for the token where a command is printed


def register_train(subparsers: Any) -> None:
    parser = add_command(
        subparsers,
        "train",
        notes="docs/openrlhf.md explains the routes, the agent's settings and the recipes.",
        examples=(
            "dare-reward train --list",
            "dare-reward train --list aime24 qwen3",
            "dare-reward train --recipe aime24-qwen2.5-math-1.5b --reward-url http://HOST:8000 --dry-run",
            "dare-reward train --recipe amc-qwen3-1.7b --reward-url http://HOST:8000 --set rollout.batch_size=16",
        ),
        exits="those of OpenRLHF; 2 for wrong use.",
    )
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument(
        "--recipe", help="Train this BENCHMARK-BACKBONE[-ROW], such as aime24-qwen2.5-math-1.5b or amc-qwen3-1.7b-ttrl."
    )
    what.add_argument(
        "--list",
        nargs="*",
        metavar="WORD",
        help="List the parts of recipe names, or the recipes whose names contain every WORD.",
    )
    parser.add_argument("--reward-url", metavar="URL", help="The address of the reward service, http://HOST:PORT.")
    parser.add_argument(
        "--route",
        choices=["agent", "url"],
        default="agent",
        help="Use the agent (exact entropies, extra votes), or the URL with entropies. Both need this package on the "
        "rollout nodes. `--route url --agent entropy=none` needs nothing there and counts votes.",
    )
    parser.add_argument(
        "--data",
        type=Path,
        default=Path("data"),
        help="The folder that `dare-reward data prepare` wrote (default: data).",
    )
    parser.add_argument(
        "--out",
        type=Path,
        default=Path("runs"),
        help="The folder of the run: agent, model, checkpoints (default: runs).",
    )
    parser.add_argument("--model", default="", help="Train this local model instead of the recipe's.")
    parser.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="FLAG=VALUE",
        help="Set a flag of OpenRLHF, by its name since 0.10.2. You may repeat it.",
    )
    parser.add_argument(
        "--agent",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="Change a setting of the agent. You may repeat it.",
    )
    parser.add_argument(
        "--params",
        metavar="LINE",
        help="Use this method instead of the recipe's, as `dare-reward calibrate` prints it.",
    )
    parser.add_argument(
        "--openrlhf",
        metavar="VERSION",
        help="Compose for this release (default: the installed one, else the newest known).",
    )
    parser.add_argument("--force", action="store_true", help="Replace files of the agent that differ.")
    parser.add_argument("--dry-run", action="store_true", help="Print the command, one flag per line, and run nothing.")
    parser.add_argument("extra", nargs="*", help="Arguments after -- go to OpenRLHF unchanged.")
    parser.set_defaults(run=train)


def register_doctor(subparsers: Any) -> None:
    parser = add_command(
        subparsers,
        "doctor",
        examples=(
            "dare-reward doctor --reward-url http://HOST:8000",
            "dare-reward doctor --reward-url http://HOST:8000 --data data/aime24.jsonl data/aime24-eval.jsonl",
        ),
        exits="0 if every check passed, 2 if one failed.",
    )
    parser.add_argument(
        "--reward-url",
        default="http://127.0.0.1:8000",
        metavar="URL",
        help="The address of the reward service, or the whole address of OpenRLHF's flag. DARE_TOKEN holds the token.",
    )
    parser.add_argument("--method", help="The method that you will train with (default: the address's, or dare).")
    parser.add_argument(
        "--waiters", type=int, default=8192, help="How many rollouts may wait for a reward at once, on the URL route."
    )
    parser.add_argument("--timeout", type=float, default=5.0, help="Seconds to wait for the service (default: 5).")
    parser.add_argument(
        "--data", type=Path, nargs="+", default=[], metavar="FILE", help="Check the labels of these data sets too."
    )
    parser.add_argument("--label-key", default="label", help="The key of their labels (--data.label_key).")
    parser.set_defaults(run=doctor)


def register_data(subparsers: Any) -> None:
    prompts = "dare-reward data prepare mine --from prompts.jsonl"
    parser = add_command(subparsers, "data", examples=(prompts,))
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    prepare = add_command(
        actions,
        "prepare",
        "Write a file of prompts as OpenRLHF's JSON lines.",
        group=TRAINING,
        notes="""A name that is no benchmark of the recipes is a set of your own. Its prompts stand in `question`,
        `problem`, `prompt`, `query` or `input`, in any case. An answer is optional. With one you get
        an evaluation set too.""",
        examples=(
            prompts,
            "dare-reward data prepare aime24 --from aime_2024.json --out data",
            "dare-reward data prepare mine --from prompts.csv --kind choice --as-is",
        ),
    )
    prepare.add_argument("name", help="A name for your set, or mmlu-pro, math-500, aime24, amc, gpqa, math-train, ...")
    prepare.add_argument(
        "--from",
        dest="source",
        type=Path,
        required=True,
        metavar="FILE",
        help="Read this JSON, JSON lines, CSV or Parquet.",
    )
    prepare.add_argument("--kind", choices=get_args(Kind), help="How answers of your set compare.")
    prepare.add_argument(
        "--as-is", action="store_true", help="Do not ask for an answer in a box at the end of the prompts."
    )
    prepare.add_argument("--out", type=Path, default=Path("data"), help="The folder of the files (default: data).")
    prepare.add_argument("--force", action="store_true", help="Replace files that hold something else.")
    prepare.set_defaults(run=data)


def train(arguments: argparse.Namespace) -> int:
    if arguments.list is not None:
        return _list(arguments.list)
    recipe = find_recipe(arguments.recipe)
    if not arguments.reward_url:
        raise ConfigError("--reward-url is missing. Give the address of the reward service.")
    launch = _launch(arguments)
    flags, config = plan(recipe, launch)
    known = installed_flags() if launch.release == installed() else None
    words = command(flags, launch, known)
    shown = _shown(launch)
    on = f", on {data_set}" if (data_set := launch.changes.get("data.prompt_dataset")) else ""
    _say(f"# {recipe.title}{on}", shell(command(plan(recipe, shown)[0], shown, known)))
    if arguments.dry_run:
        if launch.route == "agent":
            warn(f"{flags['train.agent_func_path']} is written when you run this without --dry-run")
        elif config.token:
            warn(f"write your token in place of {PLACE}, or run this without --dry-run")
        if known is None:
            warn(f"OpenRLHF {launch.release} is not installed here: the flags were checked against {RELEASE}")
        return 0
    if installed() is None:
        raise ConfigError(
            "OpenRLHF is not installed in this environment: pip install openrlhf, or see Dockerfile.train"
        )
    for key in ("data.prompt_dataset", "eval.dataset"):
        if not Path(flags[key]).is_file():
            raise ConfigError(
                f"{flags[key]} is missing: dare-reward data prepare {recipe.benchmark} --from FILE --out {launch.data}"
            )
        check_labels(Path(flags[key]), str(flags.get("data.label_key", "label")))
    handshake(replace(config, start_timeout=10.0))
    prepare_folder(flags, config, force=arguments.force)
    environment = {**os.environ} | ({"DARE_TOKEN": config.token} if config.token else {})
    return subprocess.run([sys.executable, *words[1:]], check=False, env=environment).returncode  # noqa: S603


def _list(words: Sequence[str]) -> int:
    """The parts of a recipe's name, or the recipes whose names hold every word."""
    if words:
        names = [name for name in recipes.names() if all(w.lower() in name for w in words)]
        if not names:
            raise ConfigError(f"no recipe holds {' and '.join(words)}; `dare-reward train --list` shows what there is")
        listed = map(find_recipe, names)
        _say(table(("recipe", "backbone | row | benchmark"), [[r.name, r.title] for r in listed]))
        return 0
    parts = recipes.parts()
    _say(
        f"{len(recipes.names())} recipes: BENCHMARK-BACKBONE trains DARE, BENCHMARK-BACKBONE-ROW another row.",
        *(f"\n{table((what, 'stands for'), [[n, t] for n, t in known.items()])}" for what, known in parts.items()),
        "\n`dare-reward train --list aime24 qwen3` lists the recipes whose names hold both words.",
    )
    return 0


def _shown(launch: Launch) -> Launch:
    """The same, for a command that is printed: without the token, and named anew by each shell that runs it."""
    hidden = {"token": PLACE} if launch.agent.get("token") else {}
    return replace(launch, agent={**launch.agent, **hidden}, job=JOB)


def _launch(arguments: argparse.Namespace) -> Launch:
    settings = dict(map(_pair, arguments.agent)) | ({"params": arguments.params} if arguments.params else {})
    url, url_token = service_address(arguments.reward_url or "http://127.0.0.1:8000")
    tokens = url_token or os.environ.get("DARE_TOKEN") or ""
    token = {"token": tokens.split()[0]} if tokens.split() else {}
    return Launch(
        url=url,
        route=arguments.route,
        data=arguments.data,
        out=arguments.out,
        model=arguments.model,
        release=arguments.openrlhf or installed() or RELEASE,
        changes=dict(_pair(text) for text in arguments.set),
        agent=token | {name: parse_setting(name, value) for name, value in with_line(settings).items()},
        extra=arguments.extra,
    )


def _pair(text: str) -> tuple[str, Any]:
    name, sign, value = text.partition("=")
    if not sign or not name:
        raise ConfigError(f"{text!r}: must be NAME=VALUE")
    return name, {"true": True, "false": False}.get(value, value)


def doctor(arguments: argparse.Namespace) -> int:
    config = replace(
        asked(read_config(Path.cwd()), arguments.reward_url, arguments.method),
        timeout=arguments.timeout,
        retries=0,
        start_timeout=arguments.timeout,
    )
    findings = []
    for finding in examine(
        config,
        waiters=arguments.waiters,
        address=arguments.reward_url,
        data=arguments.data,
        label_key=arguments.label_key,
    ):
        findings.append(finding)
        _say(str(finding))
    return 2 if any(f.good is False for f in findings) else 0


def data(arguments: argparse.Namespace) -> int:
    ledger = Ledger()
    try:
        written = prepare(
            arguments.name,
            arguments.source,
            arguments.out,
            kind=arguments.kind,
            as_is=arguments.as_is,
            force=arguments.force,
            ledger=ledger,
        )
    except (DareError, OSError) as error:
        raise ConfigError(str(error)) from None
    if ledger.lost or ledger["dropped"]:
        _say(f"questions: {ledger.sentence}")
    _say(*(f"{arguments.out / name}: {count} prompt{'s' * (count != 1)}" for name, count in written.items()))
    if benchmark_facts(arguments.name) is None:
        stem, evaluation = arguments.out / arguments.name, f"{arguments.name}-eval.jsonl"
        flags = f"--set data.prompt_dataset={stem}.jsonl"
        if evaluation in written:
            flags += f" --set eval.dataset={arguments.out / evaluation}"
        else:
            _say(f"{evaluation} was not written: not every row has an answer ({', '.join(OWN['answer'])}).")
        _say(f"{arguments.name} is a set of your own. Train on it with `dare-reward train --recipe ... {flags}`.")
    return ledger.exit_code


def _say(*lines: str) -> None:
    print("\n".join(lines), flush=True)  # noqa: T201
