"""What OpenRLHF's reward URL says: `http://HOST:8000/reward?votes_per_prompt=64&alpha=0.1`, read by one rule.

The URL is the one place of a run's settings: OpenRLHF hands it to every rollout actor, and Ray actors of a running
cluster inherit nothing else from who submits the job. Where this package is not installed there, the service reads the
same URL. What it leaves out is the service's default (`DARE_METHOD`, `DARE_PARAMS`) on both routes, so that one URL
names one method with this package and without it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from types import MappingProxyType
from typing import Annotated, Any, ClassVar, Final, Literal, Self
from urllib.parse import urlencode

from ..answers import Kind, option_letters
from ..errors import RequestError, unknown_name
from ..estimators.method import PROBABILITY, Method
from ..methods import find, other_scale, require_every_rollout, require_rewards, require_steps, settle, specs
from ..options import TrainOn
from ..params import Param, Spec, parameters, query_texts
from ..scoring.shadow_methods import needs
from ..scoring.update import Labelled
from ..votes import Waves, require_ballots
from . import NOTHING, AnswerRules

INSTALL: Final = "install dare-reward on the rollout nodes (docs/openrlhf.md): then rollouts come as groups"


@dataclass(frozen=True, kw_only=True)
class RunSettings:
    """The settings of a run, as the service reads them: a field `name` is `name` in the query.

    params   of the method, each with its value
    said     all that the query says, without the token
    """

    plain: ClassVar[bool] = True  # rollouts come as OpenRLHF posts them, without entropies
    carried: ClassVar[frozenset[str]] = frozenset({"answer", "label"})

    method: Annotated[str, Param("the estimator, a name of `dare-reward methods`; else the service's")] = "dare"
    shadow: Annotated[
        tuple[str, ...], Param("methods to compare with in the log, as ttrl+scrl; no reward changes")
    ] = ()
    run: Annotated[str, Param("the run's name in the run log and on the page; else one of this job's own", le=256)] = ""
    group_size: Annotated[int | None, Param("rollouts of a prompt, --rollout.n_samples_per_prompt", ge=1)] = None
    kind: Annotated[Kind, Param("how answers compare where a label does not say")] = "math"
    options: Annotated[str | None, Param("kind=choice: the letters (ABCD) or their number")] = None
    extra_logs: Annotated[Literal["on", "off"], Param("off: none in the reply, for OpenRLHF before 0.9.0")] = "on"
    label_policy: Annotated[Literal["train", "eval"], Param("what a label that is no object marks")] = "train"
    params: Mapping[str, Any] = field(default_factory=lambda: NOTHING, compare=False)
    said: str = ""

    @classmethod
    def specs(cls) -> Mapping[str, Spec]:
        """The settings by name, in the order of their table; not the method's parameters."""
        declared: Callable[..., object] = cls
        return {s.name: s for s in parameters(declared, skip=frozenset({"params", "said"}))}

    @classmethod
    def read(cls, query: str, *, method: str = "dare", params: Mapping[str, Any] = NOTHING) -> Self:
        """What a URL's query says; `method` and its `params` are the service's, where the query names none.

        RequestError for what does not go together, or never can on this route.
        """
        texts = query_texts(query)
        texts.pop("token", None)
        said, declared = urlencode(sorted(texts.items())), cls.specs()
        chosen = find(texts.pop("method", method))
        require_rewards(chosen, consumer="OpenRLHF")
        require_every_rollout(chosen, consumer="OpenRLHF")
        cls._check_inputs(chosen, chosen.requires, "method")
        own = {name: spec.parse(texts.pop(name), loc=("query",)) for name, spec in declared.items() if name in texts}
        own |= {"method": chosen.name, "said": said}
        shadow = own.get("shadow", ())
        for name in shadow:
            cls._check_inputs((other := find(name, loc=("query", "shadow"))), needs(other), "shadow")
        # Of a name that is the URL's own, the method's parameter is METHOD.NAME.
        known = {f"{chosen.name}.{s.name}" if s.name in declared else s.name: s for s in specs(chosen, shadow=shadow)}
        if unknown := sorted(texts.keys() - known.keys()):
            raise _unknown(unknown[0], ["token", *declared, *known])
        asked = {"missing_entropy": "frequency"} if "missing_entropy" in known else {}
        asked |= params if chosen is find(method) else NOTHING
        asked |= {known[name].name: known[name].parse(text, loc=("query",)) for name, text in texts.items()}
        made = cls(**own, params=MappingProxyType(dict(settle(chosen.name, asked, shadow=shadow).values)))
        made.check()
        return made

    def check(self) -> None:
        """RequestError where the settings do not go together."""
        method = find(self.method)
        require_steps(method, self.params, consumer="OpenRLHF")
        self._check_inputs(method, (w.name for w in method.when if w.holds(self.params)), "method")
        if self.options is not None and self.kind != "choice":
            raise RequestError("is for kind=choice", loc=("query", "options"), code="conflict")
        _ = self.letters

    @classmethod
    def _check_inputs(cls, method: Method, needed: Iterable[str], where: str) -> None:
        """RequestError where the method, or a shadow, could never be computed. Without entropies votes count alone."""
        carried = cls.carried | {"mean_entropy"}
        if lacking := sorted({name for name in needed if not carried & set(name.split("|"))}):
            remedy = f": {INSTALL}" if cls.plain else ""
            message = f"{method.name} needs {', '.join(lacking)}, which OpenRLHF's rollouts do not carry{remedy}"
            raise RequestError(message, loc=("query", where), code="method")

    @cached_property
    def rules(self) -> AnswerRules:
        """How the run reads and compares answers."""
        return AnswerRules(self.params, self.kind, self.letters)

    @property
    def letters(self) -> tuple[str, ...] | None:
        """Of a choice, as `options` names them: `ABCD`, `A,B,C,D`, or their number."""
        if self.options is None:
            return None
        number = re.fullmatch("[0-9]{1,9}", self.options)
        try:
            return option_letters(int(self.options) if number else [c for c in self.options if c not in ", "])
        except RequestError as error:
            raise RequestError(error.message, loc=("query", "options"), code=error.code) from None


