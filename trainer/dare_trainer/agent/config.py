"""The agent's configuration: a file next to the agent, and `DARE_AGENT_*` variables, which win over it.

Both, because a Ray actor on an existing cluster does not inherit the shell of whoever submits the job, and because
OpenRLHF passes an agent nothing but a path.
"""

from __future__ import annotations

import json
import logging
import os
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, replace
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Any, Final, Literal

from dare_reward.answers import Kind
from dare_reward.errors import ConfigError, RequestError, misspelt_variables, unknown_name
from dare_reward.estimators.certainty import PROBABILITY
from dare_reward.methods import find, read_line, require_every_rollout, require_rewards, require_steps, settle
from dare_reward.options import TrainOn
from dare_reward.params import Param, Spec, parameters
from dare_reward.runs.line import asked_for
from dare_reward.scoring.shadow_methods import needs
from dare_reward.votes import Waves, require_ballots

logger = logging.getLogger("dare_trainer")

ENVIRONMENT: Final = "DARE_AGENT_"
FILE: Final = "dare_agent.toml"
NOTHING: Mapping[str, Any] = MappingProxyType({})
CARRIED: Final = frozenset(
    {
        "answer", "mean_entropy", "token_entropies", "token_mask", "num_tokens", "label", "sum_logprob",
        "answer_entropy", "answer_logprob", "path",
    }
)  # fmt: skip
NO_STOP: Final = (
    ": OpenRLHF gives an agent nothing that ends a training with a checkpoint. Set warn, and stop the run yourself "
    "(docs/openrlhf-reference.md)"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentConfig:
    """A field `name` is set by `name` in the file and by `DARE_AGENT_NAME`."""

    url: Annotated[str, Param("the reward service")] = "http://127.0.0.1:8000"
    token: Annotated[str, Param("its bearer token; set DARE_TOKEN in the environment instead")] = ""
    run: Annotated[str, Param("the run's name in the service's log")] = ""
    method: Annotated[str, Param("the estimator, a name of `dare-reward methods`")] = "dare"
    params: Annotated[
        Mapping[str, Any],
        Param(
            "its parameters: a table, a JSON object, or the line that `dare-reward calibrate` prints, which names the "
            "method too. Every parameter is sent, so the server's defaults never apply"
        ),
    ] = field(default_factory=lambda: NOTHING)
    shadow: Annotated[
        tuple[str, ...],
        Param('methods to compare with in the log, `["ttrl"]` or `ttrl,scrl`; no reward changes'),
    ] = ()
    kind: Annotated[Kind, Param("how answers compare where a label does not say")] = "math"
    votes_per_prompt: Annotated[
        int, Param("votes of a prompt, a multiple of n_samples_per_prompt; 0: as many. The others never train", ge=0)
    ] = 0
    adaptive: Annotated[
        str,
        Param(
            "votes in waves, while those of the group do not suffice (docs/stopping.md): auto, or a line such as "
            "`delta=0.02&wave=4`; empty: all at once"
        ),
    ] = ""
    abort: Annotated[
        Literal["never", "settled"], Param("settled: cuts a wave short where no outcome can change the label (`ttrl`)")
    ] = "never"
    entropy: Annotated[
        Literal["plugin", "topk", "none"],
        Param("plugin: exact; topk: estimate from the top 20, for engines without the plugin"),
    ] = "plugin"
    entropy_mode: Annotated[
        Literal["temperature", "raw"],
        Param("of the plugin. temperature: of softmax(logits / T), the sampled policy; raw: of softmax(logits)"),
    ] = "temperature"
    pruned: Annotated[
        Literal["zero", "neutral", "mask"],
        Param("reward of a rollout whose answer was pruned (docs/openrlhf-reference.md)"),
    ] = "zero"
    train_on: Annotated[
        TrainOn,
        Param(
            "reasoning: the final answer's tokens are no actions, neither for the loss nor for the KL term (OM-GRPO, "
            "arXiv:2608.03119)"
        ),
    ] = "all"
    temperature: Annotated[
        float, Param("the training temperature; a labelled group at another one is an evaluation. 0: labels decide")
    ] = 0.0
    send: Annotated[Literal["means", "tokens"], Param("tokens: all token entropies travel")] = "means"
    timeout: Annotated[float, Param("seconds of a try")] = 30.0
    retries: Annotated[int, Param("further tries")] = 3
    patience: Annotated[float, Param("seconds of all tries; then the actor computes the reward")] = 60.0
    start_timeout: Annotated[float, Param("seconds that an actor waits for the service when it starts")] = 120.0
    run_log: Annotated[
        str, Param("a folder to which every group is appended, also one that the actor scored (docs/run-log.md)")
    ] = ""
    run_log_texts: Annotated[
        str, Param("what its lines contain beside numbers and answers: prompt, texts, token_entropies, or all")
    ] = ""
    on_collapse: Annotated[
        Literal["off", "warn"], Param("warn: the actor's log says where the run collapses (docs/openrlhf.md)")
    ] = "off"

    def __post_init__(self) -> None:
        for name, spec in specs().items():
            _checked(name, getattr(self, name), spec.check)
        try:
            asked_for(self.run_log_texts)
        except RequestError as error:
            raise ConfigError(f"run_log_texts: {error.message}") from None
        require_rewards(find(self.method), consumer="OpenRLHF")
        require_every_rollout(find(self.method), consumer="OpenRLHF")
        self._check_waves()
        configured = settle(self.method, self.params, shadow=self.shadow)
        require_steps(configured.method, configured.values, consumer="OpenRLHF's agent")
        for name in self.shadow:
            if lacking := [n for n in needs(find(name)) if not CARRIED & set(n.split("|"))]:
                raise ConfigError(f"shadow: {name} needs {', '.join(lacking)}, which the agent does not send")

    def _check_waves(self) -> None:
        if self.abort == "settled" and (not self.adaptive or find(self.method).ballots is None):
            raise ConfigError(
                f"abort=settled cuts votes short that can change nothing, which needs adaptive, and a method that pays "
                f"the most voted answer, such as ttrl; {self.method} may pay others: leave abort out"
            )
        if not self.adaptive:
            return
        if self.votes_per_prompt <= 0:
            raise ConfigError("adaptive asks for votes in waves up to votes_per_prompt, which is not set: say 64")
        Waves.read(self.adaptive, votes=self.votes_per_prompt)
        require_ballots(find(self.method))

    @property
    def waves(self) -> Waves | None:
        """How votes are asked for; None: all at once."""
        return Waves.read(self.adaptive, votes=self.votes_per_prompt) if self.adaptive else None

    @property
    def reads_logprobs(self) -> bool:
        """The method, or a shadow, looks at log-probabilities of the sampled tokens."""
        inputs = frozenset[str]().union(*(find(name).requires for name in (self.method, *self.shadow)))
        return "sum_logprob" in inputs or self.params.get("certainty") == PROBABILITY

    @property
    def every_param(self) -> dict[str, Any]:
        """Each parameter of the method with its value, so that a server's own defaults cannot enter a run."""
        return dict(settle(self.method, self.params, shadow=self.shadow).values)


def read_config(folder: Path, environment: Mapping[str, str] = os.environ) -> AgentConfig:
    """Of `dare_agent.toml` in `folder` (or the file that DARE_AGENT_CONFIG names) and the environment."""
    named = environment.get(f"{ENVIRONMENT}CONFIG")
    path = Path(named) if named else folder / FILE
    if named and not path.is_file():
        raise ConfigError(f"{ENVIRONMENT}CONFIG={named}: no such file")
    values: dict[str, Any] = {}
    if path.is_file():
        try:
            values = tomllib.loads(path.read_text(encoding="utf-8"))
        except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
            raise ConfigError(f"{path}: {error}") from None
    values = with_line(values)
    values |= with_line(
        {
            f.name: environment[ENVIRONMENT + f.name.upper()]
            for f in fields(AgentConfig)
            if ENVIRONMENT + f.name.upper() in environment
        }
    )
    _warn_of(environment)
    if environment.get("DARE_TOKEN", "").split():
        values["token"] = environment["DARE_TOKEN"].split()[0]
    known = {f.name for f in fields(AgentConfig)}
    if unknown := sorted(values.keys() - known):
        raise ConfigError(f"{path}: {unknown_name('setting', unknown[0], sorted(known), listed=True)}")
    return replace(AgentConfig(), **{name: _convert(name, value) for name, value in values.items()})


def _warn_of(environment: Mapping[str, str]) -> None:
    """Variables that nothing reads."""
    known = [ENVIRONMENT + f.name.upper() for f in fields(AgentConfig)]
    for sentence in misspelt_variables([*known, f"{ENVIRONMENT}CONFIG"], environment, prefix=ENVIRONMENT):
        logger.warning("%s", sentence)


def config_text(config: AgentConfig) -> str:
    """The file that `read_config` reads, without defaults and without the token."""
    default = AgentConfig()
    lines = ["# Written by dare-reward train; DARE_AGENT_* variables win over this file."]
    tables = []
    for f in fields(config):
        value = getattr(config, f.name)
        if f.name == "token" or value == getattr(default, f.name):
            continue
        if isinstance(value, Mapping):
            tables = [f"[{f.name}]", *(f"{k} = {json.dumps(v)}" for k, v in value.items())]
        else:
            lines.append(f"{f.name} = {json.dumps(value)}")
    return "\n".join(lines + tables) + "\n"


def with_line(values: Mapping[str, Any]) -> dict[str, Any]:
    """The settings with `method` and `params` apart, if `params` is a line that names both."""
    text = values.get("params")
    if not isinstance(text, str) or text.lstrip().startswith("{"):
        return dict(values)
    method, params = read_line(text)
    if values.get("method", method) != method:
        raise ConfigError(f"params names the method {method}, and method is {values['method']!r}: leave method out")
    return {**values, "method": method, "params": params}


def parse_setting(name: str, value: Any) -> Any:
    """The value of a setting that a command line or a variable writes."""
    if name not in {f.name for f in fields(AgentConfig)}:
        raise ConfigError(unknown_name("setting", name, [f.name for f in fields(AgentConfig)], listed=True))
    return _convert(name, value)


def _convert(name: str, value: Any) -> Any:
    if name == "params":
        try:
            value = json.loads(value) if isinstance(value, str) else value
        except ValueError:
            value = None
        if not isinstance(value, dict):
            raise ConfigError("params must be a JSON object")
        return MappingProxyType(value)
    spec = specs()[name]
    return _checked(name, value, spec.parse if isinstance(value, str) else spec.check)


def _checked(name: str, value: Any, check: Callable[[Any], Any]) -> Any:
    try:
        return check(value)
    except RequestError as error:
        why = NO_STOP if (name, value) == ("on_collapse", "stop") else ""
        raise ConfigError(f"{error.message}{why}") from None


@cache
def specs() -> Mapping[str, Spec]:
    """The settings but `params`."""
    return {s.name: s for s in parameters(AgentConfig, skip=frozenset({"params"}))}
