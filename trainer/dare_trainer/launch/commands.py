"""Subcommands of `dare-reward`: train, doctor, data."""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

from dare_reward.errors import ConfigError, DareError

__all__ = ["register_data", "register_doctor", "register_train"]


def register_train(subparsers: Any) -> None:
    parser: argparse.ArgumentParser = subparsers.add_parser(
        "train",
        help="compose and run an OpenRLHF training command",
        description="Compose an OpenRLHF command from a recipe, check, print, run.",
    )
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument(
        "--recipe", help="BENCHMARK-BACKBONE[-ROW], such as aime24-qwen2.5-math-1.5b or amc-qwen3-1.7b-ttrl"
    )
    what.add_argument("--table", help="all recipes of a table: main, ablation, large, forms (with --dry-run)")
    what.add_argument("--list", action="store_true", help="the names of all recipes")
    parser.add_argument("--reward-url", help="the reward service, http://HOST:PORT")
    parser.add_argument(
        "--route",
        choices=["agent", "url"],
        default="agent",
        help="agent: exact entropies and extra votes; url: nothing on the nodes",
    )
    parser.add_argument(
        "--data", type=Path, default=Path("data"), help="folder of the prepared sets (dare-reward data prepare)"
    )
    parser.add_argument("--out", type=Path, default=Path("runs"), help="folder of the run: agent, model, checkpoints")
    parser.add_argument("--model", default="", help="a local path instead of the recipe's model")
    parser.add_argument(
        "--set", action="append", default=[], metavar="FLAG=VALUE", help="an OpenRLHF flag, by its name since 0.10.2"
    )
    parser.add_argument(
        "--agent",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="a setting of the agent (docs/openrlhf-agent.md)",
    )
    parser.add_argument(
        "--params",
        metavar="LINE",
        help="another method than the recipe's, as `dare-reward calibrate` prints it (short for --agent params=LINE)",
    )
    parser.add_argument(
        "--openrlhf",
        metavar="VERSION",
        help="compose for this release; default: the installed one, else the newest known",
    )
    parser.add_argument("--force", action="store_true", help="replace files of the agent that differ")
    parser.add_argument("--dry-run", action="store_true", help="print the command and do nothing")
    parser.add_argument("extra", nargs="*", help="after --: arguments for OpenRLHF as they are")
    parser.set_defaults(run=train)


def register_doctor(subparsers: Any) -> None:
    parser: argparse.ArgumentParser = subparsers.add_parser(
        "doctor", help="check this node: service, versions, plugin, limits"
    )
    parser.add_argument("--reward-url", default="http://127.0.0.1:8000", help="the reward service")
    parser.add_argument("--method", default="dare")
    parser.add_argument(
        "--waiters", type=int, default=8192, help="rollouts that may wait for a reward at once on the URL route"
    )
    parser.add_argument("--timeout", type=float, default=5.0, help="seconds to wait for the service")
    parser.add_argument(
        "--data", type=Path, nargs="+", default=[], metavar="FILE", help="data sets for OpenRLHF: check their labels"
    )
    parser.add_argument("--label-key", default="label", help="where their rows have it (--data.label_key)")
    parser.set_defaults(run=doctor)


def register_data(subparsers: Any) -> None:
    parser: argparse.ArgumentParser = subparsers.add_parser("data", help="prepare a benchmark for OpenRLHF")
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    prepare: argparse.ArgumentParser = actions.add_parser("prepare", help="local file -> OpenRLHF's JSONL")
    prepare.add_argument("name", help="mmlu-pro, math-500, aime24, amc, gpqa, or a labelled set such as math-train")
    prepare.add_argument(
        "--from", dest="source", type=Path, required=True, metavar="FILE", help="JSON, JSON lines, CSV or Parquet"
    )
    prepare.add_argument("--out", type=Path, default=Path("data"), help="folder of the files (default data)")
    prepare.add_argument("--force", action="store_true", help="replace files that hold something else")
    parser.set_defaults(run=data)


