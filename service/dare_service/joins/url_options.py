"""The configuration of a run that rides in a URL's query string: all that `--remote_rm_url` lets a user say."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields
from difflib import get_close_matches
from functools import lru_cache
from typing import Any, Literal
from urllib.parse import parse_qsl, urlencode

from dare_reward.answers import Kind, option_letters
from dare_reward.errors import RequestError
from dare_reward.estimators.method import Method
from dare_reward.methods import (
    find,
    require_every_rollout,
    require_rewards,
    require_steps,
    settle,
    specs,
)
from dare_reward.openrlhf import is_distinct
from dare_reward.options import OPENRLHF_URL, OPTIONS
from dare_reward.params import Spec
from dare_reward.scoring.shadow_methods import needs

from ..settings import Settings

RUN = "NAME-$(date +%s)-$$"  # what a shell makes of it differs from job to job
TRIES = 5  # of OpenRLHF's client, each followed by a pause of a second
CARRIED = frozenset({"answer", "mean_entropy", "num_tokens"})


@dataclass(frozen=True, slots=True)
class Configuration:
    """How the rollouts of a run are grouped and scored."""

    method: str
    params: tuple[tuple[str, Any], ...]
    run: str = ""
    group_size: int | None = None
    kind: Kind = "math"
    options: tuple[str, ...] | None = None
    deadline: float = float("inf")
    on_deadline: str = "score"
    min_share: float = 0.5
    extra_logs: str = "on"
    label_policy: Literal["train", "eval"] = "train"
    entropy_source: str = "exact"
    entropy_mode: str = "unknown"
    shadow: tuple[str, ...] = ()
    distinct: bool = True  # no other job has the run's name
    text: str = field(init=False, compare=False, repr=False)  # what a group is looked up by: its hash is known

    def __post_init__(self) -> None:
        object.__setattr__(self, "text", repr(self))

    def __hash__(self) -> int:
        return hash(self.text)


@lru_cache(maxsize=1024)
def openrlhf(query: str, settings: Settings) -> Configuration:
    """What the query string of an OpenRLHF flag says. Cached: thousands of requests carry the same one."""
    route = Route("OpenRLHF", OPENRLHF_URL, CARRIED | {"label"}, absent={"missing_entropy": "frequency"})
    method, params, options = _split(query, settings, route)
    values = {s.name: s.default for s in OPENRLHF_URL.values()} | options
    longest = TRIES * settings.join_hold
    deadline = settings.join_deadline if values["deadline"] is None else values["deadline"]
    if deadline >= longest:
        raise RequestError(
            f"must be below {longest:g}: the client comes back {TRIES} times and is held {settings.join_hold:g} s each",
            loc=("query", "deadline"),
            code="parameter",
        )
    if (values["group_size"] or 1) > settings.max_rollouts:
        raise RequestError(
            f"at most {settings.max_rollouts} (DARE_MAX_ROLLOUTS)", loc=("query", "group_size"), code="parameter"
        )
    if values["min_share"] is None:
        values["min_share"] = settings.join_min_share
    values |= {"deadline": deadline, "run": values["run"] or "", "options": _letters(values["kind"], values["options"])}
    any_name = settings.join_runs == "any" and bool(values["run"])
    distinct = any_name or is_distinct(values["run"])
    return Configuration(method=method.name, params=params, distinct=distinct, **values)


def differences(one: Configuration, other: Configuration) -> list[str]:
    """The names of what two configurations differ in."""
    names = [f.name for f in fields(Configuration) if f.compare and getattr(one, f.name) != getattr(other, f.name)]
    if "method" in names or "params" not in names:  # another method has other parameters: its name says it
        return [name for name in names if name != "params"]
    own, theirs = dict(one.params), dict(other.params)
    values = [name for name in sorted({*own, *theirs}) if own.get(name, ...) != theirs.get(name, ...)]
    return [*values, *(name for name in names if name != "params")]


def pasteable(url: str, query: str, *, token: bool) -> str:
    """`url` with a group size and a run: what to paste behind the flag. `token`: with a place for it."""
    place = {"token": "TOKEN"} if token else {}
    texts = dict(parse_qsl(query, keep_blank_values=True))
    run = urlencode({"run": texts.pop("run")}) if "run" in texts else f"run={RUN}"  # for the shell to fill in
    size = urlencode({"group_size": texts.pop("group_size", 8)})
    return f"{url}?{'&'.join(filter(None, (size, run, urlencode({**texts, **place}, safe='/:'))))}"


@dataclass(frozen=True, slots=True)
class Route:
    """Who is rewarded, the URL's own parameters, what rollouts carry, and values for what nobody sets."""

    consumer: str
    own: Mapping[str, Spec]
    carried: frozenset[str]
    absent: Mapping[str, Any] = field(default_factory=dict)


