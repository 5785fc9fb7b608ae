"""Subcommands of `dare-reward`: doctor, data."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any, get_args

from dare_reward.answers import Kind
from dare_reward.commands.command import add_command, add_count, add_flags
from dare_reward.errors import ConfigError, DareError, counted
from dare_reward.ledger import Ledger
from dare_reward.params import Spec

from .data import prepare
from .doctor import examine
from .questions import OWN


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
        help="OpenRLHF's flag: the address of the reward service and its query (default: "
        "http://127.0.0.1:8000). DARE_TOKEN holds the token.",
    )
    add_count(parser, "waiters", "How many rollouts may wait for a reward at once, if the URL has group_size", 8192)
    add_flags(parser, [Spec("Seconds to wait for the service", ge=0, name="timeout", type=float, default=5.0)])
    parser.add_argument(
        "--data", type=Path, nargs="+", default=[], metavar="FILE", help="Check the labels of these data sets too."
    )
    parser.add_argument(
        "--label-key", default="label", help="The key of their labels, --data.label_key (default: label)."
    )
    parser.set_defaults(run=doctor)


def register_data(subparsers: Any) -> None:
    prompts = "dare-reward data prepare mine --from prompts.jsonl"
    parser = add_command(subparsers, "data", examples=(prompts,))
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    prepare = add_command(
        actions,
        "prepare",
        "Write a file of prompts as OpenRLHF's JSON lines.",
        notes="""A name that is no benchmark of the recipes is a set of your own. Its prompts stand in `question`,
        `problem`, `prompt`, `query` or `input`, in upper or lower case. An answer is optional. With one you get
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


def doctor(arguments: argparse.Namespace) -> int:
    """Print each finding as soon as it is there."""
    findings = []
    for finding in examine(
        arguments.reward_url,
        waiters=arguments.waiters,
        timeout=arguments.timeout,
        data=arguments.data,
        label_key=arguments.label_key,
    ):
        findings.append(finding)
        _say(str(finding))
    return 2 if any(f.good is False for f in findings) else 0


def data(arguments: argparse.Namespace) -> int:
    ledger = Ledger()
    try:
        written, left_out = prepare(
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
    if left_out:
        _say(f"left out, for no prompt and no label is made of them: {', '.join(left_out)}")
    _say(*(f"{arguments.out / name}: {counted(count, 'prompt')}" for name, count in written.items()))
    if f"{arguments.name}-eval.jsonl" not in written:
        _say(f"{arguments.name}-eval.jsonl was not written: not every row has an answer ({', '.join(OWN['answer'])}).")
    train, *evaluation = (arguments.out / name for name in written)
    flags = "".join(f" --eval.dataset {path}" for path in evaluation)
    _say(f"OpenRLHF's flags: --data.prompt_dataset {train}{flags} --data.input_key input --data.label_key label")
    return ledger.exit_code


def _say(*lines: str) -> None:
    print("\n".join(lines), flush=True)  # noqa: T201
