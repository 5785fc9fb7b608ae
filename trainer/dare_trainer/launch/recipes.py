"""The benchmarks that `dare-reward data prepare` and `measure` know by name."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from types import MappingProxyType
from typing import Any


@cache
def recipe_file(name: str) -> Mapping[str, Any]:
    """What `recipes/NAME.toml` says."""
    text = files(__package__).joinpath("recipes", f"{name}.toml").read_text(encoding="utf-8")
    return MappingProxyType(tomllib.loads(text))