def _split(query: str, settings: Settings, route: Route) -> tuple[Method, tuple[tuple[str, Any], ...], dict[str, Any]]:
    """The method, its parameters' values, and what the query says of the route's own parameters."""
    texts = _pairs(query)
    method = find(texts.pop("method", settings.method))
    require_rewards(method, consumer=route.consumer)
    require_every_rollout(method, consumer=route.consumer)
    _check_inputs(method, method.requires, route.carried)
    shadow = OPTIONS["shadow"].parse(texts.get("shadow", ""), loc=("query",))
    others = [find(name, loc=("query", "shadow")) for name in shadow]
    here = route.own
    # A name of both is the route's; the method's is METHOD.NAME.
    theirs = {f"{method.name}.{s.name}" if s.name in here else s.name: s for s in specs(method, shadow=shadow)}
    known = {**here, **theirs}
    params = {k: v for k, v in route.absent.items() if k in theirs}
    params.update(settings.default_params if method.name == settings.method else {})
    options: dict[str, Any] = {}
    for name, text in texts.items():
        if name not in known:
            raise _unknown(name, known)
        (options if name in here else params)[known[name].name] = known[name].parse(text, loc=("query",))
    values = settle(method.name, params, shadow=shadow).values
    require_steps(method, values, consumer=route.consumer)
    _check_inputs(method, (w.name for w in method.when if w.holds(values)), route.carried)
    for other in others:  # one that could never be computed here
        _check_inputs(other, needs(other), route.carried, loc="shadow")
    return method, tuple(sorted(values.items())), options


def _pairs(query: str) -> dict[str, str]:
    out: dict[str, str] = {}
    for name, value in parse_qsl(query, keep_blank_values=True):
        if name in out:
            raise RequestError(f"{name[:64]!r} is given twice", loc=("query",), code="duplicate")
        out[name] = value
    out.pop("token", None)
    return out


def _check_inputs(method: Method, needed: Iterable[str], carried: frozenset[str], *, loc: str = "method") -> None:
    if lacking := sorted(n for n in needed if not carried & set(n.split("|"))):
        raise RequestError(
            f"{method.name} needs {', '.join(lacking)}, which single rollouts do not carry; post groups to /reward",
            loc=("query", loc),
            code="method",
        )


def _unknown(name: str, known: Mapping[str, Spec]) -> RequestError:
    near = get_close_matches(name, known, n=1)
    hint = f"Did you mean {near[0]} ({_accepts(known[near[0]])})? " if near else ""
    message = f"unknown parameter {name[:64]!r} of the URL. {hint}Known: method, token, {', '.join(known)}"
    return RequestError(message, loc=("query",), code="unknown_parameter")


def _accepts(spec: Spec) -> str:
    return spec.accepts.removesuffix(" or null")


def _letters(kind: str, options: str | None) -> tuple[str, ...] | None:
    if kind != "choice":
        if options is not None:
            raise RequestError("is for kind=choice", loc=("query", "options"), code="conflict")
        return None
    if options is None:
        return tuple(option_letters(None))
    letters: int | list[str] = (
        int(options) if options.isascii() and options.isdigit() else [c for c in options if c not in ", "]
    )
    try:
        return tuple(option_letters(letters))
    except RequestError as error:
        raise RequestError(error.message, loc=("query", "options"), code=error.code) from None
