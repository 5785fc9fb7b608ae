"""The registry of methods, and what a request may ask of them.

A method is a pure function `f(groups, *, parameters) -> Estimate` in a module of `dare_reward.estimators`, with a
`METHODS` tuple beside it that names it. Adding one is one file: the registry finds it, and validation, `GET /methods`,
the command line and the documentation are made from its entry and its signature. Other packages add modules by entry
points of the group `dare_reward.methods`.
"""

from __future__ import annotations

import hashlib
import importlib
import json
import pkgutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property, lru_cache
from types import MappingProxyType
from typing import Any, Final
from urllib.parse import urlencode

from .answers import ANSWERS_VERSION
from .answers.rollouts import ANSWER_SPECS
from .errors import ConfigError, RequestError, unknown_value
from .estimators.method import Method
from .params import Spec, parse, query_texts, resolve

EXPERIMENTAL = Spec(
    name="allow_experimental",
    type=bool,
    default=False,
    doc="accept a method with constants or signs that could not be verified",
    source="docs/methods.md",
)


GROUP: Final = "dare_reward.methods"
# What people call a method: accepted wherever a method is named; the reply has the method's own name.
OTHER_NAMES: Final[Mapping[str, str]] = MappingProxyType({"majority": "ttrl", "majority_vote": "ttrl"})


@cache
def methods() -> Mapping[str, Method]:
    """Every method by name: dare and its presets, the others in the order of their modules, those of other packages.

    Raises:
        ConfigError: another package brings a name that is taken.
    """
    from importlib.metadata import entry_points  # noqa: PLC0415  (a tenth of the package's import)

    estimators = importlib.import_module(".estimators", __package__)
    modules = [
        importlib.import_module(f"{estimators.__name__}.{m.name}") for m in pkgutil.iter_modules(estimators.__path__)
    ]
    modules.sort(key=lambda module: not module.__name__.endswith(".dare"))
    by_name = {m.name: m for module in modules for m in getattr(module, "METHODS", ())}
    for entry in sorted(entry_points(group=GROUP), key=lambda e: e.name):
        for method in entry.load().METHODS:
            if method.name in by_name or method.name in OTHER_NAMES:
                raise ConfigError(
                    f"{entry.value} brings a method {method.name!r}, which is there: uninstall one of both"
                )
            by_name[method.name] = method
    return MappingProxyType(by_name)


def find(name: str, *, loc: tuple[str | int, ...] = ("method",)) -> Method:
    try:
        return methods()[OTHER_NAMES.get(name, name)]
    except (KeyError, TypeError):
        raise RequestError(
            unknown_value("method", str(name).lower(), [*methods(), *OTHER_NAMES]), loc=loc, code="method"
        ) from None


def specs(method: Method, *, shadow: Sequence[str] = ()) -> tuple[Spec, ...]:
    """All parameters that a request with this method may set."""
    experimental = method.experimental or any(find(s, loc=("shadow",)).experimental for s in shadow)
    return (*method.specs, *ANSWER_SPECS, *((EXPERIMENTAL,) if experimental else ()))


@dataclass(frozen=True, eq=False)
class Configured:
    """A method with the value of each parameter that a request may set."""

    method: Method
    values: Mapping[str, Any]

    @cached_property
    def id(self) -> str:
        return config_id(self.method.name, self.values)

    @cached_property
    def params(self) -> Mapping[str, Any]:
        """The method's own."""
        return {s.name: self.values[s.name] for s in self.method.specs}

    @cached_property
    def reading(self) -> Mapping[str, Any]:
        """Those of the answers."""
        return {s.name: self.values[s.name] for s in ANSWER_SPECS}


def settle(
    method: str, params: Mapping[str, Any], *, shadow: Sequence[str] = (), seed: int | None = None
) -> Configured:
    """The method of that name with the value of each of its parameters, or RequestError."""
    if not isinstance(shadow, list | tuple) or len(set(shadow)) < len(shadow):
        find(method)
        raise RequestError("is a list of different names", loc=("shadow",), code="shadow")
    try:
        hash((seed, *params.values()))
    except TypeError:  # a list, which is no value of any
        return _settle.__wrapped__(method, tuple(shadow), seed, **params)
    return _settle(method, tuple(shadow), seed, **params)


def with_defaults(defaults: Mapping[str, Any], params: Mapping[str, Any], seed: int | None) -> dict[str, Any]:
    """A request's parameters, and an operator's where it has none. `seed`: the request's, beside its parameters."""
    return {name: v for name, v in defaults.items() if seed is None or name != "seed"} | dict(params)


@lru_cache(maxsize=256, typed=True)  # a run settles the same ones with every request
def _settle(method: str, shadow: tuple[str, ...], seed: int | None, /, **params: Any) -> Configured:
    chosen = find(method)
    if seed is not None and any(s.name == "seed" for s in chosen.specs):
        if "seed" in params:
            raise RequestError("is given as a parameter too", loc=("seed",), code="conflict")
        params["seed"] = seed
    values = resolve(specs(chosen, shadow=shadow), params, loc=("params",))
    _check_experimental([method, *shadow], allowed=values.get(EXPERIMENTAL.name, False))
    for name in shadow:
        if required := [s.name for s in find(name).specs if s.required]:
            message = (
                f"{name} has parameters without a default ({', '.join(required)}): it can be the method, not a shadow"
            )
            raise RequestError(message, loc=("shadow",), code="shadow")
    return Configured(chosen, values)


