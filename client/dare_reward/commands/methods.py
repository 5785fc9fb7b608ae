"""`dare-reward methods [NAME]`: the estimators and their parameters, from the registry.

Listed is what to choose from; `--all` adds presets, experimental methods and those that need reference answers.
"""

from __future__ import annotations

import argparse
from typing import Any

from dare_reward.answers.rollouts import ANSWER_SPECS
from dare_reward.estimators.method import Method
from dare_reward.methods import EXPERIMENTAL, find, methods
from dare_reward.params import Spec

from .command import add_command
from .tables import table, wrapped

METHOD_HEAD = ("method", "what", "needs", "what that costs", "gives", "evidence", "not verified", "paper")
PARAMETER_HEAD = ("parameter", "default", "accepts", "meaning", "source")


def register(subparsers: Any) -> None:
    parser = add_command(
        subparsers,
        "methods",
        examples=(
            "dare-reward methods",
            "dare-reward methods dare  # its parameters",
            "dare-reward methods | less -S  # what each needs and costs too, and what is not verified",
        ),
    )
    shown = parser.add_mutually_exclusive_group()
    shown.add_argument("name", nargs="?", help="Show the parameters of this method.")
    shown.add_argument(
        "--all", action="store_true", help="Include presets, experimental methods, and those that need references."
    )
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    if arguments.name is not None:
        print(_parameters(find(arguments.name)))
        return 0
    listed = [m for m in methods().values() if m.offered or arguments.all]
    print(table(METHOD_HEAD, [row(m) for m in listed]))
    if hidden := len(methods()) - len(listed):
        print(f"\n--all lists {hidden} more")
    return 0


def _parameters(method: Method) -> str:
    """Of one method, and of the presets that share its function."""
    paper = f"{method.paper}; {method.evidence}" if method.paper else method.evidence
    parts = [wrapped(f"{method.name}: {method.summary} [{paper}]")]
    presets = [m for m in methods().values() if m.defaults and m.function is method.function and m != method]
    if presets:
        parts.append(table(("preset", "what"), [[m.name, m.summary] for m in presets]))
    consent = [EXPERIMENTAL] if method.experimental else []
    parts.append(table(PARAMETER_HEAD, [parameter(s) for s in [*method.specs, *consent]]))
    parts += ["how answers are read and compared", table(PARAMETER_HEAD, [parameter(s) for s in ANSWER_SPECS])]
    return "\n\n".join(parts)


def needs(m: Method) -> str:
    """The inputs in words: alternatives by "or", conditions in brackets."""
    always = [n.replace("|", " or ") for n in m.requires]
    sometimes = [f"{w.name.replace('|', ' or ')} ({w.words})" for w in m.when]
    return ", ".join([*always, *sometimes, *(f"{name} (optional)" for name in m.optional)])


def row(m: Method) -> list[str]:
    """By METHOD_HEAD."""
    gives = f"{m.output}, advantages" if m.advantages else m.output
    return [m.name, m.summary, needs(m), m.cost, gives, m.evidence, m.unverified or "-", m.paper]


def parameter(s: Spec) -> list[str]:
    default = "required" if s.required else str(s.default).lower() if s.type is bool else str(s.default)
    return [s.name, default, s.accepts, s.doc, s.source]
