"""The settings of a run: name, values, default and meaning of each, once.

A request's body and URL, the adapters and the command line name those that they take. What
they check, explain and list is made of these declarations. A method's own parameters are in its signature
(`methods.py`), those of reading answers in `answers/rollouts.py`.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Annotated, Final, Literal

from .answers import Kind
from .params import Param, Spec, parameters
from .scoring.update import Labelled, update_specs

OnError = Literal["raise", "abstain", "zero"]
TrainOn = Literal["all", "reasoning"]


def _settings(
    *,
    method: Annotated[str, Param("the estimator, a name of `dare-reward methods`")] = "dare",
    run: Annotated[
        str | None,
        Param("a name that no other job has: it tells runs apart in logs, and in joins, which need it", le=256),
    ] = None,
    step: Annotated[int | None, Param("step of the training, for logs", ge=0, lt=1 << 63)] = None,
    seed: Annotated[int | None, Param("for methods that draw", ge=0, lt=1 << 63)] = None,
    shadow: Annotated[
        tuple[str, ...], Param("methods to compare with, as ttrl+scrl; they change no reward, and are logged")
    ] = (),
    kind: Annotated[Kind, Param("how answers are compared")] = "math",
    on_error: Annotated[
        OnError,
        Param(
            "when the service stays away or cannot score a group: raise ends the run; abstain leaves its rollouts "
            "without a reward (None), where the stack can; zero gives 0.0"
        ),
    ] = "raise",
    train_on: Annotated[
        TrainOn, Param("reasoning: the tokens of the final answers are not trained (docs/advantages.md)")
    ] = "all",
    labelled: Annotated[
        Labelled, Param("gt: a group that has a label gets the rewards of gt, all others the method's")
    ] = "method",
    fallback: Annotated[Literal["local"] | None, Param("local: score in process while the service stays away")] = None,
    timeout: Annotated[float | None, Param("seconds of a try; default: 120", gt=0)] = None,
    retries: Annotated[int | None, Param("further tries; default: 4", ge=0)] = None,
    token: Annotated[str | None, Param("the service's bearer token; default: DARE_TOKEN of the environment")] = None,
    run_log: Annotated[str | None, Param("a folder to which every group is appended (docs/run-log.md)")] = None,
    run_log_texts: Annotated[
        str | None, Param("what its lines hold beside numbers and answers: prompt, texts, or all")
    ] = None,
) -> None: ...


OPTIONS: Final[Mapping[str, Spec]] = MappingProxyType({s.name: s for s in (*parameters(_settings), *update_specs())})
UPDATE: Final = tuple(s.name for s in update_specs())


def chosen(*names: str) -> dict[str, Spec]:
    """Some of the settings, by name, in this order."""
    return {name: OPTIONS[name] for name in names}


# Who takes which. Whatever stands in a URL wins over the body.
BODY: Final = chosen("method", "run", "step", "seed", "shadow", "labelled", *UPDATE)
# An adapter has no place for spans: `train_on` masks the answers' tokens.
CLIENT: Final = ("timeout", "retries", "fallback", "token", "run_log", "run_log_texts")
ADAPTER: Final = chosen(
    *("method", "shadow", "seed", "kind", "run", "on_error", "train_on", "labelled"),
    *CLIENT,
    *(name for name in UPDATE if name != "spans"),
)
