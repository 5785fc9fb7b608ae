"""What a method is, and the registry of them.

A method is a pure function `f(groups, *, parameters) -> Estimate` in a module of `dare_reward.estimators`, with a
`METHODS` tuple beside it that names it. Adding one is one file: the registry finds it, and validation, `GET /methods`,
the command line and the documentation are made from its signature.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from types import MappingProxyType
from typing import Any, Literal

from .errors import GroupError, RequestError
from .groups import Groups
from .params import Spec, parameters, resolve
from .segments import Bools, Floats

__all__ = ["Estimate", "Evidence", "Method", "find", "methods"]

Evidence = Literal["verified against official code", "from the paper", "experimental"]
NOTHING: Mapping[Any, Any] = MappingProxyType({})


@dataclass(frozen=True, slots=True, eq=False)
class Estimate:
    """What a method says of a batch. Arrays are over rollouts (R), answers (A) or groups (P) of the batch.

    rewards_R   one finite value per rollout
    keep_R      the rollout's answer was not pruned
    support_A   columns of the support table: kept, reward, and what the method computes of p_hat, p, bonus, uncertainty
                (NaN: not defined)
    flags_P     named conditions of a group
    errors      groups that cannot be scored, by index
    label_A     answers that may be the pseudo-label, if that is not every kept one
    used_entropy_P   entropies entered this group's rewards
    """

    rewards_R: Floats
    keep_R: Bools
    support_A: Mapping[str, Floats | Bools]
    used_entropy_P: Bools
    flags_P: Mapping[str, Bools] = field(default_factory=lambda: NOTHING)
    errors: Mapping[int, GroupError] = field(default_factory=lambda: NOTHING)
    label_A: Bools | None = None


@dataclass(frozen=True, slots=True)
class Method:
    """A registry entry. `defaults` are what a preset changes in the function's own defaults."""

    name: str
    function: Callable[..., Estimate]
    summary: str
    paper: str
    evidence: Evidence
    requires: tuple[str, ...] = ("answer",)
    output: Literal["rewards", "advantages"] = "rewards"
    defaults: Mapping[str, Any] = field(default_factory=lambda: NOTHING)

    @property
    def specs(self) -> tuple[Spec, ...]:
        """The parameters, with this preset's defaults."""
        own = parameters(self.function)
        return tuple(replace(s, default=self.defaults.get(s.name, s.default)) for s in own)

    def resolve(self, params: Mapping[str, Any]) -> dict[str, Any]:
        return resolve(self.specs, params, loc=("params",))

    def __call__(self, groups: Groups, **params: Any) -> Estimate:
        return self.function(groups, **self.resolve(params))


@cache
def methods() -> Mapping[str, Method]:
    """Every method by name, in the order of their modules."""
    estimators = importlib.import_module(".estimators", __package__)
    modules = [
        importlib.import_module(f"{estimators.__name__}.{m.name}") for m in pkgutil.iter_modules(estimators.__path__)
    ]
    return MappingProxyType({m.name: m for module in modules for m in getattr(module, "METHODS", ())})


def find(name: str) -> Method:
    try:
        return methods()[name]
    except KeyError:
        known = ", ".join(methods())
        raise RequestError(f"unknown method {name[:64]!r}; known: {known}", loc=("method",), code="method") from None