@dataclass(frozen=True, kw_only=True)
class ActorSettings(RunSettings):
    """The same, and what only the rollout actor can do."""

    plain: ClassVar[bool] = False
    carried: ClassVar[frozenset[str]] = frozenset(
        {
            "answer", "token_entropies", "token_mask", "num_tokens", "label", "sum_logprob", "answer_entropy",
            "answer_logprob", "path",
        }
    )  # fmt: skip

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

    def check(self) -> None:
        super().check()
        method = find(self.method)
        if self.labelled == "gt" and method.name != "gt" and (words := other_scale(method, self.params)):
            raise RequestError(f"labelled=gt: {words}")
        if self.adaptive and self.votes_per_prompt <= 0:
            raise RequestError("adaptive asks for votes in waves up to votes_per_prompt, which is not set: say 64")
        if self.waves is not None:
            require_ballots(method)

    @property
    def request(self) -> dict[str, Any]:
        """The options of every `POST /reward` of the run."""
        return {"method": self.method, "shadow": self.shadow, "labelled": self.labelled, **self.params}

    @property
    def waves(self) -> Waves | None:
        """How votes are asked for; None: all at once."""
        return Waves.read(self.adaptive, votes=self.votes_per_prompt) if self.adaptive else None

    @property
    def reads_logprobs(self) -> bool:
        """The method, or a shadow, looks at log-probabilities of the sampled tokens."""
        inputs = frozenset[str]().union(*(find(name).requires for name in (self.method, *self.shadow)))
        return "sum_logprob" in inputs or self.params.get("certainty") == PROBABILITY


def _unknown(name: str, known: list[str]) -> RequestError:
    if name in ActorSettings.specs():
        why = f"{name} is done in the rollout actor, and these rollouts come from one without this package: {INSTALL}"
        return RequestError(why, loc=("query", name), code="unknown_parameter")
    message = unknown_name("parameter of the reward URL", name, known, listed=True)
    return RequestError(message, loc=("query",), code="unknown_parameter")