def train(arguments: argparse.Namespace) -> int:
    from . import recipes  # noqa: PLC0415

    if arguments.list:
        _say(*recipes.names())
        return 0
    if arguments.table:
        if not arguments.dry_run:
            raise ConfigError("--table lists commands: add --dry-run, and run those that you want")
        return _list_table(arguments)
    if not arguments.reward_url:
        raise ConfigError("--reward-url is missing: where does the reward service listen?")
    return _train(arguments)


def _train(arguments: argparse.Namespace) -> int:
    from ..agent.scoring import handshake  # noqa: PLC0415
    from .compose import command, plan, prepare_folder, shell  # noqa: PLC0415
    from .data import check_labels  # noqa: PLC0415
    from .flags import installed, installed_flags  # noqa: PLC0415
    from .recipes import find_recipe  # noqa: PLC0415

    recipe, launch = find_recipe(arguments.recipe), _launch(arguments)
    if recipe.unavailable:
        raise ConfigError(f"{recipe.name}: {recipe.unavailable}")
    flags, config = plan(recipe, launch)
    known = installed_flags() if launch.release == installed() else None
    words = command(flags, launch, known)
    _say(f"# {recipe.title}", shell(words))
    if arguments.dry_run:
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


def _list_table(arguments: argparse.Namespace) -> int:
    from .compose import command, plan, shell  # noqa: PLC0415
    from .recipes import table  # noqa: PLC0415

    launch = _launch(arguments)
    missing = 0
    for recipe in table(arguments.table):
        note = "" if recipe.train else " (evaluation only)"
        if recipe.unavailable:
            missing += 1
            _say(f"# {recipe.title}: {recipe.unavailable}")
        else:
            _say(f"# {recipe.title}{note}", shell(command(plan(recipe, launch)[0], launch)))
    return 1 if missing else 0


def _launch(arguments: argparse.Namespace) -> Any:
    from ..agent.config import parse_setting, with_line  # noqa: PLC0415
    from .compose import NEWEST, Launch  # noqa: PLC0415
    from .flags import installed  # noqa: PLC0415

    given = dict(map(_pair, arguments.agent)) | ({"params": arguments.params} if arguments.params else {})
    tokens = os.environ.get("DARE_TOKEN") or os.environ.get("DARE_AGENT_TOKEN") or ""  # the second is the old name
    token = {"token": tokens.split()[0]} if tokens.split() else {}
    return Launch(
        url=arguments.reward_url or "http://127.0.0.1:8000",
        route=arguments.route,
        data=arguments.data,
        out=arguments.out,
        model=arguments.model,
        release=arguments.openrlhf or installed() or NEWEST,
        changes=dict(_pair(text) for text in arguments.set),
        agent=token | {name: parse_setting(name, value) for name, value in with_line(given).items()},
        extra=arguments.extra,
    )


def _pair(text: str) -> tuple[str, Any]:
    name, sign, value = text.partition("=")
    if not sign or not name:
        raise ConfigError(f"{text!r}: must be NAME=VALUE")
    return name, {"true": True, "false": False}.get(value, value)


def doctor(arguments: argparse.Namespace) -> int:
    from ..agent.config import read_config  # noqa: PLC0415
    from .doctor import examine  # noqa: PLC0415

    here = read_config(Path.cwd())
    config = replace(
        here,
        url=arguments.reward_url,
        method=arguments.method,
        timeout=arguments.timeout,
        retries=0,
        start_timeout=arguments.timeout,
    )
    findings = []
    for finding in examine(config, waiters=arguments.waiters, data=arguments.data, label_key=arguments.label_key):
        findings.append(finding)
        _say(str(finding))
    return 2 if any(f.good is False for f in findings) else 0


def data(arguments: argparse.Namespace) -> int:
    from .data import prepare  # noqa: PLC0415

    try:
        written = prepare(arguments.name, arguments.source, arguments.out, force=arguments.force)
    except (DareError, OSError) as error:
        raise ConfigError(str(error)) from None
    _say(*(f"{arguments.out / name}: {count} prompts" for name, count in written.items()))
    return 0


def _say(*lines: str) -> None:
    print("\n".join(lines), flush=True)  # noqa: T201
