"""Recipes: benchmark x backbone x row of the paper's tables, composed from the small files in `recipes/`.

A name is `BENCHMARK-BACKBONE` (the row dare) or `BENCHMARK-BACKBONE-ROW`, such as `aime24-qwen2.5-math-1.5b-ttrl`.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files
from itertools import product
from types import MappingProxyType
from typing import Any

from dare_reward.errors import ConfigError

NOTHING: Mapping[str, Any] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Recipe:
    """A run. `flags` are OpenRLHF's by their names since 0.10.2, without paths; `agent` are the agent's settings."""

    name: str
    benchmark: str
    title: str
    model: str
    data: str
    evaluation: str
    method: str
    params: Mapping[str, Any] = field(default_factory=lambda: NOTHING)
    flags: Mapping[str, Any] = field(default_factory=lambda: NOTHING)
    agent: Mapping[str, Any] = field(default_factory=lambda: NOTHING)


@cache
def recipe_file(name: str) -> Mapping[str, Any]:
    """What `recipes/NAME.toml` says."""
    text = files(__package__).joinpath("recipes", f"{name}.toml").read_text(encoding="utf-8")
    return MappingProxyType(tomllib.loads(text))


def rows() -> tuple[str, ...]:
    """Every row, the functional forms spelled out."""
    return tuple(name for row in recipe_file("rows") for name in _spell(row))


@cache
def _parts_by_name() -> Mapping[str, tuple[str, str, str]]:
    every = product(recipe_file("benchmarks"), recipe_file("backbones"), rows())
    return {_name(*parts): parts for parts in every}


def names() -> tuple[str, ...]:
    """Every recipe."""
    return tuple(_parts_by_name())


def parts() -> Mapping[str, Mapping[str, str]]:
    """What a name is made of: benchmarks, backbones and rows, each with what it stands for."""
    forms = {"form-WEIGHT-BONUS": "the appendix's functional forms, such as form-sqrt-log_inv"}
    named = {n: e["title"] for n, e in recipe_file("rows").items() if "weights" not in e}
    return {
        "benchmark": {n: e["title"] for n, e in recipe_file("benchmarks").items()},
        "backbone": {n: e["path"] for n, e in recipe_file("backbones").items()},
        "row": named | forms,
    }


def find_recipe(name: str) -> Recipe:
    if parts_ := _parts_by_name().get(name.removesuffix("-dare")):
        return _compose(*parts_)
    raise ConfigError(
        f"unknown recipe {name!r}. A name is BENCHMARK-BACKBONE or BENCHMARK-BACKBONE-ROW. Benchmarks: "
        f"{', '.join(recipe_file('benchmarks'))}. Backbones: {', '.join(recipe_file('backbones'))}. Rows: "
        f"{', '.join(r for r in rows() if not r.startswith('form-'))}, form-WEIGHT-BONUS"
    )


def _name(benchmark: str, backbone: str, row: str) -> str:
    return f"{benchmark}-{backbone}" + ("" if row == "dare" else f"-{row}")


def _spell(row: str) -> list[str]:
    entry = recipe_file("rows")[row]
    if "weights" not in entry:
        return [row]
    return [f"{row}-{w}-{b}" for w, b in product(entry["weights"], entry["bonuses"])]


def _compose(benchmark: str, backbone: str, row: str) -> Recipe:
    setup, facts, model = recipe_file("setup"), recipe_file("benchmarks")[benchmark], recipe_file("backbones")[backbone]
    base, *form = row.split("-") if row.startswith("form-") else (row,)
    entry = recipe_file("rows")[base]
    params = dict(zip(("weight", "bonus"), form, strict=True)) if form else dict(entry.get("params", {}))
    flags = {
        **setup["flags"],
        "train.num_episodes": facts["episodes"],
        **model.get("flags", {}),
        **entry.get("flags", {}),
    }
    return Recipe(
        name=_name(benchmark, backbone, row),
        benchmark=benchmark,
        title=f"{model['title']} | {entry['title'].format(**params) if form else entry['title']} | {facts['title']}",
        model=model["path"],
        data=facts["labelled"] if entry.get("labelled") else benchmark,
        evaluation=f"{benchmark}-eval",
        method=entry.get("method", "ttrl"),
        params=MappingProxyType(params),
        flags=MappingProxyType(flags),
        agent=MappingProxyType({**setup["agent"], "kind": facts["kind"]}),
    )
