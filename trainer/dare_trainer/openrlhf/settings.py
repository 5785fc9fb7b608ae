"""What OpenRLHF's reward URL says: `http://HOST:8000/reward?votes_per_prompt=64&alpha=0.1`.

The URL is the one place of a run's settings: OpenRLHF hands it to every rollout actor, and Ray actors of a running
cluster inherit nothing else from who submits the job. What it leaves out is the service's default (`DARE_METHOD`,
`DARE_PARAMS`), read once before the first rollout, so that one URL names one method with this package and without it.
"""

from __future__ import annotations

import json
import os
import re
import uuid
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache
from hashlib import blake2b
from importlib import import_module
from types import MappingProxyType
from typing import Annotated, Any, Final, Literal, Self
from urllib.parse import parse_qsl, urlsplit, urlunsplit

from dare_reward.answers import Kind
from dare_reward.client import environment_token
from dare_reward.errors import ConfigError, RequestError, unknown_name
from dare_reward.estimators.method import PROBABILITY
from dare_reward.methods import find, other_scale, require_every_rollout, require_rewards, require_steps, settle
from dare_reward.methods import specs as method_specs
from dare_reward.openrlhf import url_letters
from dare_reward.options import TrainOn
from dare_reward.params import Param, Spec, parameters, query_texts
from dare_reward.scoring.shadow_methods import needs
from dare_reward.scoring.update import Labelled
from dare_reward.votes import Waves, require_ballots

