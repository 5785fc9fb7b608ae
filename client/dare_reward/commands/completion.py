"""`dare-reward completion SHELL`: a script that completes commands, flags and their choices on TAB."""

from __future__ import annotations

import argparse
from importlib import import_module
from typing import Any

from dare_reward.errors import ConfigError

from .command import add_command

SHELLS = ("bash", "zsh", "fish", "tcsh")
NOTES = """It needs the extra `cli`. Write the script again after an update, because it holds the commands and flags of
one version."""


def register(subparsers: Any, whole: argparse.ArgumentParser) -> None:
    """`whole` is the parser that the script describes."""
    parser = add_command(
        subparsers,
        "completion",
        notes=NOTES,
        examples=(
            "dare-reward completion bash > ~/.local/share/bash-completion/completions/dare-reward",
            'dare-reward completion zsh > "${fpath[1]}/_dare-reward"',
            "dare-reward completion fish > ~/.config/fish/completions/dare-reward.fish",
        ),
    )
    parser.add_argument("shell", choices=SHELLS, help="The shell that you use.")
    parser.set_defaults(run=lambda arguments: run(arguments.shell, whole, subparsers))


def run(shell: str, whole: argparse.ArgumentParser, subparsers: argparse.Action) -> int:
    try:
        shtab: Any = import_module("shtab")
    except ModuleNotFoundError:
        raise ConfigError("completion needs shtab; run pip install '.[cli]' in your checkout") from None
    subparsers.help = "command"  # what help lists by itself is no secret to the shell
    print(shtab.complete(whole, shell))
    return 0
