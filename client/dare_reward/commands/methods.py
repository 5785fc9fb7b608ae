"""`dare-reward methods [NAME]`: the estimators and their parameters, from the registry."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Any

from dare_reward.methods import Method, find, methods
from dare_reward.params import Spec
from dare_reward.request import ANSWER_SPECS
from dare_reward.tables import table

__all__ = ["markdown", "register"]


def register(subparsers: Any) -> None:
    parser: argparse.ArgumentParser = subparsers.add_parser("methods", help="list the estimators, or one's parameters")
    parser.add_argument("name", nargs="?", help="a method")
    parser.add_argument("--markdown", action="store_true", help="as the tables of the documentation")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    if arguments.name is None:
        print(
            _render(
                arguments, ("method", "what", "needs", "paper", "evidence"), [_method(m) for m in methods().values()]
            )
        )
        return 0
    method = find(arguments.name)
    print(f"{method.name}: {method.summary} [{method.paper}; {method.evidence}]\n")
    print(
        _render(arguments, ("parameter", "default", "accepts", "meaning", "source"), [_spec(s) for s in method.specs])
    )
    if "answer" in method.requires:
        print("\nhow answers are read and compared\n")
        print(
            _render(
                arguments, ("parameter", "default", "accepts", "meaning", "source"), [_spec(s) for s in ANSWER_SPECS]
            )
        )
    return 0


def markdown(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A Markdown table."""
    cells = [[c.replace("|", "\\|").replace("\n", " ") for c in row] for row in rows]
    return "\n".join(f"| {' | '.join(row)} |" for row in (head, ["---"] * len(head), *cells))


def _render(arguments: argparse.Namespace, head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    return markdown(head, rows) if arguments.markdown else table(head, rows)


def _method(m: Method) -> list[str]:
    return [m.name, m.summary, ", ".join(m.requires), m.paper, m.evidence]


def _spec(s: Spec) -> list[str]:
    default = "required" if s.required else str(s.default).lower() if s.type is bool else str(s.default)
    return [s.name, default, s.accepts, s.doc, s.source]