NOTHING: Final[Mapping[str, Any]] = MappingProxyType({})
WITHOUT_PACKAGE: Final = frozenset({"group_size", "extra_logs"})  # the actor knows both
ROUTE: Final = re.compile(r"(/v1/reward|/get_reward|/reward)?/?$")  # behind the prefix of a gateway
NO_STOP: Final = (
    ": OpenRLHF gives a reward nothing that ends a training with a checkpoint. Set warn, and stop the run yourself"
)
CARRIED: Final = frozenset(
    {
        "answer", "mean_entropy", "token_entropies", "token_mask", "num_tokens", "label", "sum_logprob",
        "answer_entropy", "answer_logprob", "path",
    }
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupSettings:
    """The settings of a run: a field `name` is `name` in the query of the reward URL."""

    method: Annotated[str, Param("the estimator, a name of `dare-reward methods`; else the service's")] = "dare"
    shadow: Annotated[
        tuple[str, ...], Param("methods to compare with in the log, as ttrl+scrl; no reward changes")
    ] = ()
    run: Annotated[str, Param("the run's name in the run log and on the page; else one of this job's own", le=256)] = ""
    kind: Annotated[Kind, Param("how answers compare where a label does not say")] = "math"
    options: Annotated[str, Param("kind=choice: the letters (ABCD) or their number")] = ""
    label_policy: Annotated[Literal["train", "eval"], Param("what a label that is no object marks")] = "train"
    labelled: Annotated[Labelled, Param("gt: a prompt with a label gets that method's rewards")] = "method"
    votes_per_prompt: Annotated[
        int, Param("votes of a prompt, a multiple of n_samples_per_prompt; 0: as many. The others never train", ge=0)
    ] = 0
    adaptive: Annotated[
        str,
        Param("votes in waves, while those so far do not suffice: auto, or a line such as wave%3D4"),
    ] = ""
    entropy: Annotated[
        Literal["plugin", "topk", "none"],
        Param("plugin: exact; topk: estimated from the top 20, for vLLM before 0.27; none: votes count alone"),
    ] = "plugin"
    entropy_mode: Annotated[
        Literal["temperature", "raw"],
        Param("temperature: of softmax(logits / T), the sampled policy; raw: of softmax(logits)"),
    ] = "temperature"
    pruned: Annotated[
        Literal["zero", "neutral", "mask"],
        Param("reward of a rollout whose answer was pruned; mask: neutral, and only its last token trains"),
    ] = "zero"
    train_on: Annotated[TrainOn, Param("reasoning: the final answer's tokens do not train (arXiv:2608.03119)")] = "all"
    send: Annotated[Literal["means", "tokens"], Param("tokens: all token entropies travel")] = "means"
    on_collapse: Annotated[Literal["off", "warn"], Param("warn: the actor's log says where the run collapses")] = "off"
    timeout: Annotated[float, Param("seconds that a group waits for a service; then it is scored in process", gt=0)] = (
        60.0
    )
    start_timeout: Annotated[float, Param("seconds that an actor waits for the service at its start", ge=0)] = 120.0
    params: Mapping[str, Any] = field(default_factory=lambda: NOTHING)  # of the method, each with its value

    @classmethod
    def read(cls, query: str, *, method: str = "dare", params: Mapping[str, Any] = NOTHING) -> Self:
        """The settings of a URL's query; `method` and its `params` are the service's, where the query names none.

        ConfigError names what is wrong, and what you may have meant.
        """
        try:
            texts = {k: v for k, v in query_texts(query).items() if k not in WITHOUT_PACKAGE | {"token"}}
            own = {name: spec.parse(texts.pop(name)) for name, spec in setting_specs().items() if name in texts}
            chosen = own.setdefault("method", method)
            taken = WITHOUT_PACKAGE.union(setting_specs())  # of these names, the method's parameter is METHOD.NAME
            specs = method_specs(find(chosen), shadow=own.get("shadow", ()))
            known = {f"{chosen}.{s.name}" if s.name in taken else s.name: s for s in specs}
            if unknown := sorted(texts.keys() - known.keys()):
                raise ConfigError(unknown_name("parameter of the reward URL", unknown[0], [*setting_specs(), *known]))
            asked = {known[name].name: known[name].parse(text) for name, text in texts.items()}
            asked = {**(params if chosen == method else NOTHING), **asked}
            if own.get("entropy") == "none" and "missing_entropy" in known:
                asked.setdefault("missing_entropy", "frequency")
            made = cls(**own, params=MappingProxyType(dict(settle(chosen, asked, shadow=own.get("shadow", ())).values)))
            made._check()
        except RequestError as error:
            raise ConfigError(f"the reward URL: {error}{NO_STOP if 'on_collapse' in error.message else ''}") from None
        return made

    def _check(self) -> None:
        method = find(self.method)
        require_rewards(method, consumer="OpenRLHF")
        require_every_rollout(method, consumer="OpenRLHF")
        require_steps(method, self.params, consumer="OpenRLHF")
        if self.labelled == "gt" and method.name != "gt" and (words := other_scale(method, self.params)):
            raise ConfigError(f"labelled=gt: {words}")
        _ = self.letters
        inputs = {f"method: {method.name}": (*method.requires, *(w.name for w in method.when if w.holds(self.params)))}
        inputs |= {f"shadow: {name}": needs(find(name)) for name in self.shadow}
        for what, names in inputs.items():
            if lacking := [n for n in names if not CARRIED & set(n.split("|"))]:
                raise ConfigError(f"{what} needs {', '.join(lacking)}, which OpenRLHF's rollouts do not carry")
        if self.adaptive and self.votes_per_prompt <= 0:
            raise ConfigError("adaptive asks for votes in waves up to votes_per_prompt, which is not set: say 64")
        if self.waves is not None:
            require_ballots(method)

    @property
    def letters(self) -> tuple[str, ...] | None:
        """Of a choice, as `options` names them."""
        return url_letters(self.options) if self.options else None

    @property
    def waves(self) -> Waves | None:
        """How votes are asked for; None: all at once."""
        return Waves.read(self.adaptive, votes=self.votes_per_prompt) if self.adaptive else None

    @property
    def reads_logprobs(self) -> bool:
        """The method, or a shadow, looks at log-probabilities of the sampled tokens."""
        inputs = frozenset[str]().union(*(find(name).requires for name in (self.method, *self.shadow)))
        return "sum_logprob" in inputs or self.params.get("certainty") == PROBABILITY


@dataclass(frozen=True, slots=True)
class RewardUrls:
    """The services of a run, of which a group asks the next one where one is away, and the query that they share."""

    services: tuple[str, ...]
    query: str
    token: str = field(repr=False)


def services_of(urls: Sequence[str]) -> tuple[str, ...]:
    """The servers of reward URLs, whoever they are: without our route, query and password."""
    split = [
        at._replace(path=ROUTE.sub("", at.path), netloc=at.netloc.rpartition("@")[2]) for at in map(urlsplit, urls)
    ]
    return tuple(urlunsplit((at.scheme, at.netloc, at.path, "", "")) for at in split)


def start_patience(urls: Sequence[str]) -> float:
    """`start_timeout` of the first URL that has one which can be read; else the default: the URL may be another's."""
    spec = setting_specs()["start_timeout"]
    for url in urls:
        with suppress(KeyError, RequestError):
            return float(spec.parse(dict(parse_qsl(urlsplit(url).query))[spec.name]))
    return float(spec.default)


def read_urls(urls: Sequence[str], environment: Mapping[str, str] = os.environ) -> RewardUrls:
    """Of OpenRLHF's `reward_endpoints`; ConfigError where two of them say different things."""
    split = [urlsplit(url) for url in urls]
    queries = {at.query for at in split}
    if len(queries) > 1:
        raise ConfigError(
            "the reward URLs have different queries: a group goes to any of them, so they must be the same"
        )
    (query,) = queries
    token = dict(parse_qsl(query)).get("token") or environment_token(environment) or ""
    return RewardUrls(services_of(urls), query, token)


@cache
def setting_specs() -> Mapping[str, Spec]:
    """The settings by name, in the order of the table in docs/openrlhf.md; not the method's parameters."""
    return MappingProxyType({s.name: s for s in parameters(GroupSettings, skip=frozenset({"params"}))})


def job_name() -> str:
    """A run's name where the URL has none: the same in all rollout actors of a Ray job, unlike any other job's."""
    try:
        context = import_module("ray").get_runtime_context()
        said = f"{context.get_session_name()} {context.get_job_id()}"
    except Exception:  # noqa: BLE001  (no Ray, or none that runs: this process is all there is of the run)
        said = uuid.uuid4().hex
    return f"openrlhf-{blake2b(said.encode(), digest_size=6).hexdigest()}"


def service_defaults(info: Mapping[str, Any]) -> dict[str, Any]:
    """`method` and `params` of a service that names them in `GET /info`."""
    settings = info.get("settings") or {}
    params = settings.get("params") or "{}"
    return {
        "method": settings.get("method", "dare"),
        "params": json.loads(params) if isinstance(params, str) else params,
    }
