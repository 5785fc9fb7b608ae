"""`dare-reward study train`: the missing runs of a stage of the training study, resumed by the same command."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

from dare_reward.commands.command import add_command
from dare_reward.commands.help_index import AUTHORS
from dare_reward.errors import ConfigError, RequestError

from .publish import publish
from .results import Place
from .training.arms import ARMS, CAMPAIGN, DEFAULT, E1B, E1C, FULL, chosen_params
from .training.corpus import REGIMES
from .training.grpo_run import ParamValue
from .training.parts import PARTS, STAGE
from .training.plan import DEFAULT as DEFAULT_DESIGN
from .training.plan import DEVELOP_BASE, SMOKE, Cell, Design, cells, scaled
from .training.preregistered import registered
from .training.records import read_records, unpack
from .training.runner import run, service

# Prompts, bases and seeds of develop and pilot are never those of confirm.
STAGES: Final = ("pilot", "develop", "confirm", "sensitivity", "long", "campaign")
SETTABLE: Final = ("develop", "sensitivity")
SETS: Final = {"default": DEFAULT, "full": FULL, "campaign": CAMPAIGN, "e1b": E1B, "e1c": E1C}


def add_out(parser: argparse.ArgumentParser) -> None:
    words = "The folder of results/ and docs/ (default: research, from the root of a checkout)."
    parser.add_argument("--out", type=Path, default=Path("research"), help=words)


def add_train(actions: Any) -> None:
    parser = add_command(
        actions,
        "train",
        "Train small language models from scratch, without labels, through the service.",
        group=AUTHORS,
        examples=("dare-reward study train --list", "dare-reward study train --smoke --out /tmp/study"),
    )
    add = parser.add_argument
    add_out(parser)
    add(
        "--models",
        type=Path,
        help="The folder of the base models (default: .study, or OUT/bases for stage campaign).",
    )
    add("--part", choices=tuple(PARTS), help="A part of the campaign, with all the runs that its page plans.")
    add("--stage", choices=STAGES, help="The stage of the study (default: confirm).")
    add("--regimes", type=_names(REGIMES), help=f"Regimes of {', '.join(REGIMES)}, by commas (default: {REGIMES[0]}).")
    add("--arms", type=_arms, help=f"The arms {', '.join(SETS)} (default: default), or {', '.join(ARMS)} by commas.")
    add("--bases", type=int, help="Independently pretrained models (default: 4).")
    add("--seeds", type=int, help="RL seeds of each (default: 4).")
    add("--lr", type=_rates, help="Learning rates, by commas (default: the design's).")
    add("--temperature", type=float, help="The sampling temperature (default: 1).")
    add("--set", type=_pair, action="append", default=[], metavar="NAME=VALUE", help="Set a method's parameter.")
    add("--steps", type=int, help="RL steps (default: the design's).")
    add("--minutes", type=float, default=15.0, help="Start no run that would end later (default: 15).")
    add("--workers", type=int, default=2, help="Processes of one thread each (default: 2).")
    add("--url", help="A running service (default: start one).")
    add("--scale", type=float, default=1.0, help="Multiply model, prompts and steps, for a larger machine.")
    add("--smoke", action="store_true", help="Run every code path on tiny sizes.")
    add("--list", action="store_true", help="Print what would be run.")
    parser.set_defaults(run=run_train)


def run_train(arguments: argparse.Namespace) -> int:
    design = SMOKE if arguments.smoke else scaled(DEFAULT_DESIGN, arguments.scale)
    _complete(arguments, design)
    wanted = list(PARTS[arguments.part].cells()) if arguments.part else _wanted(arguments, design)
    campaign = arguments.stage == STAGE
    place = Place(arguments.out, "campaign" if campaign else "training")
    models = arguments.models or (place.bases if campaign and design == DEFAULT_DESIGN else Path(".study"))
    if arguments.list:
        done = {r["id"] for r in read_records(*place.records)}
        for cell in wanted:
            print(f"{'done' if cell.id in done else 'to do':6}{cell.id}")  # noqa: T201
        return 0
    if missing := [name for name in ("torch", "trl", "fastapi") if find_spec(name) is None]:
        raise ConfigError(f"the training study needs {missing[0]}: pip install -e . -e 'research[training]'")
    stamp = registered(place.page(_page(arguments))) if campaign else {}
    file = unpack(place)
    with service(arguments.url) as url:
        left = run(
            design, wanted, file=file, bases=models, url=url, stamp=stamp, packed=read_records(place.packed),
            workers=arguments.workers, seconds=60 * arguments.minutes, said=lambda line: print(line, flush=True),  # noqa: T201
        )  # fmt: skip
    print(f"{len(wanted) - left} of {len(wanted)} runs have results in {file}")  # noqa: T201
    if file.exists():
        publish(place)
    return 0


def _complete(arguments: argparse.Namespace, design: Design) -> None:
    """Defaults of what chooses runs; RequestError if a part is told what its page says."""
    defaults = {"stage": "confirm", "regimes": REGIMES[:1], "arms": DEFAULT, "bases": 4, "seeds": 4}
    if arguments.part:
        given = [
            name
            for name in (*defaults, "lr", "temperature", "steps", "set")
            if getattr(arguments, name) not in (None, [])
        ]
        if given or design != DEFAULT_DESIGN:
            raise RequestError(
                f"--part: its page says what is run; leave out --{given[0] if given else 'smoke and --scale'}",
                code="conflict",
            )
        arguments.stage = STAGE
    for name, value in defaults.items():
        if getattr(arguments, name) is None:
            setattr(arguments, name, value)


def _page(arguments: argparse.Namespace) -> str:
    """The page of the campaign that registers the part, or all of the arms."""
    if arguments.part:
        return PARTS[arguments.part].page
    pages = [{s for s in ARMS[arm].stages if s.startswith("campaign")} for arm in arguments.arms]
    if not (common := set.intersection(*pages)):
        raise RequestError(
            "--arms: a call of stage campaign runs arms that one page registers: campaign, e1b or e1c", code="conflict"
        )
    return min(common)


def _wanted(arguments: argparse.Namespace, design: Design) -> list[Cell]:
    first = DEVELOP_BASE if arguments.stage in {"pilot", "develop"} else 0
    given = {"temperature": arguments.temperature, "steps": arguments.steps}
    params = _params(arguments.arms, arguments.set)
    if params and arguments.stage not in SETTABLE:
        raise RequestError(
            f"--set: stage {arguments.stage} runs every arm at its own parameters; choose {' or '.join(SETTABLE)}",
            code="conflict",
        )
    settings = replace(design.settings, params=params, **{k: v for k, v in given.items() if v is not None})
    rates: Sequence[float] = arguments.lr or (settings.lr,)
    return list(
        cells(
            arguments.stage,
            regimes=arguments.regimes,
            bases=range(first, first + arguments.bases),
            arms=arguments.arms,
            seeds=range(arguments.seeds),
            settings=[replace(settings, lr=lr) for lr in rates],
        )
    )


def _params(arms: Sequence[str], given: Sequence[tuple[str, str]]) -> tuple[tuple[str, ParamValue], ...]:
    """By name, for every arm or none: runs of one call differ by the arm alone."""
    texts = dict(given)
    if len(texts) < len(given):
        raise RequestError("--set: one value of a parameter in one call", code="conflict")
    params: dict[str, ParamValue] = {}
    for arm in arms:
        try:
            params.update(chosen_params(ARMS[arm], texts))
        except RequestError as error:
            raise RequestError(f"--set: {error.message}", code=error.code) from None
    return tuple(sorted(params.items()))


def _names(known: Sequence[str]) -> Any:
    def parse(text: str) -> tuple[str, ...]:
        names = tuple(text.split(","))
        if unknown := [n for n in names if n not in known]:
            raise argparse.ArgumentTypeError(f"{unknown[0]!r} is none of {', '.join(known)}")
        return names

    return parse


def _arms(text: str) -> tuple[str, ...]:
    return SETS[text] if text in SETS else tuple(_names(tuple(ARMS))(text))


def _pair(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not (name and equals):
        raise argparse.ArgumentTypeError(f"{text!r}: write NAME=VALUE")
    return name, value


def _rates(text: str) -> tuple[float, ...]:
    try:
        return tuple(map(float, text.split(",")))
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r}: numbers with commas between") from None
