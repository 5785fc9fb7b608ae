"""Recipes: benchmark x backbone x row of the paper's tables, composed from the small files in `recipes/`.

A name is `BENCHMARK-BACKBONE` (the row dare) or `BENCHMARK-BACKBONE-ROW`, such as `aime24-qwen2.5-math-1.5b-ttrl`.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files
from itertools import product
from types import MappingProxyType
from typing import Any

from dare_reward import methods
from dare_reward.errors import ConfigError

from ..agent.config import CARRIED

NOTHING: Mapping[str, Any] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Recipe:
    """A run. `flags` are OpenRLHF's by their names since 0.10.2, without paths; `agent` are the agent's settings."""

    name: str
    benchmark: str
    backbone: str
    row: str
    title: str
    model: str
    data: str
    evaluation: str
    train: bool
    method: str
    params: Mapping[str, Any] = field(default_factory=lambda: NOTHING)
    flags: Mapping[str, Any] = field(default_factory=lambda: NOTHING)
    agent: Mapping[str, Any] = field(default_factory=lambda: NOTHING)
    beside: str = ""

    @property
    def unavailable(self) -> str:
        """Why the agent cannot run this row; empty if it can."""
        if not self.train:
            return ""
        if self.method not in methods():
            return f"the method {self.method} does not exist in this version"
        lacking = sorted(set(methods()[self.method].requires) - CARRIED)
        if lacking or self.beside:
            return f"the method {self.method} needs {self.beside or ', '.join(lacking)}, which the agent does not send"
        return ""


@cache
def recipe_file(name: str) -> Mapping[str, Any]:
    """What `recipes/NAME.toml` says."""
    text = files(__package__).joinpath("recipes", f"{name}.toml").read_text(encoding="utf-8")
    return MappingProxyType(tomllib.loads(text))


def tables() -> tuple[str, ...]:
    return tuple(recipe_file("tables"))


def rows() -> tuple[str, ...]:
    """Every row, the functional forms spelled out."""
    return tuple(name for row in recipe_file("rows") for name in _spell(row))


def names() -> tuple[str, ...]:
    """Every recipe."""
    return tuple(_name(b, m, r) for b, m, r in product(recipe_file("benchmarks"), recipe_file("backbones"), rows()))


def parts() -> Mapping[str, Mapping[str, str]]:
    """What a name is made of: benchmarks, backbones and rows, each with what it stands for."""
    forms = {"form-WEIGHT-BONUS": "the appendix's functional forms, such as form-sqrt-log_inv"}
    named = {n: e["title"] for n, e in recipe_file("rows").items() if "weights" not in e}
    return {
        "benchmark": {n: e["title"] for n, e in recipe_file("benchmarks").items()},
        "backbone": {n: e["path"] for n, e in recipe_file("backbones").items()},
        "row": named | forms,
    }


def table(name: str) -> Iterator[Recipe]:
    """The recipes of a table, backbone by backbone, row by row."""
    if name not in recipe_file("tables"):
        raise ConfigError(f"unknown table {name!r}. Known: {', '.join(tables())}")
    chosen = recipe_file("tables")[name]
    spelled = [r for row in chosen["rows"] for r in _spell(row)]
    for backbone, row, benchmark in product(chosen["backbones"], spelled, chosen["benchmarks"]):
        yield _compose(benchmark, backbone, row)


def find_recipe(name: str) -> Recipe:
    for benchmark, backbone in product(recipe_file("benchmarks"), recipe_file("backbones")):
        stem = f"{benchmark}-{backbone}"
        if name == stem:
            return _compose(benchmark, backbone, "dare")
        if name.startswith(f"{stem}-") and (row := name.removeprefix(f"{stem}-")) in rows():
            return _compose(benchmark, backbone, row)
    raise ConfigError(
        f"unknown recipe {name!r}. A name is BENCHMARK-BACKBONE or BENCHMARK-BACKBONE-ROW. Benchmarks: "
        f"{', '.join(recipe_file('benchmarks'))}. Backbones: {', '.join(recipe_file('backbones'))}. Rows: "
        f"{', '.join(r for r in rows() if not r.startswith('form-'))}, form-WEIGHT-BONUS"
    )


def benchmark_facts(name: str) -> Mapping[str, Any]:
    """The entry of a benchmark, or of the labelled set that belongs to one."""
    for key, facts in recipe_file("benchmarks").items():
        if name in {key, facts["labelled"]}:
            return dict(facts)
    known = [*recipe_file("benchmarks"), *dict.fromkeys(f["labelled"] for f in recipe_file("benchmarks").values())]
    raise ConfigError(f"unknown benchmark {name!r}. Known: {', '.join(known)}")


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
    train = entry.get("train", True)
    flags = {
        **setup["flags"],
        "train.num_episodes": facts["episodes"],
        **model.get("flags", {}),
        **entry.get("flags", {}),
    }
    if not train:
        flags |= {
            "actor.adam.lr": 0.0,
            "train.num_episodes": 1,
            "eval.steps": 1,
            "rollout.n_samples_per_prompt": 8,
            "train.batch_size": 64,
        }
    raw = "-raw" if entry.get("data") == "raw" else ""
    return Recipe(
        name=_name(benchmark, backbone, row),
        benchmark=benchmark,
        backbone=backbone,
        row=row,
        title=f"{model['title']} | {entry['title'].format(**params) if form else entry['title']} | {facts['title']}",
        model=model["path"],
        data=facts["labelled"] if entry.get("labelled") else benchmark if train else f"{benchmark}{raw}-probe",
        evaluation=f"{benchmark}{raw}-eval",
        train=train,
        method=entry.get("method", "ttrl"),
        params=MappingProxyType(params),
        flags=MappingProxyType(flags),
        agent=MappingProxyType(
            {**setup["agent"], "kind": facts["kind"], **({} if train else {"votes_per_prompt": 0, "entropy": "none"})}
        ),
        beside=entry.get("beside", ""),
    )
