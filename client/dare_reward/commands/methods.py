"""`dare-reward methods [NAME]`: the estimators and their parameters, from the registry.

Listed is what to choose from; `--all` adds presets, experimental methods and those that need reference answers.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from dare_reward.advantages import ADVANTAGES
from dare_reward.answers.rollouts import ANSWER_SPECS
from dare_reward.estimators.method import Method
from dare_reward.inputs import GROUP_FIELDS, ROLLOUT_FIELDS, Field
from dare_reward.methods import EXPERIMENTAL, find, methods
from dare_reward.params import Spec

from .command import add_command
from .tables import add_wide, screen_of, table, wrapped

METHOD_HEAD = ("method", "what", "needs", "paper", "evidence")
CHOICE_HEAD = ("method", "needs", "what that costs", "gives", "evidence", "not verified")
PARAMETER_HEAD = ("parameter", "default", "accepts", "meaning", "source")
INPUT_HEAD = ("input", "one per", "accepts", "meaning", "methods")
GROUP_INPUT_HEAD = ("input", "accepts", "meaning", "methods")
ADVANTAGE_HEAD = ("name", "formula", "OpenRLHF", "verl", "over")


def register(subparsers: Any) -> None:
    parser = add_command(
        subparsers,
        "methods",
        examples=(
            "dare-reward methods",
            "dare-reward methods dare  # its parameters",
            "dare-reward methods --choose  # what each needs and costs",
            "dare-reward methods --inputs  # what a rollout may hold",
        ),
    )
    parser.add_argument("name", nargs="?", help="Show the parameters of this method.")
    what = parser.add_mutually_exclusive_group()
    what.add_argument(
        "--choose", action="store_true", help="Show what each method needs, costs and returns, and what is unverified."
    )
    what.add_argument(
        "--inputs",
        nargs="?",
        const="rollout",
        choices=("rollout", "group"),
        help="List the inputs of a rollout (default) or of a group, and the methods that need them.",
    )
    what.add_argument(
        "--advantages", action="store_true", help="List the advantage estimators and their names in the stacks."
    )
    parser.add_argument(
        "--all", action="store_true", help="Include presets, experimental methods, and those that need references."
    )
    parser.add_argument("--markdown", action="store_true", help="Write Markdown, as in the documentation.")
    add_wide(parser)
    parser.set_defaults(run=run)


Render = Callable[[Sequence[str], Sequence[Sequence[str]]], str]


def run(arguments: argparse.Namespace) -> int:
    render: Render = markdown if arguments.markdown else partial(table, on=screen_of(arguments))
    if arguments.advantages:
        text = _advantages(render)
    elif arguments.inputs:
        text = _inputs(arguments.inputs, render)
    elif arguments.name is not None and not arguments.choose:
        text = _parameters(find(arguments.name), arguments, render)
    else:
        text = _listing(arguments, render)
    print(text)
    return 0


def _advantages(render: Render) -> str:
    of_methods = [
        [m.name, f"{m.name}'s own: `method={m.name}` only", "-", "-", "group" if m.whole_batch is None else "request"]
        for m in methods().values()
        if m.advantages
    ]
    of_stacks = [[a.name, a.formula, a.openrlhf, a.verl, a.over] for a in ADVANTAGES.values()]
    return render(ADVANTAGE_HEAD, [*of_stacks, PASS_AT_K, *of_methods])


def _inputs(of: str, render: Render) -> str:
    if of == "group":
        return render(GROUP_INPUT_HEAD, [_input(f) for f in GROUP_FIELDS.values() if f.doc])
    return render(INPUT_HEAD, [[f.name, f.unit, *_input(f)[1:]] for f in ROLLOUT_FIELDS.values()])


def _listing(arguments: argparse.Namespace, render: Render) -> str:
    listed = [m for m in methods().values() if m.offered or arguments.all]
    if arguments.choose:
        return render(CHOICE_HEAD, [_choice(m) for m in listed])
    hidden = len(methods()) - len(listed)
    more = "" if arguments.markdown or not hidden else f"\n\n--all lists {hidden} more"
    return render(METHOD_HEAD, [[m.name, m.summary, needs(m), m.paper, m.evidence] for m in listed]) + more


def _parameters(method: Method, arguments: argparse.Namespace, render: Render) -> str:
    """Of one method, and of the presets that share its function."""
    paper = f"{method.paper}; {method.evidence}" if method.paper else method.evidence
    parts = [wrapped(f"{method.name}: {method.summary} [{paper}]", screen_of(arguments))]
    presets = [m for m in methods().values() if m.defaults and m.function is method.function and m != method]
    if presets and not arguments.markdown:
        parts.append(render(("preset", "what"), [[m.name, m.summary] for m in presets]))
    consent = [EXPERIMENTAL] if method.experimental else []
    parts.append(render(PARAMETER_HEAD, [_spec(s) for s in [*method.specs, *consent]]))
    parts += ["how answers are read and compared", render(PARAMETER_HEAD, [_spec(s) for s in ANSWER_SPECS])]
    return "\n\n".join(parts)


def markdown(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A Markdown table."""
    cells = [[c.replace("|", "\\|").replace("\n", " ") for c in row] for row in rows]
    return "\n".join(f"| {' | '.join(row)} |" for row in (head, ["---"] * len(head), *cells))


def needs(m: Method) -> str:
    """The inputs in words: alternatives by "or", conditions in brackets."""
    always = [n.replace("|", " or ") for n in m.requires]
    sometimes = [f"{w.name.replace('|', ' or ')} ({w.words})" for w in m.when]
    return ", ".join([*always, *sometimes, *(f"{name} (optional)" for name in m.optional)])


def _choice(m: Method) -> list[str]:
    gives = f"{m.output}, advantages" if m.advantages else m.output
    return [m.name, needs(m), m.cost, gives, m.evidence, m.unverified or "-"]


def _input(f: Field) -> list[str]:
    needing = [m.name for m in methods().values() if f.name in m.inputs and not (m.defaults or m.experimental)]
    gives = f"; gives {f.gives[0]}" if f.gives else ""
    return [f.name, f.rule, f.doc + gives, ", ".join(needing) or "-"]


PASS_AT_K = ["pass@K", "A+ or A- of pass@K, from rewards of 0 and 1", "-", "-", "group"]


def _spec(s: Spec) -> list[str]:
    default = "required" if s.required else str(s.default).lower() if s.type is bool else str(s.default)
    return [s.name, default, s.accepts, s.doc, s.source]