def config_id(method: str, values: Mapping[str, Any]) -> str:
    """sha256 of the method, the value of each parameter but the seed, and the version of the answer keys."""
    settled = {k: v for k, v in sorted(values.items()) if k != "seed"}
    content = json.dumps([method, settled, ANSWERS_VERSION], separators=(",", ":"))
    return hashlib.sha256(content.encode()).hexdigest()


def write_line(method: str, params: Mapping[str, Any]) -> str:
    """A method with parameters in one line, in the form of a URL's query: `method=calibrated_vote&exponent=4`."""
    return urlencode({"method": method, **{k: _written(v) for k, v in params.items()}})


def read_line(text: str) -> tuple[str, dict[str, Any]]:
    """The method and its parameters, typed and checked, of a line that `write_line` writes; RequestError."""
    texts = query_texts(text.strip(), loc=("params",))
    if "method" not in texts:
        message = f"{text[:80]!r}: must be method=NAME&PARAMETER=VALUE, as `dare-reward calibrate` prints it"
        raise RequestError(message, loc=("params",), code="line")
    method = find(texts.pop("method"))
    typed = parse(specs(method), texts, loc=("params",))
    settle(method.name, typed)
    return method.name, typed


def _written(value: Any) -> str:
    if isinstance(value, bool) or value is None:
        return str(value).lower()
    return f"{value:.15g}" if isinstance(value, float) else str(value)


def _check_experimental(names: Sequence[str], *, allowed: bool) -> None:
    if not allowed and (unproven := [n for n in names if find(n).experimental]):
        unverified = "; ".join(f"{n}: {find(n).unverified}" for n in unproven)
        raise RequestError(
            f"experimental ({unverified}): set allow_experimental=true to use it, and do not report it as the paper's",
            loc=("params", EXPERIMENTAL.name),
            code="experimental",
        )


def require_rewards(method: Method, *, consumer: str) -> None:
    """RequestError if `consumer`, which normalises what it gets, cannot take this method's output."""
    if method.output == "advantages":
        raise RequestError(
            f"{method.name} returns advantages and {consumer} would normalise them again, which undoes the method: "
            "use it where advantages are passed on unchanged, or choose a method that returns rewards",
            loc=("method",),
            code="output",
        )


def require_steps(method: Method, params: Mapping[str, Any], *, consumer: str) -> None:
    """RequestError if the method needs all groups of a step together and `consumer` scores them one by one."""
    whole = method.whole_batch
    if whole is not None and whole.holds(params):
        raise RequestError(
            f"{whole.words} of {method.name} is over all groups of a step, and {consumer} scores one group a call, "
            f"where it would weigh all prompts alike: {whole.remedy}",
            loc=("params",),
            code="whole_batch",
        )


def require_every_rollout(
    method: Method,
    *,
    consumer: str,
    remedy: str = "use verl, slime with its post-process, or a method without a selection, such as ttrl",
) -> None:
    """RequestError if `consumer`, which trains on every rollout and token, cannot follow the method's selection."""
    if method.masks:
        remedy = "apply the reply's token_mask in a trainer of your own, or choose ttrl, which pays the same"
    if method.selects or method.masks:
        part, each = ("some tokens", "token") if method.masks else ("a selection of rollouts", "rollout")
        raise RequestError(
            f"{method.name} trains on {part}, and {consumer} trains on every {each}: {remedy}",
            loc=("method",),
            code="selection",
        )


def other_scale(method: Method, params: Mapping[str, Any]) -> str:
    """Why its rewards and those of gt have no common scale in one step; empty if they have one."""
    if method.pays_one and params.get("reward", "winner") == "winner":
        return ""
    return f"{method.name} rewards by shares, where gt rewards by 0 and 1: choose calibrated_vote or ttrl"


def require_scale(method: Method, *, consumer: str, remedy: str) -> None:
    """RequestError if `consumer` divides by a group's deviation what must keep its scale; `remedy` says what to set."""
    if method.keeps_scale:
        raise RequestError(
            f"{consumer} divides the rewards of a group by their deviation, which undoes {method.name}: {remedy}",
            loc=("method",),
            code="scale",
        )


def scale_unseen(method: Method, *, consumer: str, remedy: str) -> str:
    """The warning where nobody sees whether `consumer` divides by a group's deviation; empty if it may."""
    if not method.keeps_scale:
        return ""
    return (
        f"dividing a group's rewards by their deviation undoes {method.name}, and nothing here shows whether "
        f"{consumer} divides: {remedy}"
    )


def reads_entropy(method: str) -> bool:
    """Whether a method weighs rollouts by their entropies."""
    try:
        return "mean_entropy" in find(method).requires
    except RequestError:  # a plug-in that is not installed here
        return False
